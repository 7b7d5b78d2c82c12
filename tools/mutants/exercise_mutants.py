"""Break each exercise's solution in every small way that a walk over its syntax tree finds; see that its check notices.

    python -m tools.mutants.exercise_mutants         all lessons
    python -m tools.mutants.exercise_mutants 03 05   these

Prints a table of the mutants that a check lets through. Those that no input can tell from the solution, and those let
through on purpose, stand with their reasons in survivors.py beside this; exit status 1 if there is another.
"""

import ast
import copy
import importlib
import inspect
import signal
import sys
import textwrap

from attention_helpers.exercises import NUMBERS

from .survivors import EQUIVALENT, LET_THROUGH

SECONDS = 2  # of work; a mutant may never end
PAIRS = [(ast.Add, ast.Sub), (ast.BitAnd, ast.BitOr), (ast.And, ast.Or), (ast.Eq, ast.NotEq), (ast.Is, ast.IsNot)]
PAIRS += [(ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Mult, ast.Div)]
OPERATORS = dict([*PAIRS, *((b, a) for a, b in PAIRS)])
OPERATORS |= {ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult}
SWAPPED = {"queries": "keys", "keys": "values", "values": "keys"}
SWAPPED |= {"W_query": "W_key", "W_key": "W_value", "W_value": "W_key"}
FUNCTIONS = """
triu tril, sum mean, max min, amax amin, argmax argmin, rand randn, zeros ones, zeros_like ones_like,
exp exp2, softmax log_softmax, view reshape, cat stack
"""
for one, other in [pair.split() for pair in FUNCTIONS.split(",")]:
    SWAPPED |= {one: other, other: one}


class TooLong(KeyboardInterrupt):
    """An interrupt, so that a check lets it through."""


def changed(node):
    """The nodes that may stand in a node's place, each a little wrong."""
    if isinstance(node, (ast.BinOp, ast.BoolOp, ast.AugAssign)) and type(node.op) in OPERATORS:
        yield with_field(node, op=OPERATORS[type(node.op)]())
    if isinstance(node, ast.BinOp) and not isinstance(node.op, (ast.Add, ast.Mult)):
        yield with_field(node, left=node.right, right=node.left)
    if isinstance(node, ast.Compare) and type(node.ops[0]) in OPERATORS:
        yield with_field(node, ops=[OPERATORS[type(node.ops[0])]()])
    if isinstance(node, ast.UnaryOp):
        yield node.operand
    if isinstance(node, (ast.If, ast.While, ast.IfExp)):
        yield with_field(node, test=ast.UnaryOp(ast.Not(), node.test))
    if isinstance(node, ast.Constant):
        yield from changed_constants(node)
    if isinstance(node, ast.Call):
        yield from changed_calls(node)
    if isinstance(node, ast.Name) and node.id in SWAPPED:
        yield with_field(node, id=SWAPPED[node.id])
    if isinstance(node, ast.Attribute):
        yield node.value
        if node.attr in SWAPPED:
            yield with_field(node, attr=SWAPPED[node.attr])


def changed_constants(node):
    if isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node.value, (int, float)):
        yield ast.Constant(node.value + 1)
        yield ast.Constant(node.value - 1)


def changed_calls(call):
    """Without one argument, with two of them swapped, or without the call."""
    for place in range(len(call.args)):
        yield with_field(call, args=call.args[:place] + call.args[place + 1 :])
    for place in range(len(call.keywords)):
        yield with_field(call, keywords=call.keywords[:place] + call.keywords[place + 1 :])
    for place in range(len(call.args) - 1):
        args = list(call.args)
        args[place : place + 2] = reversed(args[place : place + 2])
        yield with_field(call, args=args)
    if isinstance(call.func, ast.Attribute):
        yield call.func.value
    if call.args:
        yield call.args[0]


def with_field(node, **fields):
    new = copy.copy(node)
    for name, value in fields.items():
        setattr(new, name, value)
    return new


