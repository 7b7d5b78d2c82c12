"""What LearningExplorer, TextExplorer and CostExplorer show and say, with numbers worked out by hand."""

import base64
import io
import re
import xml.etree.ElementTree as ET
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from explorer_words import SVG, read, words
from matplotlib.colors import to_rgb
from PIL import Image
from torch import nn

from attention_helpers import explorers
from attention_helpers.explorers.base import Markup, plain
from attention_helpers.plots import HEAD_COLOURS
from attention_helpers.training.lookup import LookupTask
from attention_helpers.training.loop import Snapshot
from tools.bench.made import RUN


def tree_of(explorer):
    return ET.fromstring(explorer.svg)


def told(tree):
    """Every shape that has a tooltip, by its tooltip; of shapes with the same words only the last."""
    return {title.text: shape for shape in tree.iter() for title in shape.findall(f"{SVG}title")}


def frames(tree, stroke):
    """Where frames of a stroke's width are: (x, y, width, height)."""
    rects = [rect for rect in tree.iter(f"{SVG}rect") if rect.get("stroke-width") == stroke]
    return [tuple(float(rect.get(name)) for name in ("x", "y", "width", "height")) for rect in rects]


# LearningExplorer: a run whose maps are written down. Three pairs and a question, two examples.

TASK = LookupTask(questions=2, letters=4, digits=10, pairs=3)
WORDS = [["A 5", "C 0", "B 7", "BA ?"], ["D 1", "B 2", "C 3", "DC ?"]]
# The question's row by snapshot, example and head.
ROWS = [
    [[(0.4, 0.3, 0.2, 0.1), (0.1, 0.2, 0.3, 0.4)], [(0.3, 0.4, 0.1, 0.2), (0.26, 0.25, 0.25, 0.24)]],
    [[(0.1, 0.1, 0.7, 0.1), (0.5, 0.0, 0.3, 0.2)], [(0.6, 0.2, 0.1, 0.1), (0.0, 0.2, 0.75, 0.05)]],
    [[(0.0, 0.0, 1.0, 0.0), (0.9, 0.0, 0.1, 0.0)], [(0.98, 0.0, 0.02, 0.0), (0.0, 0.0, 0.99, 0.01)]],
]
STEPS, LOSSES, RIGHT = [0, 8, 60], [2.3026, 1.0444, 0.0126], [(0.1, 0.125), (0.75, 0.5), (0.99, 1.0)]


def symbols(words):
    """An example as the task codes it: a pair's letter and its digit, then the letters asked for."""
    letters = [[ord(pair[0]) - ord("A"), 12 + int(pair[2])] for pair in words[:3]]
    return torch.tensor([*letters, [4 + ord(words[3][0]) - ord("A"), 8 + ord(words[3][1]) - ord("A")]])


def run_of(heads):
    """A run of which the heads with these numbers are kept."""
    maps = torch.zeros(3, 2, len(heads), 4, 4)  # (snapshots, examples, num_heads, num_tokens, num_tokens)
    maps[..., 0, 0], maps[..., 1, :2], maps[..., 2, 2] = 1, 0.5, 1
    maps[..., 3, :] = torch.tensor(ROWS)[:, :, heads]
    found = zip(STEPS, LOSSES, torch.tensor(RIGHT), [{}] * 3, maps, strict=True)
    snapshots = [Snapshot(*each) for each in found]
    return SimpleNamespace(task=TASK, examples=torch.stack([symbols(words) for words in WORDS]), snapshots=snapshots)


@pytest.fixture(scope="module")
def learning():
    return explorers.LearningExplorer(run_of([0, 1]))


