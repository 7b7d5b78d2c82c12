"""Execute the course's notebooks top to bottom in fresh kernels and write them back in one fixed form.

Usage: python -m tools.notebooks.refresh_notebooks [NOTEBOOK ...]     (a number such as 03; none means all)

Two runs write the same bytes, apart from times that a cell measures and prints: no widget state, counts 1..n, streams
in one piece, only the metadata that a notebook needs. A notebook in which a cell fails is left as it was. Cells whose
outputs changed are named.
"""

import copy
import os
import sys
from concurrent.futures import ThreadPoolExecutor

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from .manifest import NOTEBOOKS
from .own_sockets import AsyncKernelManager

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def execute(notebook, folder):
    """Run every cell of a notebook in a fresh kernel that starts in `folder`, as nbval's does."""
    kernel = {"kernel_name": "python3", "kernel_manager_class": AsyncKernelManager, "timeout": 120}
    resources = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, coalesce_streams=True, resources=resources, **kernel).execute()


def normalise(notebook):
    """Drop what differs from run to run or belongs to one session: widget views, hidden outputs, editor traces.

    Tags stay, and that a cell opens with its input folded.
    """
    notebook.metadata = nbformat.from_dict(METADATA)
    for cell in notebook.cells:
        kept = {"tags": cell.metadata["tags"]} if cell.metadata.get("tags") else {}
        if cell.metadata.get("jupyter", {}).get("source_hidden"):
            kept["jupyter"] = {"source_hidden": True}
        cell.metadata = nbformat.from_dict(kept)
        for output in cell.get("outputs", []):
            output.get("data", {}).pop(WIDGET_VIEW, None)


def refresh(path):
    """Execute and normalise one notebook, and print which cells changed; return None, or what went wrong."""
    notebook = nbformat.read(path, as_version=4)
    before = copy.deepcopy(notebook.cells)
    try:
        execute(notebook, path.parent)
    except CellExecutionError as error:
        return f"{path.name} is left as it was, a cell failed:\n{error}"
    normalise(notebook)
    nbformat.validate(notebook)
    partial = path.with_suffix(".part")
    nbformat.write(notebook, partial)
    partial.replace(path)
    changed = [cell.id for cell, former in zip(notebook.cells, before, strict=True) if cell != former]
    print(f"{path.name}: {'changed: ' + ', '.join(changed) if changed else 'no output changed'}", flush=True)
    return None


def chosen(names):
    """The notebooks whose file names begin with the given names, or all of them."""
    paths = [path for pattern in ("*.ipynb", "solutions/*.ipynb") for path in sorted(NOTEBOOKS.glob(pattern))]
    for name in names:
        if not any(path.name.startswith(name) for path in paths):
            sys.exit(f"no notebook begins with {name}; there are {', '.join(path.name for path in paths)}")
    return [path for path in paths if not names or path.name.startswith(tuple(names))]


def main(names):
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # kernels inherit it: two of them share the cores
    with ThreadPoolExecutor(max_workers=2) as pool:
        problems = [problem for problem in pool.map(refresh, chosen(names)) if problem]
    if problems:
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main(sys.argv[1:])
