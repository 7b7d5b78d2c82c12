"""A learner's server, as a hub starts it under the learner's account: the workbook is filled, then JupyterLab opens it.

It does what `make lab` does; the hub hands its own settings over in the environment.
"""

import os
import sys
from pathlib import Path

COURSE = Path(__file__).resolve().parents[1]
# nbgrader comes with them: a teacher's, not a learner's.
NOT_FOR_LEARNERS = ["formgrader", "validate_assignment", "assignment_list", "course_list"]


def options(folder):
    """What JupyterLab is told, for a workbook in this folder."""
    return [
        f"--ServerApp.root_dir={folder}",
        f"--LabApp.workspaces_dir={folder / '.lab'}",
        "--ContentsManager.pre_save_hook=tools.setup.lab_hook.drop_dead_views",
        "--KernelManager.transport=ipc",  # sockets in the home; what a kernel sends by a port, every account may hear
        *[f"--ServerApp.jpserver_extensions=nbgrader.server_extensions.{name}=False" for name in NOT_FOR_LEARNERS],
    ]


if __name__ == "__main__":
    sys.path.insert(0, str(COURSE))
    os.environ["ATTENTION_WORKBOOK"] = str(Path.home() / "workbook")
    # A short path: a socket's name has 107 characters at most.
    os.environ["JUPYTER_RUNTIME_DIR"] = str(Path.home() / ".jupyter" / "run")
    os.environ["JUPYTERHUB_DEFAULT_URL"] = "/lab/tree/00_start_here.ipynb"
    from jupyterhub.singleuser import main

    from tools.setup import workbook

    workbook.fill()
    sys.argv += options(workbook.WORKBOOK)
    main()
