"""Change each exercise's solution in many small ways; see that its check notices.

    python -m tools.mutants         all lessons
    python -m tools.mutants 03 05   these

Something is left out, or another thing stands where one belongs. Prints the changes that a check calls right. No input
can tell some of them from the solution, because they compute the same. If another one is in the list, the exercise
needs a case that catches it.
"""

import ast
import inspect
import itertools
import linecache
import sys
from difflib import ndiff

from attention_course.exercises import MODULES, practice

KINDS = [(ast.Add, ast.Sub, ast.Mult, ast.Div), (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)]
FAMILIES = ["sum mean max min prod", "triu tril", "zeros ones", "cat stack", "sin cos", "exp log sqrt"]
FAMILIES += ["repeat repeat_interleave", "W_query W_key W_value"]
MOST_LINES = 10_000  # a loop over a list that grows would never end


def mutants_of(thing):
    """Makes a function's or class's small changes: pairs of the new lines and the changed thing."""
    functions = [part for part in (thing, *vars(thing).values()) if inspect.isfunction(part)]
    source = "".join(linecache.getlines(functions[0].__code__.co_filename))
    [tree] = [part for part in ast.parse(source).body if getattr(part, "name", "") == thing.__name__]
    before = ast.unparse(tree).splitlines()
    seen = {tuple(before)}
    for node, field, value in changes(tree):
        kept = getattr(node, field)
        setattr(node, field, value)
        namespace = dict(functions[0].__globals__)
        try:
            text = ast.unparse(tree)
            exec(text, namespace)
        except Exception:  # it isn't a program
            continue
        finally:
            setattr(node, field, kept)
        lines = tuple(text.splitlines())
        if lines not in seen:
            seen.add(lines)
            difference = " / ".join(line for line in ndiff(before, lines) if line[0] in "+-")
            yield difference, namespace[thing.__name__]


def changes(node, names=()):
    """What may be set at a node or below it, as triples (node, name of its field, value)."""
    if isinstance(node, (ast.arguments, ast.Raise, ast.JoinedStr)):  # nobody gets an error's words wrong
        return
    if isinstance(node, ast.FunctionDef):
        stored = [part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)]
        names = sorted({*stored, *(part.arg for part in ast.walk(node) if isinstance(part, ast.arg))} - {"self"})
    for field, value in ast.iter_fields(node):
        parts = value if isinstance(value, list) else [value]
        for n, part in enumerate(parts):
            for other in instead(part, names):
                yield node, field, [*parts[:n], other, *parts[n + 1 :]] if value is parts else other
            if value is parts and not isinstance(part, (ast.Return, ast.Expr)):
                yield node, field, parts[:n] + parts[n + 1 :]
            if isinstance(part, ast.AST):
                yield from changes(part, names)


def instead(node, names):
    """What people write in a node's place. names: the function's own."""
    for kind in KINDS:
        if isinstance(node, kind):
            yield from (other() for other in kind)
    match node:
        case ast.Name(name, ast.Load()):
            yield from (ast.Name(other) for other in relatives(name, names))
        case ast.Attribute(value, name, ast.Load()):
            yield from (ast.Attribute(value, other) for other in relatives(name, names))
        case ast.Constant(bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(int() | float() as value):
            yield from map(ast.Constant, (value + 1, value - 1))
        case ast.BinOp(left, ast.MatMult() | ast.Sub() | ast.Div() as operator, right):
            yield ast.BinOp(right, operator, left)
            if isinstance(operator, ast.MatMult):
                yield ast.BinOp(left, operator, ast.Attribute(right, "mT"))
        case ast.Call(ast.Attribute(value)):
            yield value
    if isinstance(node, ast.expr):
        yield from (part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr))


def relatives(name, names):
    """The names that people write in a name's place."""
    return [other for family in [*map(str.split, FAMILIES), names] if name in family for other in family]


def survivors(exercise, every=1):
    """How many small changes an exercise's solution has, and those that its check calls right, in words.

    every: 3 tries a third of them.
    """
    made, right, lived = [*mutants_of(exercise.solution)][::every], exercise.outcomes(exercise.solution), []
    for change, other in made:
        lines = itertools.count()

        def trace(frame, *_, lines=lines):
            if frame.f_code.co_filename != "<string>":
                return None
            if next(lines) > MOST_LINES:
                raise TimeoutError(f"more than {MOST_LINES} lines ran")
            return trace

        sys.settrace(trace)
        given = exercise.outcomes(other)
        sys.settrace(None)
        lived += [] if exercise.first_difference(given, right) else [change]
    return len(made), lived


if __name__ == "__main__":
    for number in sys.argv[1:] or MODULES:
        for exercise in practice(number).EXERCISES:
            total, lived = survivors(exercise)
            caught = f"{number} {exercise.name:28} {total - len(lived)} of {total} caught"
            print(caught, *lived, sep="\n     ", flush=True)
