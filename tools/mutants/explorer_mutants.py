"""Break an explorer's numbers and words in small ways, and see that a test notices.

    python -m tools.mutants.explorer_mutants causal_masking dropout

Prints the mutants that no test of test_explorer*.py notices. Some show the same in every state, such as a weight that's
compared with >= instead of >. If another one is in the list, the tests lack a state in which it shows something else.
"""

import ast
import importlib.util
import io
import os
import re
import signal
import sys
import tokenize
from pathlib import Path

import pytest
import torch

from attention_course import explorers

from .changes import texts

TESTS = Path(__file__).parents[2] / "tests"
PAIRS = """first second, one two, row column, rows columns, most least, lowest highest, largest mean, earlier later
before after, itself others, training new, hidden seen, with without, always never, query key, queries keys
score weight, scores weights, reads gives, masked leaky, nats bits, tokens heads, token head, head layer, × ÷, ✓ ✗"""
OTHER = {a: b for pair in re.split(r", |\n", PAIRS) for a, b in (pair.split(), pair.split()[::-1])}
WORD = re.compile("|".join(rf"(?<!\w){re.escape(word)}(?!\w)" for word in OTHER))
SAYS = ("compute", "headline", "readouts", "in_words", "note", "said")  # methods that don't only place what's drawn


def worded(source):
    """The programs in which one word of a text is its counterpart, with the line's number."""
    lines = source.splitlines(keepends=True)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        (row, start), (last, end) = token.start, token.end
        if token.type == tokenize.STRING and row == last and not token.string.startswith('"""'):
            for found in WORD.finditer(token.string):
                other = token.string[: found.start()] + OTHER[found[0]] + token.string[found.end() :]
                new = lines[row - 1][:start] + other + lines[row - 1][end:]
                yield row, "".join([*lines[: row - 1], new, *lines[row:]])


def mutants(source):
    """The number of a line, the program with another number, name or word there, and the program as it was before."""
    tree = ast.parse(source)
    before = ast.unparse(tree)
    for part in ast.walk(tree):
        if isinstance(part, ast.FunctionDef) and part.name in SAYS:
            yield from ((number, text, before) for number, text in texts(tree, part))
    yield from ((number, text, source) for number, text in worded(source))


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
    sys.modules[name] = module
    setattr(explorers, path.stem, module)
    try:
        exec(compile(source, path, "exec"), vars(module))
    except Exception:
        os._exit(1)
    vars(explorers).update({name: vars(module)[name] for name in explorers.__all__ if name in vars(module)})
    os._exit(pytest.main(["-qx", "-p", "no:cacheprovider", *tests]))


def tests_of(source):
    """Which tests look at a module's explorers."""
    names = re.findall(r"class (\w+Explorer)", source)
    files = {path for path in TESTS.glob("test_explorer*.py") if any(name in path.read_text() for name in names)}
    files |= {TESTS / "test_explorers.py"}
    return [*map(str, files), "-k", " or ".join(names)]


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
        for number, text, before in mutants(source):
            total += 1
            if passes(path, text, tests):
                lived += 1
                new = [line.strip() for line in text.splitlines() if line not in before.splitlines()]
                print(f"     line {number}: {' / '.join(new)}", flush=True)
        print(f"{name}: {total - lived} of {total} caught", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
