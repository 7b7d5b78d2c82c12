"""What WrapperExplorer and SplitExplorer say and mark, worked out from arrays that are checked first."""

import itertools
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
import torch
from explorer_checks import check, stored
from explorer_words import SVG, paths, words

from attention_helpers import Sentence, explorers
from attention_helpers.explorers.base import Markup, plain
from attention_helpers.plots import HEAD_COLOURS
from tools.bench.made import SENTENCE

NAMES, TASK = SENTENCE.tokens, ["D 2", "H 8", "C 2", "B 3", "J 9", "I 3", "HI ?"]


@torch.no_grad()
def right(width, num_heads):
    """How many of 64 unseen examples a trained model answers, in percent, for each of the two questions."""
    reader, x, answers = stored(width, num_heads)
    return [round(100 * share) for share in (reader(x[:64]).argmax(-1) == answers[:64]).double().mean(0).tolist()]


@pytest.fixture(scope="module")
def side_by_side():
    return explorers.WrapperExplorer(SENTENCE)


@pytest.fixture(scope="module")
def whole():
    return explorers.SplitExplorer(SENTENCE)


def arrays_of(e, **state):
    """What an explorer shows in a state; its words are worked out from these arrays, which are checked first."""
    e.set(**e._first | state)
    check(e, type(e).__name__)
    return e.arrays


def told(e):
    """Readouts as plain text."""
    return {name: plain(text) for name, text in e.readouts(e.arrays).items()}


def dropped(made):
    """Dropout's sentence: how many weights are gone, and the factor of one that stayed."""
    future = torch.ones(made.weights.shape[1:]).triu(1).bool()
    seen = (~future).expand_as(made.weights)
    gone, all_ = int((made.shown[seen] == 0).sum()), int(seen.sum())
    kept = made.shown != 0
    grown = f"; the others grew {(made.shown[kept] / made.weights[kept])[0]:.2f} times" if kept.any() else ""
    return f"Dropout removed {gone} of {all_} weights{grown}"


def spread(weights):
    """The largest difference between two heads, and the first cell that has it."""
    pairs = itertools.combinations(range(len(weights)), 2)
    gaps = torch.stack([(weights[a] - weights[b]).abs() for a, b in pairs]).amax(dim=0)
    return gaps.max().item(), next(cell for cell in np.ndindex(*gaps.shape) if gaps[cell] > gaps.max() - 1e-6)


def entropies(weights):
    """Each head's mean entropy in bits, term by term."""
    each = [[sum(-w * np.log2(w) for w in row if w > 0) for row in head] for head in weights.double().tolist()]
    return [f"{np.mean(rows):.2f}" for rows in each]


def last_rows(made, names):
    """What the last token reads most in each head, in the alternative text's words."""
    for n, row in enumerate(made.shown[:, -1].tolist()):
        reads = f"reads “{names[row.index(max(row))]}” most ({max(row):.2f})" if max(row) else "reads nothing"
        yield f"Head {n + 1}: “{names[-1]}” {reads}, mean entropy {entropies(made.weights)[n]} bits."


def range_of(table):
    return f"{min(table.flatten().tolist()):.2f} to {max(table.flatten().tolist()):.2f}"


# WrapperExplorer's states, and what's worked out by hand: the heads' widths, and 3 x 3 (or 3 x 32) numbers per entry.
SIDE = [
    ({}, "2 heads × 2 = 4 wide", "2 × 18 = 36"),
    ({"num_heads": 8, "d_out": 3, "seed": 9}, "8 heads × 3 = 24 wide", "8 × 27 = 216"),
    ({"num_heads": 3, "dropout": 0.5, "seed": 7}, "3 heads × 2 = 6 wide", "3 × 18 = 54"),
    ({"num_heads": 1, "dropout": 0.9, "seed": 3}, "1 head × 2 = 2 wide", "1 × 18 = 18"),
    ({"weights": "trained", "num_heads": 1, "d_out": 32}, "1 head × 32 = 32 wide", "1 × 3072 = 3072"),
    ({"weights": "trained", "num_heads": 2, "d_out": 16, "dropout": 0.25}, "2 heads × 16 = 32 wide", "2 × 1536 = 3072"),
]


