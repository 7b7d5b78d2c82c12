"""What nbval can't see in the notebooks: cells that never ran, pictures, links, and what this machine left in them."""

import base64
import io
import json
import re

import pytest
from course import (
    COURSE,
    FOLDER,
    FREE,
    LESSONS,
    PATHS,
    ROOT,
    anchors,
    at,
    code_cells,
    numbers_in,
    read,
    tags,
    text_of,
    without_measured,
)
from PIL import Image

from tools.notebooks import draw_map, place_course

FIGURES = json.loads((ROOT / "data" / "published.json").read_text(encoding="utf-8"))["figures"]
each_notebook = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
each_entry = pytest.mark.parametrize("entry", COURSE, ids=lambda entry: entry.number)


def test_the_manifest_lists_what_is_there_in_its_order():
    assert [path for path in PATHS if path.parent == FOLDER] == [entry.path for entry in COURSE]
    solutions = [path.name for path in PATHS if path.parent == FOLDER / "solutions"]
    assert solutions == [f"{path.name[:2]}_solutions.ipynb" for path in LESSONS]


@pytest.mark.parametrize("page", ["README", "TEACHING"])
def test_a_page_says_what_the_manifest_says(page):
    """`make course` writes it."""
    text = getattr(place_course, page).read_text(encoding="utf-8")
    assert text == {"README": place_course.readme, "TEACHING": place_course.teaching}[page](text)


@each_entry
def test_a_notebook_says_and_draws_what_the_manifest_says(entry):
    """`make course` writes it."""
    sources = [cell.source for cell in read(entry.path).cells]
    assert sources == place_course.cells(entry, sources)
    assert set(entry.here) <= set(draw_map.PARTS)
    drawn = (FOLDER / entry.picture).read_text(encoding="utf-8") == draw_map.drawing(entry.here)
    assert drawn, f"{entry.picture} isn't what `make course` draws"


@each_notebook
def test_every_code_cell_was_run_once_in_order_and_without_error(path):
    """nbval compares only cells that ran: it would pass a notebook without outputs."""
    wrong = []
    for count, cell in enumerate(code_cells(read(path)), 1):
        if cell.execution_count != count:
            wrong.append(at(path, cell, f"is cell {count}, but its count is {cell.execution_count}"))
        failed = [o for o in cell.outputs if o.output_type == "error" or o.get("name") == "stderr"]
        wrong += [at(path, cell, f"{output.get('ename', 'stderr')}: {text_of(output)}") for output in failed]
    assert not wrong, "\n".join(wrong)


OF_ONE_MACHINE = {
    "a widget of one session": r"widget-view|\"widgets\"",
    "an address in memory": r" at 0x[0-9a-f]{6}",
    "a path": r"/(?:home|root|tmp|Users|usr)/|[A-Z]:\\\\",
    "when it ran": r"\"execution\":|iopub\.",
}
COMPARED = {  # in outputs that nbval compares
    "a version": r"(?i)\b(?:python|torch|numpy|matplotlib|ipywidgets)[ =v]+\d+\.\d+\.\d+",
    "a time": r"\d ?(?:ms|µs)\b",
}


@each_notebook
def test_nothing_of_one_run_or_machine_is_stored(path):
    wrong = []
    for cell in read(path).cells:
        outputs = cell.get("outputs", [])
        stored = json.dumps([cell.metadata, outputs], ensure_ascii=False)
        said = "" if FREE in tags(cell) else without_measured("\n".join(map(text_of, outputs)))
        for text, patterns in ((stored, OF_ONE_MACHINE), (said, COMPARED)):
            for what, pattern in patterns.items():
                wrong += [at(path, cell, f"{what}: {text[m.start() :][:80]}") for m in re.finditer(pattern, text)]
    assert not wrong, "\n".join(wrong)


@each_notebook
def test_a_notebook_has_the_form_that_refresh_gives_it(path):
    """Jupyter writes more than that as soon as someone saves it there."""
    from tools.notebooks import refresh_notebooks as refreshing  # its nbformat costs a moment

    notebook = refreshing.nbformat.read(path, as_version=4)
    refreshing.normalise(notebook)
    same = refreshing.nbformat.writes(notebook) + "\n" == path.read_text(encoding="utf-8")
    assert same, f"{path.name} wasn't written by `make refresh NOTEBOOK={path.name[:2]}`"


