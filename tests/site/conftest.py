from lab import pytest_xdist_make_scheduler  # noqa: F401 (for pytest)