@pytest.mark.parametrize(("state", "width", "parameters"), SIDE)
def test_readouts_and_alternative_text_of_heads_side_by_side(side_by_side, state, width, parameters):
    made, trained = arrays_of(side_by_side, **state), "weights" in state
    said, names = told(side_by_side), TASK if trained else NAMES
    assert (said.pop("context"), said.pop("parameters")) == (width, parameters)
    assert said.pop("entropy per head") == f"{', '.join(entropies(made.weights))} bits"
    if state.get("dropout"):
        assert said.pop("sums of rows") == range_of(made.shown.sum(dim=2))
    if trained:
        first, second = right(state["num_heads"] * state["d_out"], state["num_heads"])
        asks = "“HI ?” asks for the digits in “H 8” and “I 3”, in this order."
        examples = f"Unseen examples: first digit right in {first}%, second in {second}%."
        assert said.pop("trained for") == f"{asks} {examples}"
    assert said == {}
    wide = f"The context vectors are {made.context.shape[1]} wide, with entries from {range_of(made.context)}."
    assert side_by_side.alt == " ".join([*last_rows(made, names), wide])


def test_headlines_of_heads_side_by_side(side_by_side):
    def said(**state):
        made = arrays_of(side_by_side, **state)
        return side_by_side.said, made

    for state in ({}, {"num_heads": 8, "d_out": 3, "seed": 9}):
        headline, made = said(**state)
        alike = f"Untrained, the {len(made.shown)} heads look alike: no weight differs by more than "
        assert headline == f"{alike}{spread(made.weights)[0]:.2f}"
        assert spread(made.weights)[0] < 0.1
    headline, made = said(num_heads=8, d_out=2, seed=17)
    most, (row, column) = spread(made.weights)
    cell = made.weights[:, row, column].tolist()
    low, high = (f"{end(cell):.2f} in head {cell.index(end(cell)) + 1}" for end in (min, max))
    where = f"where “{NAMES[row]}” reads “{NAMES[column]}”"
    assert headline == f"Untrained heads differ a little, most {where}: {low}, {high}"
    assert most > 0.1
    headline, made = said(num_heads=1, d_out=4)
    assert headline == f"“step” reads all 6 tokens about equally ({range_of(made.weights[0, -1])})"
    for state in ({"num_heads": 3, "dropout": 0.5, "seed": 7}, {"num_heads": 1, "dropout": 0.85, "seed": 1}):
        headline, made = said(**state)
        assert headline == dropped(made)


@pytest.mark.parametrize(
    ("num_heads", "d_out", "reads"),
    [
        (1, 32, "“H 8” most: 0.45"),
        (2, 8, "“H 8” most in head 1 (0.86), “I 3” in head 2 (0.96)"),
        (4, 2, "“H 8” most in heads 1 and 4, “I 3” in head 2, “B 3” in head 3"),
        (4, 16, "“I 3” most in head 1, “H 8” in heads 2, 3 and 4"),
    ],
)
def test_the_headline_says_what_trained_heads_read_and_how_often_they_are_right(side_by_side, num_heads, d_out, reads):
    state = {"weights": "trained", "num_heads": num_heads, "d_out": d_out}
    row = arrays_of(side_by_side, **state).weights[:, -1]
    first, second = right(num_heads * d_out, num_heads)
    assert side_by_side.said == f"“HI ?” reads {reads}; first digit right in {first}%, second in {second}%"
    for head, token in enumerate(row.argmax(dim=1).tolist()):
        assert re.search(rf"“{re.escape(TASK[token])}”[^“]*\b{head + 1}\b" if num_heads > 1 else TASK[token], reads)
    numbers = [float(number) for number in re.findall(r"0\.\d\d", reads)]
    assert numbers == [round(weight, 2) for weight in row.amax(dim=1).tolist()][: len(numbers)]


def test_a_single_token_reads_itself_and_a_weight_far_above_the_others_is_named():
    alone = explorers.WrapperExplorer(Sentence(["one"], torch.ones(1, 3)))
    alone.set(num_heads=1)
    assert alone.said == "“one” can only read itself"
    alone.set(dropout=0.9, seed=0)
    assert alone.said == "Dropout removed 1 of 1 weights"
    assert "“one” reads nothing" in alone.alt
    strong = explorers.SplitExplorer(Sentence(NAMES, 10 * SENTENCE.embeddings))
    weights = arrays_of(strong, where="softmax", num_heads=6).weights
    head, key = divmod(int(weights[:, -1].argmax()), 6)
    most = f"“step” reads “{NAMES[key]}” most: {weights[head, -1, key]:.2f} in head {head + 1}"
    assert strong.said == f"Softmax makes each row sum to 1: {most}"


