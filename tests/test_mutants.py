"""The faults that `make mutants` plants: each fits its file, breaks it, and has a name of its own."""

import pytest

from tools.mutants import mutants


@pytest.mark.parametrize("file", sorted({file for _, file, *_ in mutants.ALL}))
def test_each_fault_stands_once_in_its_file_and_leaves_python(file):
    whole = mutants.source(file)
    for name, _, old, new in (fault for fault in mutants.ALL if fault[1] == file):
        text = mutants.broken(whole, old, new)  # raises where the text has moved on
        assert text != whole, name
        compile(text, name, "exec")


def test_each_fault_has_a_name_of_its_own_and_tests_to_meet():
    names = [name for name, *_ in mutants.ALL]
    assert len(set(names)) == len(names)
    for tests in (mutants.LAYERS, *mutants.TESTS.values()):
        assert [name for name in tests if not (mutants.ROOT / "tests" / f"test_{name}.py").is_file()] == []
    assert all(len(reason) > 20 for reason in mutants.EQUIVALENT.values())


def test_a_fault_that_no_longer_fits_is_said():
    with pytest.raises(ValueError, match="'scale' stands 2 times in its file"):
        mutants.broken("scale = 1 / scale", "scale", "1")
