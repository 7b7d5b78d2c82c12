"""Keep workbook/, the learner's own copies of the course's notebooks. No cell that they changed is ever overwritten.

python tools/setup/workbook.py fill        copy the notebooks that are not there yet, tell which have a newer version
python tools/setup/workbook.py reset 03    bring the newest 03, and keep the learner's beside it if they changed it

A copy has no outputs, so that a prediction is one, but for the explorers' first pictures. The environment variable
ATTENTION_WORKBOOK names another folder for them, as a class has one for each learner.
"""

import hashlib
import json
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = ROOT / "notebooks"
WORKBOOK = Path(os.environ.get("ATTENTION_WORKBOOK") or ROOT / "workbook")
# For each copy, the sha256 of the cells that it was made with; once it was that of the course's whole file.
# The exercises know by this file that their notebook is a learner's copy.
VERSIONS = WORKBOOK / ".versions.json"
SVG = "image/svg+xml"
# What a kernel says of itself. Where a notebook says anything else, Lab calls it changed as soon as it is opened.
LANGUAGE = {
    "codemirror_mode": {"name": "ipython", "version": sys.version_info.major},
    "file_extension": ".py",
    "mimetype": "text/x-python",
    "name": "python",
    "nbconvert_exporter": "python",
    "pygments_lexer": "ipython3",
    "version": sys.version.split()[0],
}


def course() -> list[Path]:
    found = sorted(NOTEBOOKS.glob("*.ipynb")) + sorted(NOTEBOOKS.glob("solutions/*.ipynb"))
    if not found:
        sys.exit(f"{NOTEBOOKS} holds no notebook: is this a whole copy of the course?")
    return found


def is_notebook(text: bytes) -> bool:
    try:
        return "cells" in json.loads(text)
    except (TypeError, ValueError):
        return False


def version(text: bytes) -> str:
    """A hash of the types and sources of a notebook's cells: running and saving it do not change that."""
    try:
        cells = [(cell["cell_type"], "".join(cell["source"])) for cell in json.loads(text)["cells"]]
    except (TypeError, ValueError, KeyError):  # no notebook: all of it counts
        return hashlib.sha256(text).hexdigest()
    return hashlib.sha256(json.dumps(cells).encode()).hexdigest()


def fresh(text: bytes) -> bytes:
    """A notebook as a learner first opens it: without outputs but for explorers' pictures, and unchanged for Lab."""
    if not is_notebook(text):
        return text
    notebook = json.loads(text)
    notebook["metadata"]["language_info"] = LANGUAGE
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            pictures = [output for output in cell["outputs"] if SVG in output.get("data", {})]
            for picture in pictures:
                picture |= {"execution_count": None} if picture["output_type"] == "execute_result" else {}
            cell |= {"execution_count": None, "outputs": pictures}
    return (json.dumps(notebook, ensure_ascii=False, indent=1) + "\n").encode()


def write(path: Path, content: bytes) -> None:
    """Write whole or not at all."""
    part = path.with_name(f".{path.name}.part")
    part.write_bytes(content)
    os.replace(part, path)


def read_versions() -> dict[str, str]:
    try:
        versions = json.loads(VERSIONS.read_bytes())
    except (OSError, ValueError):
        return {}
    return versions if isinstance(versions, dict) else {}


def write_versions(versions: dict[str, str]) -> None:
    write(VERSIONS, json.dumps(versions, indent=1, sort_keys=True).encode())


def name_of(notebook: Path) -> str:
    """The course's name for a notebook: its path in there, such as solutions/03_solutions.ipynb."""
    return notebook.relative_to(NOTEBOOKS).as_posix()


def number(notebook: Path) -> str:
    return name_of(notebook).removesuffix(".ipynb").split("_")[0]


def sign(*texts: bytes) -> None:
    """Let Jupyter on this machine trust what these notebooks hold: else it shows no stored SVG."""
    if not (notebooks := [text for text in texts if is_notebook(text)]):
        return
    try:
        import nbformat  # here, since it costs time that most calls need not spend
        from nbformat.sign import NotebookNotary

        with NotebookNotary() as notary:
            for text in notebooks:
                notary.sign(nbformat.reads(text.decode(), as_version=4))
    except Exception as error:  # whatever Jupyter finds amiss: the copies are worth having all the same
        print(f"Stored pictures of explorers will not show until their cells are run: Jupyter cannot sign ({error}).")