STATES = [
    {},
    {"d_out": 8, "num_heads": 8, "num_tokens": 1, "seed": 3},
    {"d_out": 24, "num_heads": 3, "num_tokens": 12, "seed": 5, "dropout": 0.5},
    {"weights": "trained", "d_out": 32, "num_heads": 4},
]


@pytest.mark.parametrize("state", STATES)
def test_each_stage_says_what_it_did_with_the_present_numbers(whole, state):
    made = arrays_of(whole, where="tokens", **state)
    names, x, num_heads, count, d_out = made.tokens, made.x, len(made.weights), len(made.x), made.output.shape[1]
    head_dim, d_in = d_out // num_heads, 32 if "weights" in state else 3
    each = f"{head_dim} number{'' if head_dim == 1 else 's'}"
    everything = made.steps.scores[0]
    head, query, key = (everything == everything.max()).nonzero()[0].tolist()
    meet = f"“{names[query]}” meets “{names[key]}”"
    come = f"{count} tokens come in, each" if count > 1 else "1 token comes in,"
    expected = {
        "tokens": f"{come} a row of {d_in} numbers from {range_of(x)}",
        "queries": f"W_query turns each token's {d_in} numbers into a query of {d_out}: {head_dim} per head",
        "keys": f"W_key turns the same tokens into keys of {d_out} numbers: {head_dim} per head",
        "values": f"W_value turns them into values, to be averaged: {each} per head",
        "scores": f"Scores run from {range_of(everything)}, where {meet} (head {head + 1})",
        "mask": f"The mask hides {sum(range(count))} of each head's {count**2} scores: those of later tokens",
        "dropout": dropped(made),
        "context": f"Each head averages its values by its weights: {each} per token",
        "side by side": f"The heads' contexts come side by side: {num_heads} × {head_dim} = {d_out} numbers per token",
        "output": f"out_proj mixes the heads: each output is a weighted sum of {d_out} numbers, from all heads",
    }
    if not state.get("dropout"):
        stay = num_heads * count * (count + 1) // 2
        expected["dropout"] = f"Dropout is off: all {stay} weights stay as they are"
    if "weights" in state:
        expected["output"] = "out_proj mixes the heads: first digit right in {}%, second in {}%".format(*right(32, 4))
    for where, said in expected.items():
        whole.set(where=where)
        assert whole.said == said


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ({}, "“step” reads all 6 tokens about equally ({})"),
        ({"num_tokens": 1}, "“Your” can only read itself"),
        ({"num_tokens": 64, "num_heads": 1}, "“random 57” reads all 64 tokens about equally ({})"),
        ({"weights": "trained", "d_out": 32}, "“HI ?” reads “H 8” most in head 1 (1.00), “I 3” in head 2 (1.00)"),
    ],
)
def test_softmax_says_what_the_last_token_reads(whole, state, said):
    said = said.format(range_of(arrays_of(whole, where="softmax", **state).weights[:, -1]))
    assert whole.said == f"Softmax makes each row sum to 1: {said}"


@pytest.mark.parametrize("state", STATES)
def test_the_alternative_text_gives_each_tables_range_and_each_heads_strongest(whole, state):
    for stage, where in enumerate(whole.controls["where"].options, 1):
        made = arrays_of(whole, where=where, **state)
        names, heads = made.tokens, zip(("Queries", "Keys", "Values"), made.steps, strict=False)
        tables = {name: heads[0].transpose(0, 1).flatten(1) for name, heads in heads}
        said = [f"Stage {stage} of 11: {where}{'; what comes later is pale' if stage < 11 else ''}."]
        for name, table in {"Tokens": made.x, **tables, "Context": made.context, "Output": made.output}.items():
            said.append(f"{name}: {table.shape[1]} numbers per token, {range_of(table)}.")
        if where in ("scores", "mask"):
            for n, table in enumerate(made.steps.scores[0], 1):
                seen = table.tril() - (torch.ones_like(table).triu(1) * 1e9 if where == "mask" else -table.triu(1))
                query, key = (seen == seen.max()).nonzero()[0].tolist()
                said.append(f"Head {n}: highest score {seen.max():.2f}, “{names[query]}” meets “{names[key]}”.")
        else:
            said += last_rows(made._replace(shown=made.weights) if where == "softmax" else made, names)
        for part in said:
            assert part.replace("-0.00", "0.00") in whole.alt
        assert len(whole.alt) == len(" ".join(said).replace("-0.00", "0.00"))


