"""What explorers of a sentence claim, in figures and in words, in states that were worked out by hand."""

import pytest
import torch
from explorer_page import check_claim, figures

from attention_course import explorers
from attention_course.explorers.words import Markup, plain
from attention_helpers import Sentence

# x · x is 1.4950 for "journey" and 1.4754 with "starts", and exp(1.96) : 1 = 0.88 : 0.12 at temperature 0.01.
# The trained heads' accuracies are those on 500 unseen examples, of the models in data/.
TRAINED = {"weights": "trained"}
WIDE = TRAINED | {"d_out": 8}
DROPPED = {"num_heads": 2, "dropout": 0.9, "seed": 4}
LINE = {"d_out": 1, "step": 600}
TWO = {"num_heads": 2}
ALONE = TWO | {"cut": "view alone"}
MATRICES = {"made": "matrices"}
OVER_8 = {"processes": 8, "num_tokens": 2**15, "num_heads": 32, "num_kv_heads": 4}
OVER_2 = OVER_8 | {"split": "tokens", "processes": 2, "num_heads": 64}
CLAIMS = {
    "ScoresExplorer": [
        ({}, "said", "“journey” looks at itself most: 0.24, … equal weights … 0.17"),
        ({"temperature": 0.01}, "said", "“journey” looks at itself most: 0.88, … equal … 0.17"),
        ({"temperature": 5}, "said", "“journey” looks at itself and “starts” most: 0.18, … equal … 0.17"),
        ({"query": 5, "temperature": 0.01}, "said", "“step” looks at “journey” most: 0.93, … equal weights … 0.17"),
    ],
    "QKVExplorer": [
        ({}, "said", "“B ?” gives 0.225 of its weight to “B 1” and 0.610 to itself"),
        (MATRICES, "said", "“B ?” gives 1.000 of its weight to “B 1” and 0.000 to itself"),
        ({"made": "row missing"}, "said", "“B ?” gives 0.500 of its weight to “B 1” and 0.500 to itself"),
    ],
    "ScalingExplorer": [
        ({}, "said", "Scores have variance 73: query 5 looks at almost only key 5, 1.00"),
        ({"seed": 1}, "said", "Scores have variance 49: query 3 looks at almost only key 6, 1.00"),
        ({"scaling": True}, "said", "Scores ÷ √64 have variance 1.1: … largest … 0.57 (query 5 looks at key 5)"),
    ],
    "MaskExplorer": [
        ({"place": 2}, "said", "“B ?” gives 0.991 of its weight to “B 1”, which comes later"),
        ({"mask": True}, "said", "“B 1” is hidden, … “B ?” has to guess: … 0.50 to each token that it sees"),
        ({"mask": True, "place": 0}, "said", "“B 1” is hidden, … gives 1.00 to itself, the only token …"),
    ],
    "DropoutExplorer": [
        ({}, "said", "Step 300, p = 0: loss ≈ 0.39 on the training sequences, ≈ 0.66 on new ones"),
        ({"p": 0.5}, "said", "Step 300, p = 0.5: loss ≈ 0.76 on the training sequences, ≈ 0.18 on new ones"),
    ],
    "WrapperExplorer": [
        ({}, "said", "“BC ?” looks at “B 1” and “C 2” alike: 0.498 each, so … one average of two digits"),
        ({"example": 2, "dropout": 0.45}, "said", "“BC ?” looks at “C 1”: 0.906"),
        ({"num_heads": 2}, "said", "“BC ?” looks at “B 1” in head 1 (0.99), “C 2” in head 2 (0.99)"),
        (DROPPED, "said", "“BC ?” looks at “B 1” in head 1 (9.91), nothing in head 2 (0.00)"),
        (WIDE, "said", "“BI ?” looks at “B 6”: 0.981; first digit right in 100%, second in 9%"),
    ],
    "KeyWidthExplorer": [
        ({}, "said", "d_out 2, step 600: 100% of new answers are right, and every query scores its own key highest"),
        (LINE, "said", "d_out 1, step 600: 19% of new answers are right, and only A and C score their own key highest"),
        ({"step": 0}, "said", "d_out 2, step 0: 10% of new answers are right, and no query scores its own key highest"),
    ],
    "SplitExplorer": [
        ({}, "said", "“BC ?” looks at “B 1” and “C 2” alike: 0.492"),
        (TWO, "said", "“BC ?” looks at “B 1” in head 1 (0.99), “C 2” in head 2 (0.99)"),
        (ALONE, "said", "“BC ?” looks at all tokens alike in head 1 (0.25), “A 3” and “B 1” alike in head 2 (0.50)"),
        ({"num_heads": 6}, "said", "“BC ?” looks at all … in heads 1, 3, 4 and 5, “B 1” in head 2, “C 2” in head 6"),
    ],
    "ModelsExplorer": [
        ({"model": "Gemma 4 31B"}, "said", "At 131,072 tokens Gemma 4 31B keeps 86.2 KiB per token, 10.78 GiB in all"),
        ({"model": "GPT-2 124M"}, "note", "num_tokens is 1,024 for now: GPT-2 124M has no more positions."),
    ],
    "CacheExplorer": [
        ({}, "said", "At 131,072 tokens the cache takes 68.7 GB, 524.3 kB for each token"),
        ({"num_kv_heads": 8, "window": 4096}, "said", "At 131,072 tokens the cache takes 536.7 MB: it keeps 4,095…"),
        ({}, "note", "first tokens does nothing …: without a window, every token is kept."),
    ],
    "SuspectsExplorer": [
        (
            {"suspect": "A"},
            "said",
            "Later tokens move rows by up to 0.30, 17 of 21 … 0, rows of weights sum to 0.00 to 1.00",
        ),
        (
            {"suspect": "B", "training": True},
            "said",
            "Later tokens move rows by up to 0.17, 0 of 21 … are 0, all … 1.00",
        ),
        ({"suspect": "C"}, "said", "Later tokens move rows by up to 0.00, 9 of 21 … are 0, all … 1.00"),
        ({"suspect": "E"}, "said", "Later tokens move rows by up to 0.00, 0 of 21 … are 0, all … 1.00"),
    ],
    "MachinesExplorer": [
        ({}, "said", "One process alone holds 108.5 GB, more than a GPU with 80 GB has."),
        (OVER_8, "said", "By heads over 8: each holds 597.7 MB and sends 469.8 MB."),
        (OVER_8, "note", "There are fewer KV heads than processes, so 2 processes hold the same one."),
        (OVER_2, "said", "By tokens over 2: each holds 1.2 GB and sends 33.6 MB."),
    ],
}


ROWS = [(name, *row) for name, rows in CLAIMS.items() for row in rows]


@pytest.mark.parametrize(("name", "state", "place", "claim"), ROWS)
def test_what_is_claimed_is_true(explorer, name, state, place, claim):
    e = explorer(name)
    e.set(**state)
    check_claim({"said": e.said, "note": plain(Markup(e.message))}[place], claim)


def test_of_two_equal_words_only_the_query_is_itself():
    e = explorers.ScoresExplorer(Sentence(["a", "a"], torch.tensor([[1.0, 0.0], [3.0, 0.0]])))
    assert figures(e.said)[:2] == ["“a”", "1.00"]  # query 1 looks at itself
    e.set(query=0)
    assert figures(e.said) == ["“a”", "“a”", "0.88", "0.50"]  # softmax of 1 and 3
    e.set(temperature=100)
    check_claim(e.said, "“a” looks at all 2 tokens nearly alike: 0.50 to 0.50")
