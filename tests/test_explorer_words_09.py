"""What VariantsExplorer says in words, worked out by hand."""

import xml.etree.ElementTree as ET

import pytest

from attention_helpers import explorers
from attention_helpers.plots import HEAD_COLOURS
from tools.bench.made import SENTENCE

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def explorer():
    return explorers.VariantsExplorer(SENTENCE)


# state: headline, KV cache, head_dim, parameters. One layer's cache has keys and values for the window but the newest
# token, 4 bytes per number; parameters: 3 x 64 for queries, 3 x the KV width each for keys and values, 64 x 64 to join.
STATES = [
    (
        {},
        "4 query heads share 2 KV heads; the last token sees 5 of 12 tokens, "
        "and after 2 layers 9 of them can reach it.",
        "1.0 kB, against 6.1 kB without",  # 2 x 4 tokens x 32 wide x 4 bytes = 1,024; 2 x 12 x 64 x 4 = 6,144
        "64 / 4 = 16",
        64 * 3 + 2 * 32 * 3 + 64 * 64,
    ),
    (
        {"num_heads": 8, "num_kv_heads": 1, "window": 16, "num_tokens": 16},
        "8 query heads share 1 KV head; the last token sees 16 of 16 tokens, "
        "and after 2 layers 16 of them can reach it.",
        "960 bytes, against 8.2 kB without",  # 2 x 15 x 8 x 4
        "64 / 8 = 8",
        64 * 3 + 2 * 8 * 3 + 64 * 64,
    ),
    (
        {"num_heads": 1, "num_kv_heads": 1, "window": 1, "num_tokens": 3},
        "1 query head with its own keys and values; the last token sees 1 of 3 tokens, "
        "and after 2 layers 1 of them can reach it.",
        "0 bytes, against 1.5 kB without",
        "64 / 1 = 64",
        64 * 3 * 3 + 64 * 64,
    ),
]


@pytest.mark.parametrize(("state", "said", "cache", "head_dim", "parameters"), STATES)
def test_words_and_numbers_of_a_state(explorer, state, said, cache, head_dim, parameters):
    explorer.set(**explorer._first | state)
    assert explorer.said == said
    readouts = explorer.readouts(explorer.arrays)
    assert readouts["KV cache"].startswith(cache)
    assert readouts["head_dim"] == head_dim
    kv_width = 64 // explorer.values["num_heads"] * explorer.values["num_kv_heads"]
    titles = [title.text for title in ET.fromstring(explorer.svg).iter(f"{SVG}title")]
    assert f"GQA, bytes: {8 * kv_width}.0000" in titles
    assert readouts["parameters"] == f"{parameters:,}"
    assert explorer.alt.startswith(said)


def test_query_heads_are_named_and_coloured_by_the_kv_head_that_they_share(explorer):
    explorer.set(**explorer._first)
    tree = ET.fromstring(explorer.svg)
    names = [text.text for text in tree.iter(f"{SVG}text") if "query head" in text.text]
    assert names == [f"query head {n}, KV head {(n + 1) // 2}" for n in (1, 2, 3, 4)]
    patches = [rect.get("fill") for rect in tree.iter(f"{SVG}rect") if rect.get("width") == "8"]
    assert patches == [HEAD_COLOURS[0]] * 2 + [HEAD_COLOURS[1]] * 2
    inks = [group.get("fill") for group in tree.iter(f"{SVG}g") if group.get("shape-rendering")]
    assert inks == patches


def test_the_alternative_text_names_the_token_that_each_head_reads_most(explorer):
    explorer.set(**explorer._first)
    rows = explorer.arrays.weights[:, 11].tolist()
    for head, row in enumerate(rows):
        best = max(range(12), key=row.__getitem__)
        words = (
            f"query head {head + 1} with KV head {head // 2 + 1} reads token {best + 1}, {SENTENCE.tokens[best % 6]}"
        )
        assert f"{words}, most ({row[best]:.2f})" in explorer.alt


def test_no_map_has_more_ink_than_its_bar_shows(explorer):
    explorer.set(**explorer._first | {"window": 16})
    tree = ET.fromstring(explorer.svg)
    for cell in tree.iter(f"{SVG}rect"):
        for title in cell.findall(f"{SVG}title") if cell.get("fill-opacity") else ():
            assert float(cell.get("fill-opacity")) == pytest.approx(float(title.text.split(": ")[1]), abs=0.01)


def test_impossible_sharing_dims_the_last_picture_until_it_is_possible(explorer):
    explorer.set(**explorer._first)
    explorer.controls["num_heads"].value = 1
    assert "2 KV heads can&#x27;t be shared by 1 query head:" in explorer.message.value
    assert "attention-dimmed" in explorer.view._dom_classes
    assert explorer.arrays.weights.shape[0] == 4
    explorer.controls["num_kv_heads"].value = 1
    assert explorer.message.value == ""
    assert "attention-dimmed" not in explorer.view._dom_classes