LEARNING = [
    (
        {},
        "Step 60: accuracy 99% and 100%. Head 1 reads B 7 most (1.00), head 2 reads A 5 most (0.90)",
        {"right answers": "7 (from B 7) and 5 (from A 5)", "loss": "0.013 nats"},
        "After 60 of 60 steps the loss is 0.01 nats; the accuracy is 0.99, 1.00. What the question BA ? reads."
        " By head 1: A 5: 0.00, C 0: 0.00, B 7: 1.00, BA ?: 0.00."
        " By head 2: A 5: 0.90, C 0: 0.00, B 7: 0.10, BA ?: 0.00.",
    ),
    (
        {"step": 8, "example": 2},
        "Step 8: accuracy 75% and 50%. Head 1 reads D 1 most (0.60), head 2 reads C 3 most (0.75)",
        {"right answers": "1 (from D 1) and 3 (from C 3)", "loss": "1.044 nats"},
        "After 8 of 60 steps the loss is 1.04 nats; the accuracy is 0.75, 0.50. What the question DC ? reads."
        " By head 1: D 1: 0.60, B 2: 0.20, C 3: 0.10, DC ?: 0.10."
        " By head 2: D 1: 0.00, B 2: 0.20, C 3: 0.75, DC ?: 0.05.",
    ),
]


@pytest.mark.parametrize(("state", "said", "rows", "alt"), LEARNING)
def test_words_of_a_step(learning, state, said, rows, alt):
    learning.set(**learning._first | state)
    assert plain(learning.said) == said
    assert read(learning)[0] == rows
    assert learning.alt == alt


@pytest.mark.parametrize(
    ("heads", "said"),
    [
        ([1], "Step 8: accuracy 75% and 50%. Head 1 reads A 5 most (0.50)"),
        ([1, 1, 0, 1], "Step 8: accuracy 75% and 50%. Head 3 reads B 7 most (0.70)"),  # the strongest of many
    ],
)
def test_the_headline_for_other_numbers_of_heads(heads, said):
    explorer = explorers.LearningExplorer(run_of(heads))
    explorer.set(step=8)
    assert plain(explorer.said) == said


def test_one_question_has_one_answer():
    run = run_of([0])
    run.task = LookupTask(letters=4, pairs=3)
    run.snapshots = [each._replace(accuracy=each.accuracy[:1]) for each in run.snapshots]
    run.examples[:, -1, 1] = run.task.blank
    explorer = explorers.LearningExplorer(run)
    assert plain(explorer.said) == "Step 60: accuracy 99%. Head 1 reads B 7 most (1.00)"
    assert read(explorer)[0]["right answer"] == "7 (from B 7)"
    assert "second answer" not in explorer.svg


def test_what_the_question_reads_is_drawn_in_each_heads_colour(learning):
    learning.set(**learning._first | {"step": 8})
    arcs = {words: arc.get("stroke") for words, arc in told(tree_of(learning)).items() if " by head " in words}
    assert arcs == {
        **{f"BA ? reads {words} by head 1: {weight}": HEAD_COLOURS[0] for words, weight in
           (("A 5", "0.1000"), ("C 0", "0.1000"), ("B 7", "0.7000"), ("BA ?", "0.1000"))},
        **{f"BA ? reads {words} by head 2: {weight}": HEAD_COLOURS[1] for words, weight in
           (("A 5", "0.5000"), ("B 7", "0.3000"), ("BA ?", "0.2000"))},  # no arc for a weight of 0
    }  # fmt: skip


MAP = r'<g transform="translate\(([\d.]+),([\d.]+)\)"><g fill="(#\w+)"'  # a map, where it is and its colour


def test_the_question_is_the_framed_row_of_each_map(learning):
    learning.set(**learning._first | {"step": 8})
    tree, maps = tree_of(learning), re.findall(MAP, learning.svg)
    assert [colour for *_, colour in maps] == [*HEAD_COLOURS[:2]]
    for (x, y, _), group in zip(maps, (g for g in tree.iter(f"{SVG}g") if g.get("shape-rendering")), strict=True):
        inks = {rect.find(f"{SVG}title").text: float(rect.get("fill-opacity")) for rect in group}
        assert max(inks.values()) == 1.0  # four tokens: a weight of 1 has the full colour
        assert inks["C 0 reads A 5: 0.5000"] == 0.5
        assert not any("reads C 0" in words for words in inks if words.startswith("A 5"))  # the future is hidden
        height = float(group[0].get("height"))
        row = float(x), float(y) + 3 * height, 4 * height, height
        assert sum(frame == pytest.approx(row, abs=0.2) for frame in frames(tree, "2")) == 1


