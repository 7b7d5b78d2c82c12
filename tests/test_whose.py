"""whose: every published number in the forms in which people have it, what they did otherwise, and nobody's numbers."""

import re

import pytest
import torch

from attention_course.mistakes import MISTAKES, with_mistake
from attention_course.whose import whose
from attention_course.whose.tables import as_tensors, figures
from attention_helpers import (
    CausalAttention,
    Dropout,
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
    SelfAttention_v1,
    SelfAttention_v2,
    load_sentence,
)

X = load_sentence("journey").embeddings
BATCH = torch.stack((X, X))
TABLES = [(name, table) for name in figures() for table in as_tensors(figures()[name]["expected"])]
each_table = pytest.mark.parametrize(("name", "table"), TABLES, ids=[name for name, _ in TABLES])
# What no layer computes: sizes, and one that was drawn without a seed
GIVEN = "batch_shape", "causal_shape", "gpt2_sizes", "qkv_score_journey_journey"
LEAKY = "causal_leaky_with_dropout", "multi_head_split_leaky", "multi_head_wrapper_leaky", "wrapper_leaky_drawn_after"
FORMS = {
    "tensor": lambda table: table,
    "float32": lambda table: table.float(),
    "lists": lambda table: table.tolist(),
    "printed": lambda table: f"{table.float()}"[:-1] + ", grad_fn=<UnsafeViewBackward0>)",
    "with its size": lambda table: f"{table.float()}\ntorch.Size({list(table.shape)})",
    "three decimals": lambda table: str(table.mul(1000).round().div(1000).tolist()),
    "a row": lambda table: table.reshape(-1, table.shape[-1])[1 % (table.numel() // table.shape[-1])].tolist(),
}


@pytest.mark.parametrize("form", FORMS)
@each_table
def test_a_published_table_is_found_in_each_form(name, table, form):
    if not table.ndim:
        assert figures()[name]["title"] in whose(float(table))
        return
    text = whose(FORMS[form](table))
    if "nothing but 0" not in text:
        assert figures()[name]["title"] in text


@each_table
def test_a_published_table_is_computed_and_judged(name, table):
    """Its first way has the sign that it deserves: what lacks its mask is wrong, and nothing else is."""
    if name in GIVEN:
        return
    text = whose(table)
    signs = [line[0] for line in text.splitlines() if line[:1] in ("✓", "○", "✗")]
    assert signs, text
    assert (signs[0] == "✗") == (name in LEAKY), text


def drawn(layer_class, seed, *sizes, **options):
    torch.manual_seed(seed)
    return layer_class(*sizes, **options)


def keys_first():
    layer = CausalAttention(3, 2, 6, 0.0)
    torch.manual_seed(123)
    for part in (layer.W_key, layer.W_query, layer.W_value):
        part.reset_parameters()
    return layer(BATCH)


def with_row(name, layer_class, seed, *sizes):
    [row] = [row for row in MISTAKES if row.name == name]
    return drawn(with_mistake(layer_class, row), seed, *sizes)(BATCH)


def second_draw():
    drawn(MultiHeadAttention, 123, 3, 2, 6, 0.0, 2)
    return MultiHeadAttention(3, 2, 6, 0.0, 2)(BATCH)


def wide_second_draw():
    drawn(CausalAttention, 123, 3, 4, 6, 0.0)
    return CausalAttention(3, 4, 6, 0.0)(BATCH)


def by_randn():
    torch.manual_seed(123)
    layer = SelfAttention_v1(3, 2)
    torch.manual_seed(123)
    for matrix in layer.parameters():
        matrix.data = torch.randn(3, 2)
    return layer(X)


def in_float64():
    torch.set_default_dtype(torch.float64)
    try:
        return drawn(MultiHeadAttentionWrapper, 123, 3, 2, 6, 0.0, 2)(BATCH.double())
    finally:
        torch.set_default_dtype(torch.float32)


def in_training():
    layer = drawn(CausalAttention, 123, 3, 2, 6, 0.5)
    torch.manual_seed(99)
    layer.dropout = Dropout(0.5)
    return layer(BATCH)


def weights_dropped():
    weights = torch.softmax(torch.tensor(figures()["unseeded_scores"]["expected"]) / 2**0.5, dim=-1).tril()
    torch.manual_seed(7)
    return Dropout(0.5)(weights / weights.sum(dim=-1, keepdim=True))


OTHERWISE = {  # what was done, what whose says of it
    "another seed": (lambda: drawn(SelfAttention_v1, 42, 3, 2)(X), "○ .* seed 42"),
    "v1's seed": (lambda: drawn(SelfAttention_v2, 123, 3, 2)(X), "○ .*SelfAttention_v2.* seed 123"),
    "keys first": (keys_first, r"○ .*\(W_key, W_query, W_value\)"),
    "twice": (second_draw, "○ .* a second time"),
    "twice and wider": (wide_second_draw, "○ .*d_out=4.* a second time"),
    "randn": (by_randn, "○ .*torch.randn"),
    "float64": (in_float64, "○ .*float64"),
    "biases": (lambda: drawn(MultiHeadAttention, 123, 3, 2, 6, 0.0, 2, qkv_bias=True)(BATCH), "○ .*qkv_bias=True"),
    "wider": (lambda: drawn(CausalAttention, 123, 3, 4, 6, 0.0)(BATCH), "○ .*d_out=4"),
    "one head": (lambda: drawn(MultiHeadAttentionWrapper, 123, 3, 2, 6, 0.0, 3)(BATCH), "○ .*num_heads=3"),
    "dropout elsewhere": (in_training, "○ .*in training, after dropout of 0.5"),
    "dropped weights": (weights_dropped, "✓ .*dropout of 0.5"),
    "unscaled": (lambda: with_row("doesn't scale", CausalAttention, 123, 3, 2, 6, 0.0), "✗ .*doesn't scale"),
    "over queries": (lambda: torch.softmax(X @ X.T, dim=0), "✗ .*over the queries"),
    "no out_proj": (lambda: with_row("doesn't use out_proj", MultiHeadAttention, 123, 3, 2, 6, 0.0, 2), "✗ .*out_proj"),
    "seed and mask": (
        lambda: with_row("throws the masked copy away", MultiHeadAttention, 42, 3, 2, 6, 0.0, 2),
        "✗ .* seed 42.*masked_fill",
    ),
}


@pytest.mark.parametrize("case", OTHERWISE)
def test_what_was_done_otherwise_is_named(case):
    make, expected = OTHERWISE[case]
    text = whose(make())
    assert re.search(f"^{expected}", text, flags=re.M), text


SHAPES = (6, 2), (6, 6), (2, 6, 2), (3, 2)


def masked_first():
    """The chapter's class masks scores before it divides them, ours after."""
    layer = drawn(MultiHeadAttention, 123, 3, 4, 6, 0.0, 2)
    queries, keys = (layer.split_heads(part(BATCH)) for part in (layer.W_query, layer.W_key))
    return (queries @ keys.mT).masked_fill(layer.mask, -torch.inf)


def exchanged():
    v1 = drawn(SelfAttention_v1, 123, 3, 2)
    return torch.softmax((X @ v1.W_query) @ (X @ v1.W_value).T / 2**0.5, dim=-1) @ (X @ v1.W_key)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (masked_first, "^○ The .*masked scores, not yet divided"),
        (lambda: drawn(SelfAttention_v1, 123, 3, 2)(BATCH), "^✓ .*as in the chapter.$"),
        (exchanged, "^○ .*it takes one for another.$"),
        (lambda: torch.softmax(X @ X.T, dim=-1).T @ X, "^✗ .*or the weights were transposed"),
    ],
)
def test_a_right_step_is_not_blamed_and_a_wrong_one_is_not_praised(make, expected):
    text = whose(make())
    assert re.search(expected, text, flags=re.M), text
    assert ("✗" in text) == expected.startswith("^✗")


