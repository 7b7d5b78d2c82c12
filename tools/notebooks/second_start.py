"""A pytest plugin for nbval: a kernel that dies at its start is started once more.

jupyter_client looks for free ports, lets go of them, and hands their numbers to the kernel. Another kernel that starts
at the same moment may have taken one by then. A kernel that cannot start at all fails twice, and is reported.
"""

import nbval.kernel

start = nbval.kernel.start_new_kernel


def start_new_kernel(**options):
    """As nbval's, with a second try on other ports."""
    try:
        return start(**options)
    except RuntimeError:
        return start(**options)


nbval.kernel.start_new_kernel = start_new_kernel