def test_four_sevenths_of_the_weight_have_the_full_colour_of_seven_tokens():
    explorer = explorers.LearningExplorer(RUN)
    explorer.set(step=2, example=5)
    cells = [(float(says[-6:]), cell) for says, cell in told(tree_of(explorer)).items() if cell.tag == f"{SVG}rect"]
    assert min(weight for weight, _ in cells) < 4 / 7 < max(weight for weight, _ in cells)
    for weight, cell in cells:
        assert float(cell.get("fill-opacity")) == pytest.approx(min(1, weight / (4 / 7)), abs=0.01)
    assert "0.57" in words(tree_of(explorer))


def strips(tree):
    """Each head's strip as colours and opacities (num_tokens, snapshots, 4), with its place (x, y, width, height)."""
    for image in tree.iter(f"{SVG}image"):
        data = base64.b64decode(image.get("href").partition(",")[2])
        yield (
            np.asarray(Image.open(io.BytesIO(data)).convert("RGBA")) / 255,
            tuple(float(image.get(name)) for name in ("x", "y", "width", "height")),
        )


def test_the_strips_show_what_the_question_read_in_the_whole_run(learning):
    learning.set(**learning._first | {"step": 8, "example": 2})
    drawn = list(strips(tree_of(learning)))
    assert len(drawn) == 2
    for head, (pixels, _) in enumerate(drawn):
        expected = np.array([[ROWS[snapshot][1][head][token] for snapshot in range(3)] for token in range(4)])
        assert pixels[..., 3] == pytest.approx(expected**0.7, abs=0.03)
        inked = expected > 0.05
        assert pixels[inked][:, :3] == pytest.approx(np.tile(to_rgb(HEAD_COLOURS[head]), (inked.sum(), 1)), abs=0.01)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_the_step_is_framed_in_the_chart_and_in_each_strip(learning, place):
    learning.set(**learning._first | {"step": STEPS[place]})
    tree = tree_of(learning)
    marks = [frame for frame in frames(tree, "2") if frame[3] > frame[2] or frame[2] < 110]
    (_, first), (_, second) = strips(tree)
    for x, y, width, height in (first, second):
        [mark] = [mark for mark in marks if mark[1] == y]
        assert mark == pytest.approx((x + place * width / 3, y, width / 3, height), abs=0.2)
    assert len(marks) == 3


def test_the_chart_shows_the_accuracy_of_both_answers(learning):
    learning.set(**learning._first)
    tree = tree_of(learning)
    ticks = {text.text: float(text.get("y")) for text in tree.iter(f"{SVG}text") if (text.text or "").endswith("%")}
    (_, (left, _, width, _)), _ = strips(tree)
    assert ticks["100%"] < ticks["50%"] < ticks["0%"]
    for answer, (name, dashes) in enumerate((("first answer", "none"), ("second answer", "6 4"))):
        curve = told(tree)[name]
        assert (curve.get("stroke"), curve.get("stroke-dasharray")) == ("currentColor", dashes)
        spots = [tuple(map(float, spot.split())) for spot in curve.get("d")[1:].split("L")]
        for place, (x, y) in enumerate(spots):
            share = (ticks["0%"] - 4 - y) / (ticks["0%"] - ticks["100%"])
            assert share == pytest.approx(RIGHT[place][answer], abs=0.01)
            assert x == pytest.approx(left + (place + 0.5) * width / 3, abs=0.2)


def test_a_run_that_has_not_run_is_refused():
    run = run_of([0, 1])
    run.snapshots = run.snapshots[:1]
    with pytest.raises(ValueError, match="training must have run, got 1 snapshots"):
        explorers.LearningExplorer(run)


