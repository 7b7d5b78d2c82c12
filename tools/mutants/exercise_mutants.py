"""Break each exercise's solution in every small way that a walk over its syntax tree finds; see that its check notices.

    python -m tools.mutants.exercise_mutants         all lessons
    python -m tools.mutants.exercise_mutants 03 05   these

Prints the mutants that a check calls right. No input can tell some of them from the solution, because they compute the
same. If another one is in the list, the exercise needs a case that catches it.
"""

import ast
import importlib
import inspect
import sys
import textwrap

from attention_helpers.exercises import NUMBERS

PAIRS = [(ast.Add, ast.Sub), (ast.Mult, ast.Div), (ast.FloorDiv, ast.Mod), (ast.Pow, ast.Mult), (ast.BitAnd, ast.BitOr)]
PAIRS += [(ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.Is, ast.IsNot)]
NAMES = [("queries", "keys"), ("keys", "values"), ("W_query", "W_key"), ("W_key", "W_value"), ("triu", "tril")]
NAMES += [("sum", "mean"), ("max", "min"), ("argmax", "argmin"), ("zeros", "ones"), ("cat", "stack"), ("rand", "randn")]
OTHER = {b: a for a, b in PAIRS + NAMES} | dict(PAIRS + NAMES)


def variants(node):
    """The nodes that may stand in a node's place, each a little wrong."""
    match node:
        case ast.FunctionDef() | ast.ClassDef() | ast.Expr(ast.Constant()):  # the last is a docstring
            pass
        case ast.stmt():
            yield ast.Pass()
        case ast.BinOp(left, operator, right):
            yield ast.BinOp(left, OTHER.get(type(operator), ast.Add)(), right)
            if isinstance(operator, (ast.Sub, ast.Div, ast.MatMult)):
                yield ast.BinOp(right, operator, left)
        case ast.Compare(left, [operator], right) if type(operator) in OTHER:
            yield ast.Compare(left, [OTHER[type(operator)]()], right)
        case ast.UnaryOp(_, operand):
            yield operand
        case ast.Constant(bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(int() | float() as value):
            yield from (ast.Constant(value + 1), ast.Constant(value - 1))
        case ast.Name(name) if name in OTHER:
            yield ast.Name(OTHER[name])
        case ast.Attribute(value, name):
            yield value
            yield ast.Attribute(value, OTHER.get(name, name))
        case ast.Call(function, arguments, keywords):
            yield function.value if isinstance(function, ast.Attribute) else (arguments or [function])[0]
            for n in range(len(arguments)):
                yield ast.Call(function, arguments[:n] + arguments[n + 1 :], keywords)


def changed(tree, variants):
    """Each variant of each node, as (node, variant, the program that has it in the node's place)."""
    for parent in ast.walk(tree):
        for field, value in ast.iter_fields(parent):
            children = value if isinstance(value, list) else [value]
            for n, child in enumerate(children):
                for new in variants(child):
                    setattr(parent, field, [*children[:n], new, *children[n + 1 :]] if children is value else new)
                    text = ast.unparse(tree)
                    setattr(parent, field, value)
                    yield child, new, text


def mutants(source, variants=variants):
    """Pairs of what was changed, in words, and the changed program, each program once."""
    tree = ast.parse(textwrap.dedent(source))
    seen = {ast.unparse(tree)}
    for old, new, text in changed(tree, variants):
        if text not in seen:
            seen.add(text)
            first_line = ast.unparse(old).partition("\n")[0]
            yield f"line {old.lineno}: {first_line} → {ast.unparse(new)}", text


def let_through(exercise, text):
    """Whether a check calls a mutant right."""
    names = dict(vars(inspect.getmodule(exercise.solution)))
    try:
        exec(compile(text, "<mutant>", "exec"), names)
    except Exception:  # it isn't a program
        return False
    return exercise.check(names[exercise.answer_name]).right is True


def survivors(exercise):
    """How many mutants an exercise's solution has, and the names of those that its check calls right."""
    made = list(mutants(inspect.getsource(exercise.solution)))
    return len(made), [name for name, text in made if let_through(exercise, text)]


def main(numbers):
    for number in numbers or NUMBERS:
        for exercise in importlib.import_module(f"attention_helpers.exercises.lesson_{number}").EXERCISES:
            total, lived = survivors(exercise)
            caught = f"{number} {exercise.name:28} {total - len(lived)} of {total} caught"
            print(caught, *lived, sep="\n     ", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