# state: heads struck out, why, and what is stored: 3 x 3 x d_out for the matrices, d_out x (d_out + 1) for out_proj,
# and 4 bytes for each weight
OFFERED = [
    (
        {},
        "5 7 8 9 10 11",
        "head_dim: 12 / 2 = 6; crossed out: 12 / 5 = 2.40 isn't whole",
        "264",
        "2 × 6 × 6, 288 bytes",
    ),
    (
        {"d_out": 15, "num_heads": 3, "num_tokens": 10},
        "2 4 6 7 8 9 10 11 12",
        "head_dim: 15 / 3 = 5; crossed out: 15 / 2 = 7.50 isn't whole",
        "375",
        "3 × 10 × 10, 1.2 kB",
    ),
    (
        {"d_out": 96, "num_heads": 12, "num_tokens": 64},
        "5 7 9 10 11",
        "head_dim: 96 / 12 = 8; crossed out: 96 / 5 = 19.20 isn't whole",
        "10176",
        "12 × 64 × 64, 196.6 kB",
    ),
]


@pytest.mark.parametrize(("state", "struck", "why", "parameters", "weights"), OFFERED)
def test_readouts_of_the_whole_layer(whole, state, struck, why, parameters, weights):
    whole.set(**whole._first | state)
    markup, said = whole.readouts(whole.arrays)["num_heads"], told(whole)
    assert re.findall("<s [^>]*>(.*?)</s>", markup) == struck.split()
    assert re.findall("<b>(.*?)</b>", markup) == [str(whole.values["num_heads"])]
    assert said["num_heads"].startswith(" ".join(map(str, range(1, 13))))
    assert f"({why})" in said["num_heads"]
    assert said["in memory"] == f"{parameters} parameters; attention weights: {weights}"
    assert set(said) == {"num_heads", "in memory", "in full"}
    assert "softmax" in said["in full"]
    assert "queries = self.split_heads" in said["in full"]


def test_a_trained_layers_readouts(whole):
    whole.set(**whole._first | {"weights": "trained", "d_out": 64, "num_heads": 1})
    said = told(whole)
    assert said["trained for"].endswith("first digit right in {}%, second in {}%.".format(*right(64, 1)))
    assert said["in memory"] == "16448 parameters; attention weights: 1 × 7 × 7, 196 bytes"  # 4 x 64 x 64 + 64
    assert "num_heads" not in said


TOKENS = "num_tokens does nothing: the trained task has seven tokens."
SEED = "seed does nothing without dropout."
GAVE_WAY = f"d_out is 4 for now: 2 isn't offered with trained weights. {SEED}"


@pytest.mark.parametrize(
    ("explorer", "state", "greyed", "message"),
    [
        ("side_by_side", {}, set(), ""),
        ("side_by_side", {"weights": "trained"}, {"seed"}, GAVE_WAY),
        ("side_by_side", {"weights": "trained", "d_out": 8, "dropout": 0.5}, set(), ""),
        ("whole", {"seed": 5}, set(), ""),
        ("whole", {"weights": "trained", "d_out": 16}, {"num_tokens", "seed"}, f"{TOKENS} {SEED}"),
        ("whole", {"weights": "trained", "d_out": 16, "dropout": 0.1}, {"num_tokens"}, TOKENS),
        ("whole", {"d_out": 13, "num_heads": 1}, set(), ""),
    ],
)
def test_what_does_nothing_is_greyed_and_what_gives_way_is_named(request, explorer, state, greyed, message):
    e = request.getfixturevalue(explorer)
    e.set(**e._first)
    e.controls["weights"].value = state.get("weights", "random")  # as a learner does: other values give way
    e.set(**state)
    assert {name for name, control in e.controls.items() if control.disabled} == greyed
    assert plain(Markup(e.message.value)) == message


LIMITS = [
    ({}, "0.67"),
    ({"num_tokens": 4}, "1"),
    ({"num_tokens": 20}, "0.2"),
    ({"weights": "trained", "d_out": 8}, "0.57"),
]