def test_play_starts_anew_at_the_end_and_stops_there():
    explorer = explorers.LearningExplorer(run_of([0, 1]))
    assert explorer.values == {"step": 60, "example": 1}  # it opens where the task is solved
    [play] = explorer.children[0].children[len(explorer.controls) + 1 :]
    assert (explorer.link.source, explorer.link.target) == ((play, "value"), (explorer.controls["step"], "index"))
    assert (play.min, play.max, play.value, play.repeat) == (0, 2, 2, True)
    play.playing = True
    play.value = 1  # as the page does
    assert play.playing
    play.value = 2
    assert not play.playing


# TextExplorer: models that don't compute. What they expect depends on one letter.


class Fixed(nn.Module):
    """Expects what `expected` says for a letter, by its token id; reads as `weights` say: (num_heads, n, n)."""

    def __init__(self, expected, weights, leaky=False):
        super().__init__()
        self.place = nn.Parameter(torch.zeros(1))
        self.expected, self.weights, self.leaky = expected, weights, leaky

    def forward(self, x):
        asked = x.roll(-1, 1) if self.leaky else x
        return self.expected[asked].log()

    def maps(self, x):
        return self.weights(x.shape[1])[None]


VOCABULARY = list(" aehijrTv")
# P(next) for each of them; the masked model expects the same after every letter.
MASKED = torch.tensor([[0.02, 0.4, 0.1, 0.08, 0.06, 0.3, 0.03, 0.007, 0.003]] * 9)
REST = [0.014, 0.013, 0.012, 0.011, 0.009, 0.008, 0.007, 0.006]
LEAKY = torch.tensor([[*REST[:n], 0.92, *REST[n:]] for n in range(9)])  # 0.92 for the letter that it reads


def to_the_left(n):
    """Head 1 reads the first token, head 2 the token itself."""
    first, own = torch.zeros(n, n), torch.eye(n)
    first[:, 0] = 1
    return torch.stack((first, own))


def to_the_right(n):
    """Head 1 reads the next token for 0.8 and itself for 0.2, head 2 the last one."""
    last = torch.zeros(n, n)
    last[:, -1] = 1
    return torch.stack((0.8 * torch.eye(n).roll(1, 1) + 0.2 * torch.eye(n), last))


@pytest.fixture(scope="module")
def typed():
    models = {"masked": Fixed(MASKED, to_the_left), "leaky": Fixed(LEAKY, to_the_right, leaky=True)}
    return explorers.TextExplorer(models, SimpleNamespace(vocabulary=VOCABULARY, window=9))


TYPED = [  # state, headline, loss, alt text, message; the losses are -log of the probabilities
    (
        {},
        "“r” comes next: the masked model gives it 0.03, the leaky model has read it: 0.92",
        {"loss for “r”": "masked 3.51 nats, leaky 0.08 nats"},
        "After “The ” comes “r”; the models expect: masked: a: 0.40, j: 0.30, e: 0.10, h: 0.08, r: 0.03. "
        "leaky: r: 0.92, ␣: 0.01, a: 0.01, e: 0.01, h: 0.01.",
        "",
    ),
    (
        {"text": "vßi@ ßha\t", "back": 3},
        "“␣” comes next: the masked model gives it 0.02, the leaky model has read it: 0.92",
        {"loss for “␣”": "masked 3.91 nats, leaky 0.08 nats"},
        "After “vi” comes “␣”; the models expect: masked: a: 0.40, j: 0.30, e: 0.10, h: 0.08, ␣: 0.02. "
        "leaky: ␣: 0.92, a: 0.01, e: 0.01, h: 0.01, i: 0.01.",
        "Not in the course's text, so left out: ß, @, \\t.",
    ),
    (
        {"text": "viXXXXXXXXXa", "back": 0},
        "Nothing follows yet: masked expects “a” (0.40), leaky expects “v” (0.92)",
        {},
        "After “via” nothing comes yet; the models expect: masked: a: 0.40, j: 0.30, e: 0.10, h: 0.08, i: 0.06. "
        "leaky: v: 0.92, ␣: 0.01, a: 0.01, e: 0.01, h: 0.01.",
        "Not in the course's text, so left out: X.",  # not that only the last 9 are read: only three were left
    ),
    (
        {"text": "XahahahThe river", "back": 8},  # the first that is read is the last ninth
        "“h” comes next: the masked model gives it 0.08, the leaky model has read it: 0.92",
        {"loss for “h”": "masked 2.53 nats, leaky 0.08 nats"},
        "After “T” comes “h”; the models expect: masked: a: 0.40, j: 0.30, e: 0.10, h: 0.08, i: 0.06. "
        "leaky: h: 0.92, ␣: 0.01, a: 0.01, e: 0.01, i: 0.01.",
        "Not in the course's text, so left out: X. The models read the last 9 characters.",
    ),
]


