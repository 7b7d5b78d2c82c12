"""Show the code that actually runs, as part of a notebook's text."""

import inspect
import textwrap


def show_source(thing):
    """Return the source of a class or function as Markdown, for a notebook to display.

    thing: a class, function or method that is defined in a file.
    Errors: TypeError for anything else, including a class typed in a cell (it's already on the screen).
    """
    from IPython.display import Markdown  # takes 0.1 s, and only notebooks need it

    if not (inspect.isclass(thing) or inspect.isroutine(thing)):
        raise TypeError(f"thing must be a class or function, got {type(thing).__name__}: {thing!r}")
    try:
        code = inspect.getsource(thing)
    except (OSError, TypeError):
        raise TypeError(f"thing must be written in Python and defined in a file, got {thing!r}") from None
    return Markdown(f"`{thing.__module__}.{thing.__qualname__}`\n\n```python\n{textwrap.dedent(code).strip()}\n```")
