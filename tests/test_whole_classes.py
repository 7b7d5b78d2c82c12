"""Each class has one text: the page that builds it shows the package's, and every other page imports it."""

import ast
import sys

import pytest
from course import LESSONS, at, code_cells, read

from tools.notebooks.place_classes import CAUSAL, MASKED, PAGES, class_cell, statements

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