@pytest.mark.parametrize(("state", "said", "rows", "alt", "message"), TYPED)
def test_words_of_a_typed_text(typed, state, said, rows, alt, message):
    typed.set(**typed._first | state)
    assert plain(typed.said) == said
    assert read(typed)[0] == rows
    assert typed.alt == alt
    assert plain(Markup(typed.message.value)) == message


@pytest.mark.parametrize("text", ["", "ßßß"])
def test_a_text_of_which_nothing_is_left_dims_the_last_picture(typed, text):
    typed.set(**typed._first)
    before = typed.svg, typed.said
    typed.controls["text"].value = text
    assert f"text must have a character of the course&#x27;s text, got &#x27;{text}&#x27;" in typed.message.value
    assert "attention-dimmed" in typed.view._dom_classes
    assert (typed.svg, typed.said) == before
    with pytest.raises(ValueError, match="text must have a character of the course's text"):
        typed.set(text=text)
    typed.controls["text"].value = "a"
    assert (typed.message.value, typed.arrays.text) == ("", "a")
    assert "attention-dimmed" not in typed.view._dom_classes


def test_the_position_goes_with_the_letters_that_are_read(typed):
    typed.set(**typed._first)
    assert list(typed.controls["back"].options) == [8, 7, 6, 5, 4, 3, 2, 1, 0]  # to the right is later
    typed.controls["text"].value = "hßave"  # four letters are left
    assert list(typed.controls["back"].options) == [3, 2, 1, 0]
    assert (typed.values["back"], typed.arrays.place) == (3, 0)
    typed.controls["text"].value = "have a jar"
    assert (typed.values["back"], typed.arrays.place, typed.arrays.text) == (5, 3, "ave a jar")


def pictures_of(typed):
    """By model: the tree of its arcs and bars, and that of its maps."""
    rows = zip(typed.arrays.readings, typed.picture(typed.arrays), strict=True)
    whole = '<svg xmlns="http://www.w3.org/2000/svg">{}</svg>'.format
    return {name: [ET.fromstring(whole(part.svg)) for part in row] for name, row in rows}


def test_the_masked_model_reads_back_and_the_leaky_one_ahead(typed):
    typed.set(**typed._first)
    arcs = {name: {words: arc.get("stroke") for words, arc in told(reads).items() if " by head " in words}
            for name, (reads, _) in pictures_of(typed).items()}  # fmt: skip
    first, second = HEAD_COLOURS[:2]
    assert arcs["masked"] == {"␣ reads T by head 1: 1.0000": first, "␣ reads ␣ by head 2: 1.0000": second}
    assert arcs["leaky"] == {
        "␣ reads r by head 1: 0.8000": first,
        "␣ reads ␣ by head 1: 0.2000": first,
        "␣ reads r by head 2: 1.0000": second,
    }
    titles = [words(reads)[0] for reads, _ in pictures_of(typed).values()]
    assert titles == ["masked model: what “␣” reads", "leaky model: what “␣” reads"]


