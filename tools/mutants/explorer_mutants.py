"""Break what explorers say in every small way that a walk over their syntax trees finds; see that a test notices.

    python -m tools.mutants.explorer_mutants lesson_03 lesson_04

Prints the mutants that no test of test_explorer*.py notices. Some show the same in every state, such as a weight that's
compared with >= instead of >. If another one is in the list, the tests lack a state in which it shows something else.
"""

import ast
import importlib.util
import os
import re
import signal
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from attention_course import explorers

from .changes import texts

TESTS = Path(__file__).parents[2] / "tests"
# Functions with these names in them draw. Their words are changed, but not where things are.
PLACED = {"text", "line", "tag", "frame", "moved", "beside", "below", "title_of", "pixels", "key_of", "head_at"}
PLACED |= {"Chart", "curve", "upright", "across", "drawn"}
DRAWN = PLACED | {"bars", "heatmap", "head_maps", "costs", "stops", "slider", "widgets"}
LAYOUT = {"width", "height", "side", "x", "y", "r", "size"}
PAIRS = """first second, one two, row column, rows columns, most least, lowest highest, largest mean, earlier later
before after, itself others, training new, rises falls, hidden seen, with without, always never, induction previous
query key, queries keys, score weight, scores weights, reads gives, embedding context, masked leaky, nats bits
step day, tokens heads, token head, head layer, billion million, × ÷, → ←, ↓ →, ✓ ✗"""
OTHER = {a: b for pair in re.split(r", |\n", PAIRS) for a, b in (pair.split(), pair.split()[::-1])}
WORD = re.compile("|".join(rf"(?<!\w){re.escape(word)}(?!\w)" for word in OTHER))
OPERATORS = [(ast.Add, ast.Sub), (ast.Mult, ast.Div), (ast.FloorDiv, ast.Mod), (ast.Pow, ast.Mult)]
OPERATORS += [(ast.BitAnd, ast.BitOr), (ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.Is, ast.IsNot)]
OPERATORS = {b: a for a, b in OPERATORS} | dict(OPERATORS)
NAMES = """queries keys, keys values, W_query W_key, W_key W_value, triu tril, sum mean, max min, argmax argmin
zeros ones, cat stack, rand randn"""
NAMES = [pair.split() for pair in re.split(r", |\n", NAMES)]
NAMES = {b: a for a, b in NAMES} | dict(NAMES)
INVERTED = {ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
INVERTED |= {ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is}


def computed(node):
    """The nodes with another number, name, sign or operator."""
    match node:
        case ast.BinOp(left, operator, right):
            yield ast.BinOp(left, OPERATORS.get(type(operator), ast.Add)(), right)
            if isinstance(operator, (ast.Sub, ast.Div, ast.MatMult)):
                yield ast.BinOp(right, operator, left)
        case ast.Compare(left, [operator], right) if type(operator) in OPERATORS:
            yield ast.Compare(left, [OPERATORS[type(operator)]()], right)
        case ast.UnaryOp(_, operand):
            yield operand
        case ast.Constant(bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(int() | float() as value):
            yield from (ast.Constant(value + 1), ast.Constant(value - 1))
        case ast.Name(name) if name in NAMES:
            yield ast.Name(NAMES[name])


def exchanged(parts):
    """The lists in which two neighbours of one kind have changed places."""
    for n, (one, two) in enumerate(pairwise(parts)):
        kinds = [(type(part), type(getattr(part, "value", part))) for part in (one, two)]
        if kinds[0] == kinds[1] and kinds[0][0] is not ast.BinOp and kinds[0][1] not in (int, float):
            yield [*parts[:n], two, one, *parts[n + 2 :]]


def worded(node):
    """The nodes with another word or condition, or with two things in each other's place."""
    match node:
        case ast.Constant(str(words)):
            for found in WORD.finditer(words):
                yield ast.Constant(words[: found.start()] + OTHER[found[0]] + words[found.end() :])
            if re.fullmatch(r"[,\d.]*[f%g]", words):  # of a number in an f-string
                yield ast.Constant(re.sub(r"\.(\d)", lambda digits: f".{int(digits[1]) + 1}", words))
        case ast.IfExp(test, body, orelse):
            yield ast.IfExp(test, orelse, body)
        case ast.JoinedStr(parts):
            for one, two in pairwise([n for n, part in enumerate(parts) if isinstance(part, ast.FormattedValue)]):
                yield ast.JoinedStr([*parts[:one], parts[two], *parts[one + 1 : two], parts[one], *parts[two + 1 :]])
        case ast.Dict(keys, values) if not {key.value for key in keys if isinstance(key, ast.Constant)} & LAYOUT:
            yield from (ast.Dict(keys, other) for other in exchanged(values))
        case ast.Tuple(parts, ast.Load()) | ast.List(parts, ast.Load()):
            yield from (type(node)(other, ast.Load()) for other in exchanged(parts))
        case ast.Call(function, arguments, keywords) if (
            getattr(function, "id", getattr(function, "attr", "")) not in PLACED
        ):
            yield from (ast.Call(function, other, keywords) for other in exchanged(arguments))
        case ast.Compare(left, [operator], right):
            yield ast.Compare(left, [INVERTED[type(operator)]()], right)
        case ast.Slice(lower, upper) if lower or upper:
            yield ast.Slice()


def variants_in(source):
    """Makes a node's variants: any where numbers are computed or told, of words only in pictures and in tables."""
    kinds, tree = {}, ast.parse(source)
    for part in ast.walk(tree):  # from the outside in
        match part:
            case ast.FunctionDef(name) if name[0] != "_":
                draws = DRAWN & {node.id for node in ast.walk(part) if isinstance(node, ast.Name)}
                kind = "words" if draws else "any"
            case ast.Assign():
                kind = ("" if "<style>" in ast.unparse(part) else "words") if part in tree.body else "any"
                kind = kinds.get(part.lineno, kind)
            case ast.Expr(ast.Constant()) | ast.FunctionDef() | ast.Raise():
                kind = ""
            case _:
                continue
        kinds |= dict.fromkeys(range(part.lineno, part.end_lineno + 1), kind)

    def of(node):
        kind = kinds.get(getattr(node, "lineno", None))
        if kind == "any":
            yield from computed(node)
        if kind:
            yield from worded(node)

    return of


def mutants(source):
    """Pairs of what was changed, in words, and the changed program, each program once."""
    tree, variants = ast.parse(source), variants_in(source)

    def changes():
        for parent in ast.walk(tree):
            for field, value in ast.iter_fields(parent):
                children = value if isinstance(value, list) else [value]
                for n, child in enumerate(children):
                    for new in variants(child):
                        first_line = ast.unparse(child).partition("\n")[0]
                        words = f"line {child.lineno}: {first_line} → {ast.unparse(new)}"
                        changed = [*children[:n], new, *children[n + 1 :]] if children is value else new
                        yield words, parent, field, changed

    return texts(tree, changes())


def passes(path, source, tests):
    """Whether tests pass with a module's source in its place, in a fork of this process."""
    if child := os.fork():
        return os.waitpid(child, 0)[1] == 0
    signal.setitimer(signal.ITIMER_PROF, 60)  # of the CPU's time, for a change that never ends
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1), os.dup2(null, 2)
    name = f"{explorers.__name__}.{path.stem}"
    module = importlib.util.module_from_spec(importlib.util.spec_from_file_location(name, path))
    for other, there in list(sys.modules.items()):
        if Path(getattr(there, "__file__", None) or "").parent == TESTS:
            del sys.modules[other]  # it may have names of the module as it was
    for explorer in explorers.__all__:
        vars(explorers).pop(explorer, None)
    sys.modules[name] = module
    setattr(explorers, path.stem, module)
    try:
        exec(compile(source, path, "exec"), vars(module))
    except Exception:
        os._exit(1)
    os._exit(pytest.main(["-qx", "-p", "no:cacheprovider", *tests]))


def tests_of(source):
    """Which tests look at a module's explorers."""
    names = re.findall(r"class (\w+Explorer)", source)
    own = [path for path in TESTS.glob("test_explorer_lesson*.py") if any(name in path.read_text() for name in names)]
    chosen = [*names, *(path.stem for path in own), "(test_explorer_words and not what_is_claimed)"]
    files = [*own, TESTS / "test_explorer_words.py", TESTS / "test_explorers.py"]
    return [*map(str, files), "-k", " or ".join(chosen)]


def main(names):
    torch.set_num_threads(1)  # a fork has none of its parent's threads, and would wait for them
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    for name in names:
        path = Path(explorers.__file__).with_name(f"{name}.py")
        source = path.read_text(encoding="utf-8")
        tests, total, lived = tests_of(source), 0, 0
        pytest.main(["--collect-only", "-p", "no:terminal", *tests])  # imports what no fork then has to
        if not passes(path, source, tests):
            raise SystemExit(f"{name}: its tests fail before anything is changed")
        for change, text in mutants(source):
            total += 1
            if passes(path, text, tests):
                lived += 1
                print(f"     {change}", flush=True)
        print(f"{name}: {total - lived} of {total} caught", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
