"""What a notebook says that is older than the course: one sentence, without a traceback."""

import os
import re


class OlderNotebook(ImportError):
    """Says that the notebook is older than the course, and how to get the new one."""

    def __init__(self):
        path = os.environ.get("JPY_SESSION_NAME", "")  # the notebook of this kernel; Jupyter's server sets it
        number = re.match(r"\d\d", path.replace("\\", "/").rpartition("/")[2])
        which = number[0] if number else "NN"
        super().__init__(
            f"this notebook is older than the course: `make reset NOTEBOOK={which}` brings the new one and keeps yours"
        )

    def _render_traceback_(self):
        """What IPython shows in the place of a traceback."""
        return [str(self)]
