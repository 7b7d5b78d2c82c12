"""What explorers of a sentence say in states that were worked out by hand: the figures of the headline."""

import pytest
import torch
from explorer_page import figures, readouts

from attention_helpers import Sentence, explorers
from tools.bench.made import SENTENCE

# x · x is 1.4950 for "journey" and 1.4754 with "starts", and exp(1.96) : 1 = 0.88 : 0.12 at temperature 0.01.
# The trained heads' accuracies are those on 64 unseen examples, of the models in data/.
TRAINED = {"weights": "trained"}
SAID = [
    ("ScoresExplorer", {}, "“journey” 0.24 0.17"),
    ("ScoresExplorer", {"query": 2}, "“starts” “journey” 0.24 0.17"),
    ("ScoresExplorer", {"temperature": 0.01}, "“journey” 0.88 0.17"),
    ("ScoresExplorer", {"temperature": 2}, "“journey” “starts” 0.20 0.17"),
    ("ScoresExplorer", {"query": 5, "temperature": 0.01}, "“step” “journey” 0.93"),
    ("ScoresExplorer", {"temperature": 10}, "“journey” 6 0.16 0.17"),
    ("ScoresExplorer", {"temperature": 100}, "“journey” 6 0.17"),
    ("QKVExplorer", {}, "73 “one” 1.00"),
    ("QKVExplorer", {"scaling": True}, "64 1.1 0.57 “one”"),
    ("QKVExplorer", {"d_out": 8, "seed": 47}, "3.8 “journey” “one” 0.92"),
    ("QKVExplorer", {"source": "sentence", "d_out": 2, "scaling": True}, "2 0.0075 0.20"),
    ("QKVExplorer", {"source": "sentence", "d_out": 48, "seed": 3}, "0.23 0.41 “Your” “one”"),
    ("MaskExplorer", {}, "“Your” 0.055 “starts”"),
    ("MaskExplorer", {"method": "-inf"}, "“starts”"),
    ("MaskExplorer", {"method": "renormalise", "poked": 5, "amount": 3.0}, "“step”"),
    ("MaskExplorer", {"amount": 0.1, "poked": 5}, "“with” 0.0054 “step”"),
    ("DropoutExplorer", {}, "12 21 100 0.08"),
    ("DropoutExplorer", {"draws": 1}, "12 21 2.00 0.00 2.00"),
    ("DropoutExplorer", {"draws": 1, "p": 0.2}, "20 21 1.25 0.99 1.25"),
    ("DropoutExplorer", {"training": False}, "1"),
    ("WrapperExplorer", {}, "2 0.04"),
    ("WrapperExplorer", {"num_heads": 8, "d_out": 2, "seed": 17}, "“journey” “Your” 0.40 8 0.55 3"),
    ("WrapperExplorer", {"num_heads": 1, "d_out": 4}, "“step” 6 0.16 0.18"),
    ("WrapperExplorer", TRAINED | {"num_heads": 1, "d_out": 32}, "“HI ?” “H 8” 0.45 31% 88%"),
    ("WrapperExplorer", TRAINED | {"num_heads": 2, "d_out": 8}, "“HI ?” “H 8” 1 0.86 “I 3” 2 0.96 100% 100%"),
    ("WrapperExplorer", TRAINED | {"num_heads": 4, "d_out": 16}, "“HI ?” “I 3” 1 “H 8” 2 3 4 98% 100%"),
    ("SplitExplorer", {"where": "softmax"}, "1 “step” 6 0.16 0.19"),
    ("SplitExplorer", {"where": "softmax", "num_tokens": 1}, "1 “Your”"),
    ("SplitExplorer", {"where": "scores"}, "-0.73 0.11 “Your” “one” 2"),
    ("SplitExplorer", {"where": "dropout", "dropout": 0.5}, "19 42 2.00"),
    ("VariantsExplorer", {}, "4 2 5 12 2 9"),
    ("VariantsExplorer", {"num_heads": 1, "num_kv_heads": 1, "window": 1, "num_tokens": 3}, "1 1 3 2 1"),
]


@pytest.fixture(scope="module")
def first():
    """Each explorer, made once, in its first state: first("ScoresExplorer")."""
    made = {}

    def first(name):
        e = made.setdefault(name, getattr(explorers, name)(SENTENCE))
        e.set(**e._first)
        return e

    return first


@pytest.mark.parametrize(("name", "state", "said"), SAID)
def test_figures_of_a_headline(first, name, state, said):
    e = first(name)
    e.set(**state)
    assert figures(e.said) == figures(said)


READ = [  # one layer's KV cache has keys and values for the window but the newest token, 4 bytes per number
    ("VariantsExplorer", {}, "KV cache", "1.0 6.1"),  # 2 x 4 tokens x 32 wide x 4 bytes; 2 x 12 x 64 x 4, in kB
    ("VariantsExplorer", {"num_kv_heads": 1, "window": 16, "num_tokens": 16}, "KV cache", "1.9 8.2"),  # 2 x 15 x 16 x 4
    ("SplitExplorer", {}, "in memory", "264 2 6 6 288"),  # 3 x 3 x 12 + 12 x 13 parameters; 4 bytes per weight
    ("SplitExplorer", {"d_out": 96, "num_heads": 12, "num_tokens": 64}, "in memory", "10176 12 64 64 196.6"),
    ("SplitExplorer", TRAINED | {"d_out": 64, "num_heads": 1}, "in memory", "16448 1 7 7 196"),  # 4 x 64 x 64 + 64
]


@pytest.mark.parametrize(("name", "state", "readout", "said"), READ)
def test_figures_of_a_readout(first, name, state, readout, said):
    e = first(name)
    e.set(**state)
    assert figures(readouts(e)[readout]) == figures(said)


def test_of_two_equal_words_only_the_query_is_itself():
    e = explorers.ScoresExplorer(Sentence(["a", "a"], torch.tensor([[1.0, 0.0], [3.0, 0.0]])))
    assert figures(e.said)[:2] == ["“a”", "1.00"]  # query 1 reads itself
    e.set(query=0)
    assert figures(e.said) == ["“a”", "“a”", "0.88", "0.50"]  # softmax of 1 and 3


def test_a_single_token_can_lose_its_only_weight():
    alone = explorers.WrapperExplorer(Sentence(["one"], torch.ones(1, 3)))
    alone.set(num_heads=1)
    assert figures(alone.said) == ["“one”"]
    alone.set(dropout=0.9, seed=0)
    assert figures(alone.said) == ["1", "1"]  # 1 of 1 weights is gone, and none has grown