NOBODYS = [torch.randn(shape, generator=torch.Generator().manual_seed(n)) for n, shape in enumerate(SHAPES)]


@pytest.mark.parametrize("table", [*NOBODYS, *(table.softmax(-1) for table in NOBODYS), X + 0.01, -X])
def test_of_nobodys_numbers_nothing_is_claimed(table):
    text = whose(table)
    assert text.startswith("Nothing fits"), text


def test_where_a_table_parts_from_the_nearest():
    table = as_tensors(figures()["self_attention_v1"]["expected"])[0]
    table[3, 1] = 0.9
    assert "*context vectors of v1*: 11 of 12 numbers agree. They part in row 4, column 2" in whose(table)


@pytest.mark.parametrize(
    ("numbers", "sentence"),
    [
        ("hello", "no numbers"),
        ([], "no numbers"),
        (None, "takes a tensor, a list or text"),
        ([float("nan")] * 3, "only NaN"),
        (0.3061, "One number alone"),
        ([1.0, 0.0, 0.0], "nothing but 0, 1 and infinity"),
        ([[0.3061, 0.8210], [0.3]], "Nothing fits"),
    ],
)
def test_what_cannot_be_looked_for_gets_one_sentence(numbers, sentence):
    assert sentence in whose(numbers)


def test_few_numbers_only_could_be():
    assert "could be" in whose("0.3061, 0.8210")
    assert "could be" in whose([[0.17, 0.17, 0.17, 0.16, 0.16, 0.17]] * 2)
    assert "could be" not in whose("[-0.4519, 0.2216], [-0.5874, 0.0058]")


def test_looking_leaves_random_numbers_and_settings_alone():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    whose(torch.rand(6, 2, generator=torch.Generator().manual_seed(1)))
    assert torch.equal(before, torch.get_rng_state())
    assert torch.is_grad_enabled()