def test_only_the_masked_models_future_is_hatched(typed):
    typed.set(**typed._first | {"back": 2})
    for name, (_, maps) in pictures_of(typed).items():
        groups = [group for group in maps.iter(f"{SVG}g") if group.get("shape-rendering")]
        assert [len(group) for group in groups] == 2 * [45 if name == "masked" else 81]
        hatched = [path for path in maps.iter(f"{SVG}path") if path.get("stroke-opacity") == "0.3"]
        assert len(hatched) == (2 if name == "masked" else 0)
        assert [group.get("fill") for group in groups] == [*HEAD_COLOURS[:2]]
        inks = {words: float(cell.get("fill-opacity")) for words, cell in told(groups[0]).items()}
        assert max(inks.values()) == 1.0
        if name == "leaky":
            assert inks["T reads T: 0.2000"] == pytest.approx(0.2 / (4 / 9), abs=0.01)
        assert "0.44" in words(maps)
        cell = float(groups[0][0].get("height"))
        framed = [frame for frame in frames(maps, "2") if frame[2] > 5 * cell]
        assert len(framed) == 2
        heights = {float(rect.get("y")) for rect in groups[0] if rect.find(f"{SVG}title").text.startswith("v reads")}
        assert {round(y - 24, 1) for _, y, _, _ in framed} == {round(y, 1) for y in heights}


def test_the_bars_tick_what_comes_and_show_it_even_if_nobody_expects_it(typed):
    def names(tree):
        return [rect.find(f"{SVG}title").text for rect in tree.iter(f"{SVG}rect") if len(rect)]

    typed.set(**typed._first | {"text": "have", "back": 2})
    masked, leaky = (names(reads) for reads, _ in pictures_of(typed).values())
    assert masked == [
        f"{name}, probability: {share}"
        for name, share in (
            ("a", "0.4000"), ("j", "0.3000"), ("e", "0.1000"), ("h", "0.0800"),
            ("i", "0.0600"), ("r", "0.0300"), ("␣", "0.0200"), ("v ✓", "0.0030"),
        )
    ]  # fmt: skip
    assert leaky[0] == "v ✓, probability: 0.9200"
    for reads, _ in pictures_of(typed).values():
        assert not {rect.get("fill") for rect in reads.iter(f"{SVG}rect")} & {*HEAD_COLOURS[:6]}  # no head's colour
    typed.set(back=0)
    assert "✓" not in typed.svg


# CostExplorer

MEASURED = {"split": {512: 42_467_328}, "fused": {512: 7_864_320, 2048: 31_457_280}}


@pytest.fixture(scope="module")
def cost():
    return explorers.CostExplorer(MEASURED)


COSTS = [  # state, headline, readouts, alt text; FLOPs: 2 per term of each product, 2n(4w² + 2nw) at width w
    (
        {"num_tokens": 512},
        "At 512 tokens the scores of 12 heads take 12.6 MB, keys and values 3.1 MB",
        {
            "FLOPs": "3.22 billion; 25% of them, for scores and context, grow with num_tokens squared",
            "scores": "12 × 512 × 512 × 4 bytes = 12.6 MB",
            "keys and values": "2 × 512 × 768 × 4 bytes = 3.1 MB",
            "decoding": "0.5 FLOPs per byte of keys and values",
            "measured peak": "split 42.5 MB, fused 7.9 MB",
        },
        "With 512 tokens, num_heads 12, num_kv_heads 12 and a width of 768 one pass takes 3.22 billion FLOPs, 0.25 of "
        "them for scores and context. In numbers of 4 bytes the scores take 12.6 MB, keys and values 3.1 MB. Measured "
        "peak: split 42.5 MB, fused 7.9 MB.",
    ),
    (
        {"num_tokens": 32, "num_heads": 1},  # keys and values take more than scores
        "At 32 tokens keys and values take 196.6 kB, the scores of 1 head 4.1 kB",
        {
            "FLOPs": "0.15 billion; 2% of them, for scores and context, grow with num_tokens squared",
            "scores": "1 × 32 × 32 × 4 bytes = 4.1 kB",
            "keys and values": "2 × 32 × 768 × 4 bytes = 196.6 kB",
            "decoding": "0.5 FLOPs per byte of keys and values",
        },
        "With 32 tokens, num_heads 1, num_kv_heads 1 and a width of 768 one pass takes 0.15 billion FLOPs, 0.02 of "
        "them for scores and context. In numbers of 4 bytes the scores take 4.1 kB, keys and values 196.6 kB.",
    ),
    (
        {"num_tokens": 2048, "width": 4096, "num_heads": 32, "num_kv_heads": 8, "bytes": 2},
        # q 68.72e9, k and v 34.36e9, out_proj 68.72e9, scores and context 68.72e9 together
        "At 2,048 tokens the scores of 32 heads take 268.4 MB, keys and values 8.4 MB",
        {
            "FLOPs": "240.52 billion; 29% of them, for scores and context, grow with num_tokens squared",
            "scores": "32 × 2,048 × 2,048 × 2 bytes = 268.4 MB",
            "keys and values": "2 × 2,048 × 1,024 × 2 bytes = 8.4 MB",
            "decoding": "4 FLOPs per byte of keys and values",
        },
        "With 2,048 tokens, num_heads 32, num_kv_heads 8 and a width of 4,096 one pass takes 240.52 billion FLOPs, "
        "0.29 of them for scores and context. In numbers of 2 bytes the scores take 268.4 MB, keys and values 8.4 MB.",
    ),
]


