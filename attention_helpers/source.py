"""Show the code that actually runs, as part of a notebook's text."""

import ast
import inspect
import textwrap


def show_source(thing):
    """Return the code of a class or function as Markdown, for a notebook to display: as its page shows it.

    thing: a class, function or method from a file. Its docstring is left out. Errors: as in inspect.getsource.
    """
    from IPython.display import Markdown  # takes 0.1 s, and only notebooks need it

    code = textwrap.dedent(inspect.getsource(thing))
    first, *others = ast.parse(code).body[0].body
    lines = code.splitlines()
    if others and thing.__doc__:
        end = first.end_lineno
        del lines[first.lineno - 1 : end if lines[end] else end + 1]  # with the empty line below it
    return Markdown("```python\n{}\n```".format("\n".join(lines)))
