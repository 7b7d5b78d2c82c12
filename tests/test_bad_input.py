"""Malformed calls: each error names the argument, the value it got, and the rule."""

import pytest
from torch import ones

from attention_course.explorers import ScoresExplorer
from attention_course.explorers.svg_maps import heatmap
from attention_helpers import Dropout, MultiHeadAttention, SelfAttention_v2, influence, load_sentence, max_difference
from attention_helpers.modern.positions import rope_frequencies
from attention_helpers.sentences import Sentence
from attention_helpers.training.characters import CharacterModel, Characters, generate_text, load_text
from attention_helpers.training.lookup import LookupModel, LookupTask
from attention_helpers.training.loop import Training
from attention_helpers.training.small_models import load

FLAT = SelfAttention_v2(3, 2)
TASK, TEXT = LookupTask(letters=4, digits=3, pairs=2), Characters(load_text())
LOOKUP, WRITER = LookupModel(TASK, width=4), CharacterModel(len(TEXT.vocabulary), TEXT.window, width=16)
NINE = Sentence(["a"] * 9, ones(9, 3))
CALLS = [  # call, exception, argument, the value it got, the rule
    (lambda: Dropout(1), ValueError, "p must", "got 1", "at least 0 and below 1"),
    (lambda: influence(5, ones(2, 3)), TypeError, "layer", "got int", "callable"),
    (lambda: influence(FLAT, ones(2, 6, 3)), ValueError, "x must", "got (2, 6, 3)", "one sentence"),
    (lambda: max_difference(ones(2), ones(1, 2)), ValueError, "a and b", "got (2,) and (1, 2)", "same shape"),
    (lambda: load_sentence("dog"), ValueError, "name", "got 'dog'", "one of cat, journey, lookup, two_lookups"),
    (lambda: MultiHeadAttention(3, 4, 6, 0.0, 3), ValueError, "num_heads=3 must divide", "d_out=4"),
    (lambda: MultiHeadAttention(3, 4, 6, 0.0, 0), ValueError, "num_heads", "=0", "must divide"),
    (lambda: MultiHeadAttention(3, 4, 6, 1.0, 2), ValueError, "dropout", "got 1.0", "in [0, 1)"),
    (lambda: MultiHeadAttention(3, 4, 6, 0.0, 2)(ones(2, 7, 3)), ValueError, "x can have 6 tokens", "got 7"),
    (lambda: rope_frequencies(3), ValueError, "head_dim", "got 3", "even"),
    (lambda: LookupTask(questions=3), ValueError, "1 or 2 questions", "got questions=3", "pairs <= letters"),
    (lambda: generate_text(WRITER, TEXT, "Zoë", 5, None), ValueError, "start", "got 'Zoë'", "some characters of"),
    (lambda: Training(LOOKUP, LookupTask()), ValueError, "model", "index out of range", "fit the task"),
    (lambda: load("learned"), ValueError, "name", "got 'learned'", "one of masked, leaky"),
    (lambda: heatmap([1.0, 2.0], "ab", "ab"), ValueError, "values", "got the shape (2,)", "a table"),
    (lambda: ScoresExplorer(NINE), ValueError, "sentence", "got 9 tokens", "1 to 8 tokens"),
    (lambda: ScoresExplorer("journey"), TypeError, "sentence", "got str: 'journey'", "a Sentence with str tokens"),
]


@pytest.mark.parametrize("case", CALLS, ids=lambda case: f"{case[0].__code__.co_names[0]}: {case[2]}, {case[3]}")
def test_error_names_argument_value_and_rule(case):
    call, exception, *parts = case
    with pytest.raises(exception) as caught:
        call()
    assert caught.type is exception  # not a subclass
    assert [part for part in parts if part not in str(caught.value)] == []
