"""A learner's workbook, as `make lab` makes it."""

import pytest

from tools.setup import workbook


def fill(folder, scratch):
    """Make a workbook of a folder as `make lab` does, for the Lab that has its settings in `scratch`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_DATA_DIR", str(scratch / "jupyter_data_dir"))  # where this server looks whom to trust
        patch.setattr(workbook, "WORKBOOK", folder)
        patch.setattr(workbook, "VERSIONS", folder / workbook.VERSIONS.name)
        workbook.fill()
