"""What explorers of a sentence claim, in figures and in words, in states that were worked out by hand."""

import pytest
import torch
from explorer_page import check_claim, figures, readouts, told, tree_of, words_of

from attention_course import explorers
from attention_course.explorers.base import Markup, plain
from attention_helpers import Sentence

# x · x is 1.4950 for "journey" and 1.4754 with "starts", and exp(1.96) : 1 = 0.88 : 0.12 at temperature 0.01.
# The trained heads' accuracies are those on 500 unseen examples, of the models in data/.
TRAINED = {"weights": "trained"}
WIDE, NARROW = TRAINED | {"d_out": 8}, TRAINED | {"d_out": 1, "num_heads": 2}
LONG = {"length": 192, "factor": 4, "rule": "NTK-aware", "pair": "2"}
THIRD = WIDE | {"num_heads": 2, "example": 3}
DROPPED = {"num_heads": 2, "dropout": 0.9, "seed": 4}
LINE = {"d_out": 1, "step": 600}
TWO = {"num_heads": 2}
ALONE = TWO | {"cut": "view alone"}
STARTS = {"query": 2}
MATRICES = {"made": "matrices"}
OVER_8 = {"processes": 8, "num_tokens": 2**15, "num_heads": 32, "num_kv_heads": 4}
OVER_2 = OVER_8 | {"split": "tokens", "processes": 2, "num_heads": 64}
CLAIMS = {
    "ScoresExplorer": [
        ({}, "said", "“journey” reads itself most: 0.24, … equal weights … 0.17"),
        (STARTS, "said", "“starts” reads “journey” most: 0.24, … equal … 0.17"),
        ({"temperature": 0.01}, "said", "“journey” reads itself most: 0.88, … equal … 0.17"),
        ({"temperature": 5}, "said", "“journey” reads itself and “starts” most: 0.18, … equal … 0.17"),
        ({"query": 5, "temperature": 0.01}, "said", "“step” reads almost only “journey”: 0.93"),
        ({"temperature": 10}, "said", "“journey” reads all 6 tokens nearly alike: 0.16 to 0.17"),
        ({"temperature": 100}, "said", "“journey” reads all 6 tokens nearly alike: 0.17 each"),
        ({"query": 0, "temperature": 0.1}, "scores ÷ 0.1", "from 4.58 to 9.99"),
        (
            {"query": 0, "temperature": 0.1},
            "alt",
            "Query Your. Scores: Your: 1.00, … Weights at temperature 0.1: Your: 0.45, … Context vector: 0.50, …",
        ),
        (STARTS, "picture", "scores of “starts” 0 1.5 … weights of “starts” … vectors of … weights of all queries …"),
        (STARTS, "picture", "… entry 0 entry 1 entry 2 embedding context …"),
        ({}, "controls", "query: The token … tokens temperature: Divides the scores before softmax"),
    ],
    "QKVExplorer": [
        ({}, "said", "“B ?” gives 0.225 of its weight to “B 1” and 0.610 to itself"),
        (MATRICES, "said", "“B ?” gives 1.000 of its weight to “B 1” and 0.000 to itself"),
        ({"made": "row missing"}, "said", "“B ?” gives 0.500 of its weight to “B 1” and 0.500 to itself"),
        (MATRICES, "alt", "Query …: 0, 1, 0. Its key: -10, 0, -10. Its weights: A 3: 0.00, B 1: 1.00, … reads: 1.00…"),
        ({}, "controls", "made from: What makes queries, keys, values"),
        (MATRICES, "picture", "… queries A 3 … ↓ A B C entry … keys A B C … weights … what “B ?” reads … 1 2 3 …"),
    ],
    "ScalingExplorer": [
        ({}, "said", "Scores have variance 73: query 5 reads almost only key 5, 1.00"),
        ({"scaling": True}, "said", "Scores ÷ √64 have variance 1.1: … largest … 0.57 (query 5 reads key 5)"),
        ({"d_k": 8, "seed": 47}, "said", "Scores have variance 3.8: query 2 reads almost only key 5, 0.92"),
        ({"d_k": 8, "seed": 8}, "said", "Scores have variance 9.2: the largest weight is 0.87 (query 6 reads key 4)"),
        ({"d_k": 1, "seed": 1}, "said", "Scores have variance 0.14: … weight is 0.29 (query 1 reads key 2)"),
        ({"d_k": 1, "seed": 1}, "picture", "… 0.00 … scores 1 …"),
        ({}, "picture", "-2.3 … scores 1 … weights 1 … entropy in bits even: 2.58 1.01 … entropy: 0.9199 bits…"),
        ({}, "controls", "d_k: The width of queries and keys … √d_k: Scale the scores before …"),
        ({}, "alt", "Scores from -20.72 to 16.22. Largest weight of each row: 0.52, 0.98, … entropy 0.60 bits…"),
    ],
    "MaskExplorer": [
        ({"place": 2}, "said", "“B ?” gives 0.991 of its weight to “B 1”, which comes later"),
        ({"mask": True}, "said", "“B 1” is hidden, … “B ?” has to guess: … 0.50 to each token that it sees"),
        ({"mask": True, "place": 0}, "said", "“B 1” is hidden, … gives 1.00 to itself, the only token …"),
        ({"mask": True, "place": 3}, "said", "“B ?” gives 0.991 of its weight to “B 1”, which comes earlier"),
        ({"mask": True}, "alt", "… A 3, … 0.00, 0.00, -inf, -inf. Its weights: A 3: 0.50, … reads digits 1, …"),
        ({}, "picture", "5.8 … scores ÷ √3 A 3 … 0.994 0.000 … weights … digits that “B ?” reads … 0.99 … 1 2 3 …"),
        ({}, "controls", "… mask: Hide later tokens before … B ?: How many tokens come before …"),
    ],
    "DropoutExplorer": [
        ({}, "said", "Step 300, p = 0: loss ≈ 0.39 on the training sequences, ≈ 0.66 on new ones"),
        ({"p": 0.5}, "said", "Step 300, p = 0.5: loss ≈ 0.76 on the training sequences, ≈ 0.18 on new ones"),
        ({"step": 15}, "lowest on new ones so far", "≈ 0.12, at step 15"),
        ({}, "controls", "step: Steps of training dropout p: The share of weights dropped in each step"),
        ({}, "alt", "… Weights of day 6: day 1: 0.00, … day 4: 0.19, day 5: 0.58, … drops 0 of 21 weights.…"),
    ],
    "WrapperExplorer": [
        ({}, "said", "“BC ?” reads “B 1” and “C 2” alike: 0.498 each, so … one average of two digits"),
        ({"example": 2}, "said", "“BC ?” reads “B 2” and “C 1” alike: 0.498 …"),
        ({"num_heads": 2}, "said", "“BC ?” reads “B 1” in head 1 (0.99), “C 2” in head 2 (0.99)"),
        ({"num_heads": 2}, "context of “BC ?”", "0.991, 0.003, 0.003 | 0.003, 0.991, 0.003"),
        (DROPPED, "said", "“BC ?” reads “B 1” in head 1 (9.91), nothing in head 2 (0.00)"),
        (DROPPED, "alt", "Head 1: “BC ?” reads “B 1” (9.91). Head 2: “BC ?” reads nothing (0.00). The context …"),
        ({}, "controls", "… d_out: … width of each head's … example: … swaps two digits … dropped seed: … drawn …"),
        (WIDE, "said", "“BI ?” reads “B 6”: 0.981; first digit right in 100%, second in 9%"),
        (WIDE, "asked for", "the digits in “B 6” and “I 3”, in this order: 6 and 3. Answered: 6 and 1"),
        (THIRD, "said", "“AG ?” reads “A 9” in head 1 (1.00), “G 2” in head 2 (0.99); … 100%, … 100%"),
        (
            WIDE | {"num_heads": 4, "example": 3, "d_out": 2},
            "said",
            "… “B 8” in head 1, “A 9” in heads 2 and 3, “G 2” in head 4; …",
        ),
        (NARROW, "picture", "… query asked key, filled by its weight one wide: a line; pale: not here … 1st letter …"),
        (
            NARROW | {"dropout": 0.5},
            "500 new examples",
            "first digit … in …, second in …, each with a mask of its own…",
        ),
        ({"num_heads": 2}, "picture", "… key of B 1: weight 0.99 …"),
        ({}, "alt", "Head 1: “BC ?” reads … “C 2” … bits. The context vectors are 3 wide, with entries from 0…"),
    ],
    "KeyWidthExplorer": [
        ({}, "said", "d_out 2, step 600: 100% of new answers are right, and every query scores its own key highest"),
        (LINE, "said", "d_out 1, step 600: 19% of new answers are right, and only A and C score their own key highest"),
        ({"step": 0}, "said", "d_out 2, step 0: 10% of new answers are right, and no query scores its own key highest"),
        ({}, "alt", "… Degrees from query to key: A 13, B 12, C 7, … Weights of B ?: D 2: 0.00, … B 6: 0.96, …"),
        ({"d_out": 8}, "picture", "… 8 wide: the two directions in which keys spread most …"),
        (
            {},
            "picture",
            "… what “B ?” gives weight to … accuracy by the letter … key of A, not here … key of D: weight 0.00 …",
        ),
        ({}, "controls", "d_out: The width of queries, keys and values step: … training asked: The letter in …"),
    ],
    "SplitExplorer": [
        ({}, "said", "“BC ?” reads “B 1” and “C 2” alike: 0.492"),
        (TWO, "said", "“BC ?” reads “B 1” in head 1 (0.99), “C 2” in head 2 (0.99)"),
        (TWO | {"example": 2}, "said", "“BC ?” reads “B 2” in head 1 (0.99), “C 1” in head 2 (0.99)"),
        (ALONE, "said", "“BC ?” reads all tokens alike in head 1 (0.25), “A 3” and “B 1” alike in head 2 (0.50)"),
        ({"num_heads": 6}, "said", "“BC ?” reads all … in heads 1, 3, 4 and 5, “B 1” in head 2, “C 2” in head 6"),
        (TWO, "each head gets", "3 entries of each token"),
        ({}, "controls", "num_heads: How many heads … d_out: The width of all heads … cut: How a wide table …"),
        (TRAINED | {"d_out": 32}, "said", "“BI ?” reads “I 3”: 0.496; first digit right in 31%, second in 84%"),
        (THIRD, "said", "“AG ?” reads “A 9” in head 1 (1.00), “G 2” in head 2 (0.98); … 100%, … 100%"),
        (ALONE, "alt", "Cut by view alone. … Head 2: … “B 1” alike (0.50), mean entropy 0.90 bits. The context …"),
    ],
    "ModelsExplorer": [
        ({"model": "Gemma 4 31B"}, "said", "At 131,072 tokens Gemma 4 31B keeps 86.2 KiB per token, 10.78 GiB in all"),
        ({"model": "Qwen3.5 9B"}, "24 linear (delta rule)", "24.0 MiB, 0.188 KiB per token"),
        ({"model": "Qwen3.5 9B"}, "note", ""),
        ({"model": "GPT-2 124M"}, "note", "num_tokens is 1,024 for now: GPT-2 124M has no more positions."),
        ({}, "picture", "what the layers keep, divided by num_tokens 16 KiB … sliding layers and others latent …"),
        ({}, "alt", "… In KiB per token: Llama 2 7B 512.00, … Qwen3.5 9B 32.19, … Gemma 4 31B 86.24…"),
        ({}, "controls", "… The length of one text show: Models with layers of this kind; the others fade"),
    ],
    "CacheExplorer": [
        ({}, "said", "At 131,072 tokens the cache takes 68.7 GB, 524.3 kB for each token"),
        ({"num_kv_heads": 8, "window": 4096}, "said", "At 131,072 tokens the cache takes 536.7 MB: it keeps 4,095…"),
        (
            {"num_tokens": 1024, "window": 1024, "first": 4},
            "said",
            "At 1,024 … takes 536.9 MB, 524.3 kB for each token",
        ),
        ({"num_kv_heads": 1, "bytes": 1}, "per token", "2 × 32 layers × 1 KV head × 128 × 1 bytes = 8.2 kB"),
        ({"window": 1024, "first": 4}, "read for each new token", "538.4 MB"),
        (
            {"num_kv_heads": 8},
            "alt",
            "32 query heads share 8 KV heads, 4 for each. … 131,072 … 17.2 GB, 131.1 kB … In all, 17.18 GB.",
        ),
        (
            {"window": 4096, "first": 4},
            "picture",
            "… 32 query heads 32 KV heads tokens that the cache keeps 0 … the cache of all layers 10 MB … num_tokens … "
            "first tokens kept: 4 last tokens kept: 4,095…",
        ),
        ({}, "note", "first tokens does nothing …: without a window, every token is kept."),
        (
            {},
            "controls",
            "… the text so far KV heads: Heads of keys and values, shared by query heads window: How many tokens one "
            "token sees, including itself first tokens: How many tokens of the beginning … 4, 2 or 1 bytes each",
        ),
    ],
    "MachinesExplorer": [
        ({}, "said", "One process alone holds 108.5 GB, more than a GPU with 80 GB has."),
        (OVER_8, "said", "By heads over 8: each holds 597.7 MB and sends 469.8 MB."),
        (OVER_8, "sends", "2 × 7/8 × 32,768 × 32 × 128 × 2 bytes = 469.8 MB"),
        (OVER_8, "note", "There are fewer KV heads than processes, so 2 processes hold the same one."),
        (OVER_8 | {"num_kv_heads": 8}, "note", ""),
        (OVER_2, "said", "By tokens over 2: each holds 1.2 GB and sends 33.6 MB."),
        (OVER_2 | {"split": "zigzag"}, "said", "By tokens over 2, in zigzag order: … 1.2 GB and sends 33.6 MB."),
        (
            OVER_2,
            "alt",
            "32,768 tokens, 64 heads and 4 KV heads. … over 2: … weights 285.2 MB, input and output 536.9 MB, "
            "queries, keys, values 335.5 MB, and sends 33.6 MB. Shares … compute: 0.50, 1.00.",
        ),
        ({}, "picture", "memory … 0 bytes 100.0 GB 200.0 GB 0 … values 80 GB filled: … rank 0 rank 0, weights: …"),
        (OVER_8, "picture", "memory … 0 bytes 500.0 MB 1.0 GB 0 1 … rank 7 Then all wait for the sum. rank 0, …"),
        (OVER_2, "picture", "… values filled: … rank 1 Between two steps, keys and values move on. rank 0, …"),
        ({}, "controls", "split: … heads, or tokens in one of two … share the layer num_tokens: The length of one …"),
        ({}, "controls", "… num_heads: Heads of queries; … num_kv_heads: Heads of keys and values, … queries share…"),
    ],
}
CLAIMS["CostExplorer"] = [
    ({}, "controls", "num_tokens: The length of one … num_heads: How many heads share … width: The width …"),
    ({}, "controls", "… width: The width of a token's vector before and after the layer …"),
    ({"num_heads": 2}, "picture", "memory, to scale scores of 2 heads: 536.9 MB … memory by length …"),
]
CLAIMS["LengthExplorer"] = [
    (LONG, "alt", "… mean score, head 4 of layer 2, pair 2: 2.65 at distance 1, -6.86 at distance 31, 4.23…"),
    (LONG, "picture", "… never in training distance → loss in nats 0 1 2 3 4 5 0 … never in training … position → …"),
    ({}, "controls", "… in training it had 32 … each one sees, including itself … part of the scores is shown…"),
]
CLAIMS["LearningExplorer"] = [({}, "controls", "step: Steps of training example: Which …")]
CLAIMS["ReadingExplorer"] = [
    ({}, "controls", "text: What the model reads, … layer: One of the layers, … head: One of the layer's heads, …"),
    ({}, "controls", "… token: Whose row is framed, and after which the bars predict ablated: Heads set …"),
]