@pytest.mark.parametrize(("state", "said", "rows", "alt"), COSTS)
def test_words_of_a_cost(cost, state, said, rows, alt):
    cost.set(**cost._first)
    cost.set(**state)
    assert plain(cost.said) == said
    assert read(cost)[0] == rows
    assert cost.alt == alt


LENGTHS = [32, 64, 128, 256, 512, 1024, 2048, 4096, 8192]


class Chart:
    """Where a chart's curves and points are, in bytes and tokens."""

    def __init__(self, explorer):
        self.tree = tree_of(explorer)
        texts = {text.text: (float(text.get("x")), float(text.get("y"))) for text in self.tree.iter(f"{SVG}text")}
        (low, high), (left, right) = ([texts[name] for name in pair] for pair in (("1 kB", "1 GB"), ("32", "8,192")))
        self.bytes_at = lambda y: 10 ** (3 + 6 * (low[1] - 4 - y) / (low[1] - high[1]))
        self.tokens_at = lambda x: 32 * 2 ** (8 * (x - left[0]) / (right[0] - left[0]))
        self.texts, self.shapes = texts, told(self.tree)

    def curve(self, name):
        spots = [map(float, spot.split()) for spot in self.shapes[name].get("d")[1:].split("L")]
        return {round(self.tokens_at(x)): self.bytes_at(y) for x, y in spots}

    def points(self):
        """By name: {tokens: bytes}."""
        found = {}
        for shape in self.tree.iter(f"{SVG}circle"):
            for title in shape.findall(f"{SVG}title"):
                spot = {round(self.tokens_at(float(shape.get("cx")))): self.bytes_at(float(shape.get("cy")))}
                found.setdefault(title.text.partition(",")[0], {}).update(spot)
        return found


def close(expected):
    return {n: pytest.approx(size, rel=0.02) for n, size in expected.items()}  # a twentieth of a pixel is 1%


def test_the_curves_are_those_of_the_sizes_that_are_set(cost):
    sizes = {"num_tokens": 64, "width": 4096, "num_heads": 32, "num_kv_heads": 8, "bytes": 2}
    cost.set(**cost._first | sizes)
    chart = Chart(cost)
    assert chart.curve("scores of 32 heads") == close({n: 32 * n * n * 2 for n in LENGTHS})
    assert chart.curve("keys and values") == close({n: 2 * n * 8 * 128 * 2 for n in LENGTHS})
    assert {"1 kB", "10 kB", "100 kB", "1 MB", "10 MB", "100 MB", "1 GB", "10 GB"} <= chart.texts.keys()
    [here] = {path.get("d") for path in chart.tree.iter(f"{SVG}path")
              if (path.get("stroke-opacity"), path.get("stroke-width")) == ("0.5", "2")}  # fmt: skip
    assert chart.tokens_at(float(here[1:].split()[0])) == pytest.approx(64, rel=0.02)


