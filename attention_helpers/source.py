"""Show the very code that runs, as part of a notebook's text."""

import inspect
import textwrap


def show_source(thing):
    """Return the source of a class or function as Markdown, for a notebook to display.

    thing: a class, function or method that stands in a file.
    Errors: TypeError for anything else, also for a class typed in a cell (which is on the screen already).
    """
    from IPython.display import Markdown  # costs 0.1 s, and only a notebook needs it

    if not (inspect.isclass(thing) or inspect.isroutine(thing)):
        raise TypeError(f"thing must be a class or function, got {type(thing).__name__}: {thing!r}")
    try:
        code = inspect.getsource(thing)
    except (OSError, TypeError):
        raise TypeError(f"thing must be written in Python and stand in a file, got {thing!r}") from None
    return Markdown(f"`{thing.__module__}.{thing.__qualname__}`\n\n```python\n{textwrap.dedent(code).strip()}\n```")
