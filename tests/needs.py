"""What a test needs of the machine: where it is not there, the test is skipped and says why."""

import os
import shutil

import pytest

needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed here")
needs_posix_shell = pytest.mark.skipif(os.name == "nt", reason="Windows does not run a shell script as a program")
