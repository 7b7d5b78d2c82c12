"""What nbval can't see in the notebooks: cells that never ran, pictures, links, and what this machine left in them."""

import ast
import json
import re
import sys

import pytest
from course import (
    FOLDER,
    LESSONS,
    PATHS,
    ROOT,
    anchors,
    at,
    code_cells,
    printed_in,
    read,
    tags,
    text_of,
    without_measured,
)

from tools.notebooks import place_course
from tools.notebooks.manifest import COURSE, HELP
from tools.notebooks.place_classes import CAUSAL, MASKED, PAGES, class_cell, statements

FIGURES = json.loads((ROOT / "data" / "published.json").read_text(encoding="utf-8"))["figures"]
APPENDIX = COURSE[-1].path
each_notebook = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
each_entry = pytest.mark.parametrize("entry", COURSE, ids=lambda entry: entry.number)


def test_the_manifest_lists_what_is_there_in_its_order():
    assert [path for path in PATHS if path.parent == FOLDER] == [*(entry.path for entry in COURSE), HELP]
    solutions = [path.name for path in PATHS if path.parent == FOLDER / "solutions"]
    assert solutions == [f"{path.name[:2]}_solutions.ipynb" for path in LESSONS]


@pytest.mark.parametrize("page", ["README", "TEACHING", "NAMES"])
def test_a_page_has_the_tables_that_it_should(page):
    """`make course` writes them."""
    path = getattr(place_course, page)
    assert path.read_text(encoding="utf-8") == place_course.page(path)


@each_entry
def test_a_notebook_says_what_the_manifest_says(entry):
    """`make course` writes it."""
    assert sum(int(part.rsplit(" ", 1)[1]) for part in entry.parts) == (entry.core if entry.parts else 0)
    sources = [cell.source for cell in read(entry.path).cells]
    assert sources == place_course.cells(entry, sources)


GIVEN = {"0.75", "1.39", "5.77", "3.87"}  # an example's, and what a formula next to it gives
SAID = {  # by notebook: numbers of a source, of a picture's other states, of a formula next to them, of names
    "04": "4.1",
    "09": "4.2 2.13",
    "10": "47.2 47.1 46.6",
    "11": "1,024 0.2 3.1 8,192 500,000",
    "12": "1.87 3.2 4.1 2,048",
    "13": "5.5 10.8",
    "14": "1,048,576 73.7 15.1 8,192 1.5",
    "15": "0.8",
    "16": "0.2043 3.1 3.3 3.4 3.5 3.6",
}


@each_entry
def test_what_prose_says_to_a_decimal_or_by_thousands_is_printed_on_the_page(entry):
    """Or drawn, or in its code, perhaps with more decimals."""
    there = printed_in(entry.path) | GIVEN | {*SAID.get(entry.number, "").replace(",", "").split()}
    for cell in read(entry.path).cells:
        if cell.cell_type == "markdown":
            prose = re.sub(r"```.*?```|https?://\S+", "", cell.source, flags=re.S)
            for number in re.findall(r"(?<![\d.,])(?:\d+\.\d+|\d{1,3}(?:,\d{3})+)(?![\d.])", prose):
                number = number.replace(",", "")
                decimals = len(number.partition(".")[2])
                rounded = {f"{float(each):.{decimals}f}" for each in there if decimals and len(each) > len(number)}
                assert number in there | rounded, at(entry.path, cell, number)


def test_nbval_leaves_out_only_numbers_after_the_sign_for_measured():
    assert without_measured("2 of 3, ≈ 0.7 and 4") == "2 of 3, ≈ and 4"


@each_notebook
def test_every_code_cell_was_run_once_in_order_without_error_and_stores_words_for_figures_and_no_local_paths(path):
    """nbval compares only cells that ran: it would pass a notebook without outputs."""
    cells = code_cells(read(path))
    stored = json.dumps([cell.outputs for cell in cells])
    assert not re.findall(r"/(?:home|root|tmp|Users|usr)/.{,40}|[A-Z]:\\\\.{,40}| at 0x[0-9a-f]{6}", stored)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    for cell in cells:
        failed = [o for o in cell.outputs if o.output_type == "error" or o.get("name") == "stderr"]
        assert not failed, at(path, cell, "".join(map(text_of, failed)))
        figures = [output for output in cell.outputs if "image/png" in output.get("data", {})]
        unsaid = [figure for figure in figures if "alt" not in figure.metadata.get("image/png", {})]
        assert not unsaid, at(path, cell, "a figure has no text for those who can't see it: use show_figure")


@each_notebook
def test_a_notebook_has_the_form_that_refresh_gives_it(path):
    """Jupyter writes more than that as soon as someone saves it there."""
    from tools.notebooks import refresh_notebooks as refreshing  # its nbformat costs a moment

    notebook = refreshing.nbformat.read(path, as_version=4)
    refreshing.normalise(notebook)
    same = refreshing.nbformat.writes(notebook) + "\n" == path.read_text(encoding="utf-8")
    assert same, f"{path.name} wasn't written by `make refresh NOTEBOOK={path.name[:2]}`"