ROWS = [(name, *row) for name, rows in CLAIMS.items() for row in rows]


@pytest.mark.parametrize(("name", "state", "place", "claim"), ROWS)
def test_what_is_claimed_is_true(explorer, name, state, place, claim):
    e = explorer(name)
    e.set(**state)
    page = readouts(e) | {"said": e.said, "alt": e.alt, "note": plain(Markup(e.message.value))}
    page["controls"] = " ".join(f"{control.description}: {control.tooltip}" for control in e.controls.values())
    tree = tree_of(e)
    page["picture"] = " ".join([*words_of(tree), *(words for words, _ in told(tree))])
    check_claim(page[place], claim)
    assert claim or not page[place]


def test_of_two_equal_words_only_the_query_is_itself():
    e = explorers.ScoresExplorer(Sentence(["a", "a"], torch.tensor([[1.0, 0.0], [3.0, 0.0]])))
    assert figures(e.said)[:2] == ["“a”", "1.00"]  # query 1 reads itself
    e.set(query=0)
    assert figures(e.said) == ["“a”", "“a”", "0.88", "0.50"]  # softmax of 1 and 3
    e.set(temperature=100)
    check_claim(e.said, "“a” reads all 2 tokens nearly alike: 0.50 each")


def test_a_single_token_reads_itself():
    e = explorers.ScoresExplorer(Sentence(["one"], torch.tensor([[-0.23, 1.0, 1.0]])))
    check_claim(e.said, "“one” reads almost only itself: 1.00")
    assert "-0.3" in words_of(tree_of(e))  # where its vectors' axis begins
    e = explorers.ScoresExplorer(Sentence(["zero"], torch.zeros(1, 3)))
    assert words_of(tree_of(e)).count("0.1") == 2  # where axes of nothing but zeros end