def bring_along() -> None:
    """Bring what notebooks show and link to, the course's own and newest: nothing that a learner writes in."""
    for found in [*NOTEBOOKS.glob("pictures/*.svg"), *NOTEBOOKS.glob("glossary.md")]:
        copy = WORKBOOK / name_of(found)
        copy.parent.mkdir(exist_ok=True)
        if not copy.exists() or copy.read_bytes() != found.read_bytes():
            write(copy, found.read_bytes())


def fill() -> None:
    """Copy what is missing, and tell in a line each which copies have a newer version."""
    WORKBOOK.mkdir(exist_ok=True)
    bring_along()
    versions = read_versions()
    copies = {notebook: WORKBOOK / name_of(notebook) for notebook in course()}
    missing = {copy: fresh(notebook.read_bytes()) for notebook, copy in copies.items() if not copy.exists()}
    sign(*missing.values())
    for copy, text in missing.items():
        copy.parent.mkdir(exist_ok=True)
        write(copy, text)
    for notebook, copy in copies.items():
        name, newest = name_of(notebook), version(notebook.read_bytes())
        made_from = newest if version(copy.read_bytes()) == newest else of_cells(versions.get(name), notebook, copy)
        bring = f"make reset NOTEBOOK={number(notebook)} brings it, and keeps yours beside it if you changed a cell."
        if made_from is None:
            print(f"{name}: the course's version may be newer than yours (there is no record); {bring}")
            made_from = newest  # said once: from now on there is a record
        elif made_from != newest:
            print(f"{name}: the course has a newer version; {bring}")
        versions[name] = made_from
    write_versions(versions)


def of_cells(recorded: str | None, *files: Path) -> str | None:
    """A recorded hash as it is kept now; one of a whole file that is no more stays, and is that of no cells."""
    texts = [file.read_bytes() for file in files]
    return next((version(text) for text in texts if hashlib.sha256(text).hexdigest() == recorded), recorded)


def choose(name: str) -> Path:
    """Return the one notebook that is called `name`, or starts with it."""
    found = course()
    matches = [path for path in found if name_of(path) in (name, f"{name}.ipynb")]
    matches = matches or [path for path in found if name_of(path).startswith(name)]
    if len(matches) == 1:
        return matches[0]
    problem = "names no notebook" if not matches else "names several notebooks"
    listed = ", ".join(name_of(path).removesuffix(".ipynb") for path in found)
    sys.exit(f"NOTEBOOK={name} {problem}: give one of {listed}, or its number, as in: make reset NOTEBOOK=03")


def free_name(copy: Path) -> Path:
    count = 1
    while os.path.lexists(kept := copy.with_name(f"{copy.stem}.yours-{count}.ipynb")):
        count += 1
    return kept


def reset(name: str) -> None:
    """Bring the course's notebook; the learner's moves to a free name first, so that no interruption loses it.

    A copy whose cells nobody changed is replaced: it holds nothing of the learner's but outputs.
    """
    notebook = choose(name)
    copy, newest = WORKBOOK / name_of(notebook), fresh(notebook.read_bytes())
    copy.parent.mkdir(parents=True, exist_ok=True)
    made_from = of_cells(read_versions().get(name_of(notebook)), notebook, *[copy] * copy.is_file())
    if os.path.lexists(copy) and not (copy.is_file() and version(copy.read_bytes()) in (made_from, version(newest))):
        kept = free_name(copy)
        copy.rename(kept)
        print(f"Yours is now {kept.relative_to(WORKBOOK.parent).as_posix()}.")
    sign(newest)
    write(copy, newest)
    print(f"{WORKBOOK.name}/{name_of(notebook)} is the course's newest version.")
    write_versions(read_versions() | {name_of(notebook): version(newest)})


def main(arguments: list[str]) -> None:
    try:
        match arguments:
            case ["fill"]:
                fill()
            case ["reset", *names]:
                reset(" ".join(names))
            case _:
                sys.exit("usage: python tools/setup/workbook.py fill | reset NOTEBOOK")
    except OSError as error:
        sys.exit(f"Cannot keep the workbook: {error}.")


if __name__ == "__main__":
    main(sys.argv[1:])