@pytest.mark.parametrize(("state", "limit"), LIMITS)
def test_the_colour_bar_ends_where_the_maps_do(whole, state, limit):
    """At 4 / num_tokens for weights; at the largest score for scores, also of those that the mask hides."""
    most = arrays_of(whole, **state).steps.scores.abs().max().item()
    for where, ends in (("softmax", [limit, "0"]), ("mask", [f"{most:.2g}", "0", f"{-most:.2g}"])):
        whole.set(**whole._first | state | {"where": where})
        said = words(ET.fromstring(whole.svg))
        found = said.index(ends[0])
        assert said[found : found + len(ends)] == ends


MAPS = [
    ("scores", "scores", 0),
    ("mask", "masked scores", 2),
    ("softmax", "weights", 2),
    ("dropout", "weights after dropout", 2),
    ("output", "weights", 2),
]


@pytest.mark.parametrize(("where", "title", "hidden"), MAPS)
def test_the_maps_are_named_by_their_stage_and_hatched_from_the_mask_on(whole, where, title, hidden):
    made = arrays_of(whole, where=where, dropout=0.5)
    tree = ET.fromstring(whole.svg)
    assert [text for text in words(tree) if text in {title for _, title, _ in MAPS}] == [title]
    assert len(paths(tree, stroke_opacity="0.3")) == hidden
    gone = int(((made.shown == 0) & (made.weights > 0)).sum())
    assert sum(paths(tree, stroke_width="1.5")) == (gone if where in ("dropout", "output") else 0)


@pytest.mark.parametrize(("num_heads", "d_out"), [(2, 2), (3, 4), (8, 1)])
def test_bands_above_the_contexts_have_the_colours_and_widths_of_their_heads(side_by_side, num_heads, d_out):
    side_by_side.set(**side_by_side._first | {"num_heads": num_heads, "d_out": d_out})
    tree = ET.fromstring(side_by_side.svg)
    bands = [rect for rect in tree.iter(f"{SVG}rect") if rect.get("height") == "5"]
    assert [band.get("fill") for band in bands] == list(HEAD_COLOURS[:num_heads])
    for n, band in enumerate(bands):
        start, end = 64 + 450 * n / num_heads, 64 + 450 * (n + 1) / num_heads
        assert float(band.get("x")) == pytest.approx(start, abs=1)
        assert float(band.get("x")) + float(band.get("width")) == pytest.approx(end, abs=1)
    inks = [group.get("fill") for group in tree.iter(f"{SVG}g") if group.get("shape-rendering")]
    assert [colour for colour in inks if colour in HEAD_COLOURS] == list(HEAD_COLOURS[:num_heads])


@pytest.mark.parametrize("num_heads", [1, 4, 12])
def test_bands_of_the_whole_layer(whole, num_heads):
    """Above queries, keys, values and contexts, but not above tokens and outputs, which belong to no head."""
    whole.set(**whole._first | {"num_heads": num_heads, "where": "output"})
    bands = [rect for rect in ET.fromstring(whole.svg).iter(f"{SVG}rect") if rect.get("height") == "5"]
    colours = [HEAD_COLOURS[n % 8] for n in range(num_heads)]
    assert [band.get("fill") for band in bands] == 4 * colours
    starts = [float(band.get("x")) for band in bands]
    for x, width, found in zip((186, 186, 186, 134), (150, 150, 150, 174), np.reshape(starts, (4, -1)), strict=True):
        assert found == pytest.approx([x + n * width / num_heads for n in range(num_heads)], abs=0.6)


def test_the_maps_of_heads_side_by_side_tell_each_weight(side_by_side):
    made = arrays_of(side_by_side, num_heads=3, seed=4, dropout=0.3)
    cells = re.findall(r"<title>(\w+) reads (\w+): ([\d.]+)</title>", side_by_side.svg)
    expected = [
        (NAMES[i], NAMES[j], head[i][j]) for head in made.shown.tolist() for i in range(6) for j in range(i + 1)
    ]
    assert [cell[:2] for cell in cells] == [cell[:2] for cell in expected]
    assert [float(cell[2]) for cell in cells] == pytest.approx([cell[2] for cell in expected], abs=1e-4)
    entries = [float(value) for value in re.findall(r", entry \d: (-?[\d.]+)</title>", side_by_side.svg)]
    assert entries == pytest.approx(made.context.flatten().tolist(), abs=1e-4)
    said = words(ET.fromstring(side_by_side.svg))
    assert [word for word in said if word.startswith("head ")] == ["head 1", "head 2", "head 3"]
    assert "0.67" in said