@each_notebook
def test_links_lead_somewhere(path):
    text = "\n".join(cell.source for cell in read(path).cells if cell.cell_type == "markdown")
    for target in re.findall(r"\]\((?!https://)([^)]+)\)", text):
        file, _, anchor = target.partition("#")
        other = path.parent / file if file else path
        assert other.exists(), target
        assert not anchor or anchor in anchors(read(other)), target


def test_the_teachers_page_leads_to_sections_that_are_there():
    teaching = place_course.TEACHING.read_text(encoding="utf-8")
    for number, heading in re.findall(r"^\| (\d\d|Appendix) \| .* \| \*(.+)\* \|$", teaching, flags=re.M):
        [path] = [APPENDIX] if number == "Appendix" else FOLDER.glob(f"{number}_*.ipynb")
        assert heading.replace(" ", "-") in anchors(read(path)), f"{path.name} has no section {heading}"


def test_the_glossary_leads_to_notebooks_that_use_the_name():
    glossary = (FOLDER / "glossary.md").read_text(encoding="utf-8")
    for name, row in re.findall(r"^\| `(.*?)` (.*)$", glossary, flags=re.M):
        for file in re.findall(r"\]\((.*?)\)", row):
            assert any(name in cell.source for cell in read(FOLDER / file).cells), f"{file} doesn't use {name}"


def sections_with(tag):
    """The headings above the appendix's cells that have a tag."""
    found = []
    heading = ""
    for cell in read(APPENDIX).cells:
        if cell.cell_type == "markdown":
            [*_, heading] = [heading, *re.findall(r"^#+ +(.+)$", cell.source, flags=re.M)]
        if tag in tags(cell):
            found.append(heading)
    return found


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure["id"])
def test_a_published_figure_is_printed_on_its_page(figure):
    """In its section, by the one cell that has its id as a tag, in the order in which it was published."""
    tag = f"published-{figure['id']}"
    assert sections_with(tag) == [figure["section"]]
    [cell] = [cell for cell in code_cells(read(APPENDIX)) if tag in tags(cell)]
    printed = "\n".join(text_of(output) for output in cell.outputs)
    assert ("True" in printed, "False" in printed) == (figure["expected"] == "equal", False), at(
        APPENDIX, cell, printed
    )
    found, expected = numbers_in(printed), numbers_in(re.sub(r'"\w+":', "", json.dumps(figure["expected"])))
    runs = [found[start : start + len(expected)] for start in range(len(found))]
    close = pytest.approx(expected, rel=0, abs=figure.get("within", 6e-5))
    assert any(run == close for run in runs), at(APPENDIX, cell, printed)


def numbers_in(text):
    """All numbers of a text in order, minus infinity too; 2,362,368 is one."""
    text = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text)
    return [float(number) for number in re.findall(r"-inf\b|-?\d+(?:\.\d+)?(?:e[-+]?\d+)?", text)]


# ---- each class has one text: the page that builds it shows the package's, and every other page imports it

CELLS = [(path, cell) for path in LESSONS for cell in code_cells(read(path))]
SOURCES = {(path.name[:2], cell.id): cell.source for path, cell in CELLS}


@pytest.mark.parametrize("page", PAGES, ids="-".join)
def test_page_shows_the_packages_text(page):
    assert SOURCES[page] == class_cell(PAGES[page]), "run make exercises"


@pytest.mark.parametrize("page", PAGES, ids="-".join)
def test_cell_needs_only_what_it_imports(page, monkeypatch):
    if "attention_helpers" not in SOURCES[page]:
        monkeypatch.setitem(sys.modules, "attention_helpers", None)  # only torch is at hand
    exec(SOURCES[page], {"__name__": "alone"})


def test_no_lesson_retypes_a_class():
    home = {name: page for page, shown in PAGES.items() for name in shown.names}
    for path, cell in CELLS:
        for node in ast.parse(cell.source).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name in home:
                assert (path.name[:2], cell.id) in (home[node.name], MASKED), at(path, cell, f"import {node.name}")


def test_class_without_dropout_lacks_nothing_else():
    typed, complete = ({text for _, text in statements(SOURCES[page])} for page in (MASKED, CAUSAL))
    assert len(typed - complete) == 2  # the line that names the arguments, and the one that returns
    assert all("dropout" in text for text in complete - typed)


WITH_EXPLORER = [  # notebook 13's reads a language model
    pytest.param(cell.source, id=f"{path.name[:2]}-{cell.id}", marks=[pytest.mark.slow] * (path.name[:2] == "13"))
    for path in [COURSE[0].path, *LESSONS]
    for cell in code_cells(read(path))
    if any(": run this cell to " in text_of(output) for output in cell.outputs)
]


@pytest.mark.parametrize("source", WITH_EXPLORER)
def test_in_a_fresh_kernel_a_cell_with_an_explorer_runs_or_says_what_to_run_first(source, monkeypatch):
    """Its stored picture, and what's left of it after a restart, ask the learner to run just this cell."""
    import torch

    from tools.notebooks.run_cell import shown_by  # here, as torch, because the other tests do without

    for setting in ("set_printoptions", "set_num_threads"):
        monkeypatch.setattr(torch, setting, lambda *_, **__: None)
    if "Run > Run All Above Selected Cell" in source:
        with pytest.raises(NameError):
            shown_by([source])
    else:
        assert shown_by([source]).controls
