"""Keep workbook/, the learner's own copies of the course's notebooks. No notebook in it is ever overwritten.

python tools/setup/workbook.py fill        copy the notebooks that are not there yet, tell which have a newer version
python tools/setup/workbook.py reset 03    bring the newest 03, and keep the learner's beside it
"""

import hashlib
import json
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = ROOT / "notebooks"
WORKBOOK = ROOT / "workbook"
VERSIONS = WORKBOOK / ".versions.json"  # for each copy, the sha256 of the course's notebook it was made from


def course() -> list[Path]:
    found = sorted(NOTEBOOKS.glob("*.ipynb")) + sorted(NOTEBOOKS.glob("solutions/*.ipynb"))
    if not found:
        sys.exit(f"{NOTEBOOKS} holds no notebook: is this a whole copy of the course?")
    return found


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


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


def sign(*notebooks: Path) -> None:
    """Let Jupyter on this machine trust what notebooks hold, and so their copies: else it shows no stored SVG."""
    contents = [text for path in notebooks if is_notebook(text := path.read_bytes())]
    if not contents:
        return
    try:
        import nbformat  # here, since it costs time that most calls need not spend
        from nbformat.sign import NotebookNotary

        with NotebookNotary() as notary:
            for text in contents:
                notary.sign(nbformat.reads(text.decode(), as_version=4))
    except Exception as error:  # whatever Jupyter finds amiss: the copies are worth having all the same
        print(f"Stored pictures of explorers will not show until their cells are run: Jupyter cannot sign ({error}).")


def is_notebook(text: bytes) -> bool:
    try:
        return "cells" in json.loads(text)
    except (TypeError, ValueError):
        return False


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
    sign(*(notebook for notebook in course() if not (WORKBOOK / name_of(notebook)).exists()))
    for notebook in course():
        name = name_of(notebook)
        copy, newest = WORKBOOK / name, sha256(notebook)
        if not copy.exists():
            copy.parent.mkdir(exist_ok=True)
            write(copy, notebook.read_bytes())
        made_from = newest if sha256(copy) == newest else versions.get(name)
        bring = f"make reset NOTEBOOK={number(notebook)} brings it and keeps yours beside it."
        if made_from is None:
            print(f"{name}: the course's version may be newer than yours (there is no record); {bring}")
            made_from = newest  # said once: from now on there is a record
        elif made_from != newest:
            print(f"{name}: the course has a newer version; {bring}")
        versions[name] = made_from
    write_versions(versions)


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
    """Bring the course's notebook; the learner's moves to a free name first, so that no interruption loses it."""
    notebook = choose(name)
    copy = WORKBOOK / name_of(notebook)
    copy.parent.mkdir(parents=True, exist_ok=True)
    if copy.exists() and sha256(copy) == sha256(notebook):
        print(f"workbook/{name_of(notebook)} is the course's newest version already, unchanged.")
    else:
        if os.path.lexists(copy):
            kept = free_name(copy)
            copy.rename(kept)
            print(f"Yours is now {kept.relative_to(ROOT).as_posix()}.")
        sign(notebook)
        write(copy, notebook.read_bytes())
        print(f"workbook/{name_of(notebook)} is the course's newest version.")
    write_versions(read_versions() | {name_of(notebook): sha256(notebook)})


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