def test_what_was_measured_lies_on_its_formula_at_the_measured_sizes(cost):
    cost.set(**cost._first)
    chart = Chart(cost)
    assert chart.points() == {
        "split layer's peak": close(MEASURED["split"]),
        "fused layer's peak": close(MEASURED["fused"]),
    }
    assert chart.curve("split layer's peak") == close({512: 3 * 12 * 512 * 512 * 4 + 3 * 512 * 768 * 4})
    assert chart.curve("fused layer's peak") == close({n: 5 * n * 768 * 4 for n in (512, 1024, 2048)})
    assert "fused layer's peak, measured: 31.5 MB" in chart.shapes
    assert "memory of one layer, points measured" in chart.texts


@pytest.mark.parametrize(
    "sizes",
    [{"num_heads": 48}, {"num_heads": 24, "num_kv_heads": 12}, {"num_kv_heads": 4}, {"width": 1024}, {"bytes": 2}],
)
def test_other_sizes_show_nothing_measured_and_say_why(cost, sizes):
    cost.set(**cost._first)
    cost.set(**sizes)
    assert Chart(cost).points() == {}
    assert "peak" not in cost.svg + cost.readout
    assert "No measured points: they were taken with 12 heads, width 768, float32." in cost.message.value
    cost.set(**cost._first)
    assert cost.message.value == ""


def test_the_bars_are_the_parts_shares_of_the_flops(cost):
    cost.set(**cost._first | {"num_tokens": 1536 * 2 // 3})  # 1,024: w is three quarters of n
    parts = {"q, k, v": 3 * 768, "scores": 1024, "context": 1024, "out_proj": 768}  # divided by 2nw
    bars = {words: bar for words, bar in told(tree_of(cost)).items() if ", share: " in words}
    expected = {f"{name}, share: {size / sum(parts.values()):.4f}": size for name, size in parts.items()}
    assert bars.keys() == expected.keys()
    unit = float(bars["out_proj, share: 0.1500"].get("height")) / 768
    for says, bar in bars.items():
        assert float(bar.get("height")) == pytest.approx(unit * expected[says], abs=0.2)
        assert bar.get("fill") not in HEAD_COLOURS[:6]


def test_heads_keep_their_own_keys_until_some_are_shared(cost):
    def state():
        return tuple(cost.values[name] for name in ("width", "num_heads", "num_kv_heads"))

    cost.set(**cost._first)
    cost.controls["num_heads"].value = 48
    assert state() == (768, 48, 48)
    cost.controls["width"].value = 1600  # 1600 / 48 isn't whole, 1600 / 40 is
    assert state() == (1600, 40, 40)
    assert "48 doesn&#x27;t divide the width 1600: 40 heads instead." in cost.message.value
    cost.controls["width"].value = 768
    assert state() == (768, 48, 48)
    cost.controls["num_kv_heads"].value = 4
    cost.controls["num_heads"].value = 6
    assert state() == (768, 6, 3)
    assert "4 doesn&#x27;t divide 6 heads: 3 KV heads instead." in cost.message.value
    cost.set(num_heads=8)
    assert state() == (768, 8, 4)
    cost.set(num_heads=24, num_kv_heads=24)
    assert state() == (768, 24, 24)
    cost.set(num_heads=2)
    assert state() == (768, 2, 2)
    assert list(cost.controls["num_kv_heads"].options) == [1, 2]
    assert list(cost.controls["num_heads"].options)[-4:] == [24, 32, 48, 64]


def test_a_number_of_heads_that_was_not_measured_is_refused():
    with pytest.raises(ValueError, match="num_heads must divide width and be at most 64, got 12 and 64"):
        explorers.CostExplorer({}, width=64)
    explorer = explorers.CostExplorer({"split": {}, "other": {64: 20_000}}, width=64, num_heads=4)
    assert explorer.values["width"] == 64
    assert Chart(explorer).points() == {"other layer's peak": close({64: 20_000})}
    assert explorer.message.value == ""
