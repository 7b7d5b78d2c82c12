"""Keep workbook/, the learner's own copies of the course's notebooks. Nothing that they changed is ever overwritten.

python tools/setup/workbook.py fill        copy the notebooks that aren't there yet, and say which have a newer version
python tools/setup/workbook.py reset 03    bring the newest 03, and keep the learner's next to it if they changed it

A copy has no outputs, so that a prediction is one, but it keeps the explorers' first pictures. The environment variable
ATTENTION_WORKBOOK names another folder for the copies, because each learner in a class has one.
"""

import hashlib
import json
import os
import sys
from itertools import count
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = ROOT / "notebooks"
WORKBOOK = Path(os.environ.get("ATTENTION_WORKBOOK") or ROOT / "workbook")
# For each copy, the version that it was made with. The exercises know by this file that a notebook is a learner's copy.
VERSIONS = WORKBOOK / ".versions.json"
# Where `make lab` has Lab keep its layout, which at first is one with the file browser collapsed.
LAYOUT = ".lab/default-37a8.jupyterlab-workspace"
COLLAPSED = {"layout-restorer:data": {"left": {"collapsed": True, "visible": True, "widgetStates": {}}}}
# How a learner brings a notebook's newest version: there's no make on Windows.
RESET = ".venv\\Scripts\\python tools/setup/workbook.py reset " if os.name == "nt" else "make reset NOTEBOOK="
# Lab's page still holds the former version, and would write it over the new one.
IF_OPEN = "If it's open in JupyterLab: File > Reload Notebook from Disk. If Lab asks first: Revert, not Overwrite."
LESSONS = ("*.ipynb", "solutions/*.ipynb")
SVG = "image/svg+xml"


def names(*patterns: str) -> list[str]:
    """What the course calls these files: their paths in notebooks/, such as solutions/03_solutions.ipynb."""
    return [path.relative_to(NOTEBOOKS).as_posix() for pattern in patterns for path in sorted(NOTEBOOKS.glob(pattern))]


def version(path: Path) -> str | None:
    """A hash of what a learner writes; None for what isn't there, or can't be read.

    For a notebook, that's each cell's type, source and attachments (pictures pasted into it), but not its outputs.
    """
    try:
        text = path.read_bytes()
        if path.suffix == ".ipynb":
            cells = json.loads(text)["cells"]
            parts = [[c["cell_type"], "".join(c["source"]), *filter(None, [c.get("attachments")])] for c in cells]
            text = json.dumps(parts).encode()
    except (OSError, ValueError, KeyError):
        return None
    return hashlib.sha256(text).hexdigest()


def without_outputs(notebook: dict) -> dict:
    """A notebook, of which only explorers' pictures stay."""
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            pictures = [output for output in cell["outputs"] if SVG in output.get("data", {})]
            for picture in pictures:
                picture |= {"execution_count": None} if picture["output_type"] == "execute_result" else {}
            cell |= {"execution_count": None, "outputs": pictures}
    return notebook


def fresh(source: Path) -> bytes:
    """A course's file as a learner first gets it: without outputs except explorers' pictures, and unchanged for Lab."""
    if source.suffix != ".ipynb":
        return source.read_bytes()
    from ipykernel.ipkernel import IPythonKernel  # here, because it takes time that most calls needn't spend

    notebook = without_outputs(json.loads(source.read_bytes()))
    notebook["metadata"]["language_info"] = IPythonKernel.language_info  # else Lab calls it changed once it's opened
    return (json.dumps(notebook, ensure_ascii=False, indent=1) + "\n").encode()


def write(path: Path, content: bytes) -> None:
    """Write completely or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    part.write_bytes(content)
    part.replace(path)


def read_versions() -> dict[str, str]:
    return json.loads(VERSIONS.read_bytes()) if VERSIONS.exists() else {}


def sign(texts: list[bytes]) -> None:
    """Let Jupyter on this machine trust what these notebooks hold: else it doesn't show stored SVGs."""
    import nbformat  # here, as above
    from nbformat.sign import NotebookNotary

    with NotebookNotary() as notary:
        for text in texts:
            notary.sign(nbformat.reads(text.decode(), as_version=4))


def bring(wanted: list[str], versions: dict[str, str]) -> None:
    """Copy the course's newest files and record it. What a learner changed moves first: no interruption loses it."""
    texts = {name: fresh(NOTEBOOKS / name) for name in wanted}
    if notebooks := [text for name, text in texts.items() if name.endswith(".ipynb")]:
        sign(notebooks)
    for name, text in texts.items():
        copy, newest = WORKBOOK / name, version(NOTEBOOKS / name)
        mine = version(copy)
        if copy.exists() and (mine is None or mine not in (versions.get(name), newest)):
            free = (copy.with_name(f"{copy.stem}.yours-{number}{copy.suffix}") for number in count(1))
            kept = copy.rename(next(path for path in free if not path.exists()))
            why = "" if mine else " (it can't be read)"
            print(f"Yours is now {kept.relative_to(WORKBOOK.parent).as_posix()}{why}.")
        write(copy, text)
        versions[name] = newest
    write(VERSIONS, json.dumps(versions, indent=1, sort_keys=True).encode())


def fill() -> None:
    """Copy what's missing or damaged and the newest of what notebooks show, and print which copies are older."""
    layout = WORKBOOK / LAYOUT
    if not layout.exists():
        write(layout, json.dumps({"data": COLLAPSED, "metadata": {"id": "default"}}).encode())
    versions, wanted = read_versions(), []
    for name in names(*LESSONS, "pictures/*.svg", "*.md"):
        mine, newest = version(WORKBOOK / name), version(NOTEBOOKS / name)
        if mine is None or (mine != newest and not name.endswith(".ipynb")):
            wanted.append(name)
        elif mine == newest:
            versions[name] = newest
        elif versions.get(name) != newest:
            age = "has a newer version" if name in versions else "may have a newer version (there's no record of yours)"
            bring_it = f"{RESET}{name.split('_')[0]} brings it, and keeps yours if you changed a cell"
            print(f"{name}: the course {age}; {bring_it}.")
            versions.setdefault(name, newest)  # without a record it's said only once
    bring(wanted, versions)


def reset(start: str) -> None:
    """Bring the notebook whose name starts so; the learner's stays next to it, unless only its outputs are theirs."""
    start = start.zfill(2) if start.isdigit() else start
    matches = [name for name in names(*LESSONS) if name.startswith(start)]
    if len(matches) != 1:
        listed = ", ".join(name.removesuffix(".ipynb") for name in names(*LESSONS))
        sys.exit(f"NOTEBOOK={start} doesn't name one notebook of {listed}. A number will do: {RESET}03")
    bring(matches, read_versions())
    print(f"{WORKBOOK.name}/{matches[0]} is the course's newest version. {IF_OPEN}")


def main(arguments: list[str]) -> None:
    try:
        match arguments:
            case ["fill"]:
                fill()
            case ["reset", name]:
                reset(name)
            case _:
                sys.exit("usage: python tools/setup/workbook.py fill | reset NOTEBOOK")
    except OSError as error:
        sys.exit(f"Cannot write the workbook, or what Jupyter keeps about it: {error}.")


if __name__ == "__main__":
    main(sys.argv[1:])