@each_notebook
def test_every_figure_is_drawn_and_captioned(path):
    """nbval compares no pictures. Readers who can't see one get the caption as its alt text."""
    wrong = []
    for cell in code_cells(read(path)):
        for place, output in enumerate(cell.outputs):
            if "image/png" in output.get("data", {}):
                after = cell.outputs[place + 1 : place + 2]
                faults = faults_of_figure(output, after[0] if after else None)
                wrong += [at(path, cell, fault) for fault in faults]
    assert not wrong, "\n".join(wrong)


def faults_of_figure(output, caption):
    """What is wrong with a figure, in words; caption: the output after it, or None."""
    said = output.metadata.get("image/png", {})
    under = caption.get("data", {}).get("text/markdown") if caption else None
    if not said.get("alt") or under != f"*Figure:* {said['alt']}":
        yield "the figure's alt text isn't the caption under it"
    image = Image.open(io.BytesIO(base64.b64decode(output.data["image/png"]))).convert("L")
    blank = image.histogram()[image.getpixel((0, 0))] / (image.width * image.height)
    if blank > 0.98:
        yield f"{blank:.1%} of the figure is blank"
    if not (400 <= said.get("width", 0) <= 1200 and image.width == 2 * said["width"] and 400 <= image.height <= 1200):
        yield f"the figure has {image.width} x {image.height} pixels, and is shown {said.get('width')} wide"


def test_nbval_compares_all_but_the_numbers_after_the_sign_of_a_measurement():
    text = "split ≈ 1,177 ms, fused ≈   6.3e-05, leaky ≈ -0.07; above 1.2: True, [0.27] ≈ 9"
    assert without_measured(text) == "split ≈ ms, fused ≈, leaky ≈; above 1.2: True, [0.27] ≈"
    assert "2 of 3" in without_measured("≈ 0.5 in 2 of 3")


@each_notebook
def test_links_lead_somewhere(path):
    notebook, wrong = read(path), []
    for cell in notebook.cells:
        for target in re.findall(r"\]\(([^)]+)\)", cell.source) if cell.cell_type == "markdown" else []:
            file, _, anchor = target.partition("#")
            other = path.parent / file if file else path
            if not target.startswith("https://") and not (
                other.exists() and (not anchor or anchor in anchors(read(other)))
            ):
                wrong.append(at(path, cell, target))
    assert not wrong, "\n".join(wrong)


def test_the_teachers_page_and_the_glossary_lead_to_what_is_there():
    teaching = place_course.TEACHING.read_text(encoding="utf-8")
    for number, heading in re.findall(r"^\| (\d\d) \| .* \| \*(.+)\* \|$", teaching, flags=re.M):
        [path] = FOLDER.glob(f"{number}_*.ipynb")
        assert heading.replace(" ", "-") in anchors(read(path)), f"{path.name} has no section {heading}"
    rows = [line for line in (FOLDER / "glossary.md").read_text(encoding="utf-8").splitlines() if line[:3] == "| `"]
    for row in rows:
        name, files = row.split("|")[1].strip(" `"), re.findall(r"\]\((.*?)\)", row)
        assert files, row
        for file in files:
            assert any(name in cell.source for cell in read(FOLDER / file).cells), f"{file} doesn't use {name}"


@each_notebook
def test_what_one_clicks_to_unfold_is_plain_text(path):
    """Markdown in a summary is shown as it was typed."""
    for cell in read(path).cells:
        for summary in re.findall(r"<summary>(.*?)</summary>", cell.source, flags=re.S):
            assert not re.search(r"[`$*\\]|\]\(", summary), at(path, cell, summary)


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure["id"])
def test_a_published_figure_is_printed_where_the_course_says(figure):
    [path] = FOLDER.glob(f"{figure['notebook']}_*.ipynb")
    [cell] = [cell for cell in code_cells(read(path)) if f"published-{figure['id']}" in tags(cell)]
    printed = "\n".join(text_of(output) for output in cell.outputs)
    if figure["expected"] == "equal":
        assert "True" in printed, at(path, cell, printed)
        assert "False" not in printed, at(path, cell, printed)
        return
    for expected in runs_of_numbers(figure["expected"]):
        assert holds_run(numbers_in(printed), expected), at(path, cell, f"{expected} isn't in {printed}")


def runs_of_numbers(expected):
    """What must stand together: a table's numbers, or each entry of a dictionary on its own."""
    if isinstance(expected, dict):
        return [run for value in expected.values() for run in runs_of_numbers(value)]
    if isinstance(expected, list):
        return [[number for part in expected for run in runs_of_numbers(part) for number in run]]
    return [[float(expected)]]


def holds_run(numbers, run, tolerance=6e-5):
    starts = range(len(numbers) - len(run) + 1)
    return any(all(abs(numbers[s + i] - x) <= tolerance for i, x in enumerate(run)) for s in starts)