class Replace(ast.NodeTransformer):
    """Puts `new` in the place of the node `old`."""

    def __init__(self, old, new):
        self.old, self.new = old, new

    def visit(self, node):
        return copy.deepcopy(self.new) if node is self.old else self.generic_visit(node)


def mutants(source):
    """Pairs of what was changed, in words, and the changed source, each once."""
    tree = ast.parse(textwrap.dedent(source))
    seen, names = {ast.unparse(without_docstrings(tree))}, {}
    for statement in [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]:
        if is_docstring(statement) or statement in tree.body:
            continue
        changes = [(statement, ast.Pass())] if not isinstance(statement, ast.FunctionDef) else []
        for node in nodes_of(statement):
            changes += [(node, new) for new in changed(node)]
        for old, new in changes:
            text = mutated(tree, old, new)
            if text is None or text in seen:
                continue
            seen.add(text)
            name = f"{one_line(old)} → {one_line(new)} in {one_line(statement)}"
            names[name] = names.get(name, 0) + 1
            yield name + (f" ({names[name]})" if names[name] > 1 else ""), text


def nodes_of(statement):
    """The nodes of a statement that belong to no statement inside of it."""
    yield statement
    waiting = [statement]
    while waiting:
        for child in ast.iter_child_nodes(waiting.pop(0)):
            if not isinstance(child, ast.stmt):
                yield child
                waiting.append(child)


def mutated(tree, old, new):
    """The changed program, or None where it is none."""
    copied = copy.deepcopy(tree, {id(old): old})  # in which `old` is the same object, so that it can be found
    marked = Replace(old, new).visit(copied)
    try:
        text = ast.unparse(without_docstrings(ast.fix_missing_locations(marked)))
        compile(text, "<mutant>", "exec")
    except (SyntaxError, ValueError, TypeError, AttributeError):
        return None
    return text


def is_docstring(statement):
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def without_docstrings(tree):
    tree = copy.deepcopy(tree)
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and is_docstring(node.body[0]):
            node.body = node.body[1:] or [ast.Pass()]
    return tree


def one_line(node):
    text = ast.unparse(ast.fix_missing_locations(copy.deepcopy(node))).splitlines()[0]
    return text if len(text) <= 60 else text[:57] + "..."


def let_through(exercise, text):
    """Whether a check calls a mutant right."""
    names = dict(vars(inspect.getmodule(exercise.solution)))

    def stop(*_):
        raise TooLong

    # A clock that runs while this process works: on a busy machine an honest mutant would be stopped by another.
    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        exec(compile(text, "<mutant>", "exec"), names)
        return exercise.check(names[exercise.answer_name]).right is True
    except TooLong:
        return False
    except Exception:  # a class's body that does not run
        return False
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def survivors(exercise):
    """How many mutants an exercise's solution has, and the names of those that its check calls right."""
    made = list(mutants(inspect.getsource(exercise.solution)))
    return len(made), [name for name, text in made if let_through(exercise, text)]


def main(numbers):
    if not hasattr(signal, "SIGVTALRM"):
        sys.exit("exercise_mutants needs SIGVTALRM, to stop a mutant that never ends: run it on Linux or macOS.")
    total = lived = new = same = 0
    for number in numbers or NUMBERS:
        for exercise in importlib.import_module(f"attention_helpers.exercises.lesson_{number}").EXERCISES:
            count, names = survivors(exercise)
            known = EQUIVALENT.get(exercise.name, {}) | LET_THROUGH.get(exercise.name, {})
            for name in names:
                print(f"{number} {exercise.name:28} {name}\n     {known.get(name, 'NOT EXPLAINED')}")
            equivalent = sum(name in EQUIVALENT.get(exercise.name, {}) for name in names)
            total, lived, same = total + count, lived + len(names), same + equivalent
            new += sum(name not in known for name in names)
            print(f"{number} {exercise.name:28} {count - len(names)} of {count - equivalent} caught", flush=True)
    print(f"all: {total - lived} of {total - same} caught, {(total - lived) / (total - same):.1%}; unexplained: {new}")
    return 1 if new else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
