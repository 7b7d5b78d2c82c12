"""LayerExplorer, over layers that are not ours: its maps are theirs, its verdicts are right, errors are told."""

import html
import re
import xml.etree.ElementTree as ET
from functools import partial

import other_layers
import pytest
import torch
from other_layers import made
from torch import nn

from attention_helpers import (
    Sentence,
)
from attention_helpers.any_layer.inspection import look_at
from attention_helpers.any_layer.maps import find_maps
from attention_helpers.any_layer.signature import kinds_of
from attention_helpers.any_layer.verdicts import headline
from attention_helpers.explorers import LayerExplorer, layer
from attention_helpers.plots import ABOVE, HEAD_COLOURS
from attention_helpers.seeded import DrawnFrom, seeded
from tools.bench.made import settings_of

SENTENCE = Sentence(["a", "b", "c", "d"], torch.randn(4, 4, generator=torch.Generator().manual_seed(1)))
X = SENTENCE.embeddings[None]  # (1, 4, 4): as many features as tokens, so that a shape alone proves nothing


CAUSAL = "Einsum FusedCausal ByHand Renormalised Dropping"


@pytest.mark.parametrize("name", CAUSAL.split())
def test_the_maps_are_those_by_which_the_layer_mixes(name):
    """All of them have the same projections, so one softmax by the book serves as the truth for all."""
    layer, x = made(getattr(other_layers, name)).eval().double(), X.double()
    queries, keys, _ = layer.heads(x)
    scores = (queries @ keys.mT / 2**0.5).masked_fill(torch.ones(4, 4).triu(1).bool(), -torch.inf)
    expected = torch.softmax(scores, dim=-1)[0].detach()
    maps = find_maps(layer, x).maps
    torch.testing.assert_close(torch.cat([found.used for found in maps]), expected)


def test_torchs_module_is_computed_again_as_it_would_return_its_weights():
    layer = made(other_layers.TorchModuleMasked).eval()
    hide = torch.ones(4, 4).triu(1).bool()
    _, expected = layer.attention(X, X, X, attn_mask=hide, average_attn_weights=False)
    [found] = find_maps(layer, X).maps
    torch.testing.assert_close(found.weights, expected[0].detach())


def test_weights_that_are_changed_in_place_are_followed():
    def layer(x):
        weights = (x @ x.mT).softmax(-1)
        weights[:, torch.ones(4, 4).triu(1).bool()] = 0
        weights /= weights.sum(-1, keepdim=True)
        return weights @ x

    [found] = find_maps(layer, X).maps
    expected = (X @ X.mT).softmax(-1).tril()
    torch.testing.assert_close(found.used, expected / expected.sum(-1, keepdim=True))


def shares(table, total=1.0):
    return total * table / table.sum(-1, keepdim=True)


NO_MAPS = {
    "numbers below 0, though its rows sum to 1": lambda x: shares(x @ x.mT) @ x,
    "rows that sum to 1.01": lambda x: shares((x @ x.mT).exp(), 1.01) @ x,
    "NaN all over": lambda x: (torch.nan * (x @ x.mT)).softmax(-1) @ x,
}


@pytest.mark.parametrize("layer", NO_MAPS.values(), ids=NO_MAPS)
def test_what_is_no_map(layer):
    assert find_maps(layer, X).maps == []


def test_what_dropout_took_is_told_from_what_softmax_made():
    state = look_at(made(other_layers.Dropping), SENTENCE.embeddings, seed=3, training=True)
    assert torch.equal(state.shown, torch.where(state.shown == 0, 0.0, state.maps * 2))
    assert ((state.shown == 0) & (state.maps > 0)).any()
    still = look_at(made(other_layers.Dropping), SENTENCE.embeddings, seed=3, training=False)
    assert torch.equal(still.shown, still.maps)
    assert state.verdicts == still.verdicts  # of eval mode, both


# What a learner may type, and what they are told.


@pytest.fixture(autouse=True)
def no_last_picture():
    layer.LAST.clear()


class Mine(nn.Module):
    """A learner's layer, with a fault where one is asked for."""

    def __init__(self, d_in, d_out, num_heads, qkv_bias=False, dropout=0.1, fault=""):
        super().__init__()
        if d_out % num_heads:
            raise AssertionError("heads must divide")
        torch.default_generator.manual_seed(123)
        print("made")
        self.fault, self.W_value = fault, nn.Linear(d_in, d_out, bias=qkv_bias)

    def forward(self, x):
        print(x.shape)
        values = self.W_value(x)
        if self.fault == "name":
            return vlaues  # noqa: F821
        if self.fault == "none":
            return None
        if self.fault == "nothing":
            return ()
        return (values @ values.mT).softmax(-1) @ values


def test_controls_come_from_the_constructor():
    e = LayerExplorer(Mine, SENTENCE, fault="")
    assert list(e.controls) == ["d_out", "num_heads", "qkv_bias", "dropout", "training", "seed"]
    assert e.values["dropout"] == 0.1
    named = LayerExplorer(nn.MultiheadAttention, SENTENCE, batch_first=True, add_bias_kv=False)
    assert list(named.controls) == ["num_heads", "dropout", "bias", "add_zero_attn", "training", "seed"]
    assert len(named.arrays.maps) == 2


def test_heads_that_the_class_refuses_at_first_are_made_fewer():
    narrow = Sentence(["a", "b"], torch.ones(2, 3))
    assert LayerExplorer(nn.MultiheadAttention, narrow, batch_first=True).values["num_heads"] == 1


def test_an_error_is_shown_with_its_line_and_the_last_picture_stays():
    e = LayerExplorer(Mine, SENTENCE)
    before, arrays = e.svg, e.arrays
    e.controls["num_heads"].value = 3
    said = "⚠ your layer fails in line [0-9]+, <code>raise AssertionError(.*heads must divide.*)</code>: Assertion"
    assert re.search(said, e.message.value)
    assert (e.svg, e.arrays) == (before, arrays)
    e.controls["num_heads"].value = 1
    assert e.message.value == ""


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (
            "name",
            r"your layer fails in line \d+, <code>return vlaues .*</code>: NameError: name 'vlaues' is not",
        ),
        ("none", r"layer must return one row per token, 4 in all, got NoneType"),
        ("nothing", r"layer must return one row per token, 4 in all, got tuple"),
    ],
)
def test_a_class_that_fails_from_the_start_is_told_in_one_line(fault, said):
    e = LayerExplorer(Mine, SENTENCE, fault=fault)
    message = html.unescape(e.message.value)
    assert re.search(rf"⚠ {said}.*\. Fix it, and run the cell again", message)
    assert e.said == "Mine has no picture yet"
    for control in e.controls.values():
        control.value = settings_of(control)[-1]
    assert re.search(said, html.unescape(e.message.value))
    picture = ET.fromstring(e._repr_mimebundle_()["image/svg+xml"])
    assert re.search(said.split("<code>")[0], " ".join(picture.itertext()).replace("\n", " "))
    e.children[0].children[-1].click()  # Reset
    assert re.search(said, html.unescape(e.message.value))


def test_a_class_that_fails_at_first_is_shown_once_a_control_lets_it_run():
    class Even(Mine):
        def __init__(self, d_in, d_out, num_heads=5):
            super().__init__(d_in, d_out, num_heads)

    e = LayerExplorer(Even, SENTENCE, num_heads=3)
    assert "heads must divide" in e.message.value
    e.controls["d_out"].value = 6
    assert e.message.value == ""
    assert "attention-dimmed" not in e.view._dom_classes
    assert e.arrays.result.shape == (4, 6)


def test_the_last_picture_stays_when_the_cell_is_run_again_with_a_mistake():
    first = LayerExplorer(Mine, SENTENCE)
    first.set(d_out=6)
    again = LayerExplorer(Mine, SENTENCE, fault="name")
    assert again.svg == first.svg
    assert again.said == "The last picture, from before Mine failed"
    assert "attention-dimmed" in again.view._dom_classes
    assert "return vlaues" in again.message.value
    other = Sentence(["a", "b", "c", "e"], SENTENCE.embeddings)
    assert LayerExplorer(Mine, other, fault="name").said == "Mine has no picture yet"


def test_nothing_is_printed_and_no_random_number_moves(capsys):
    torch.manual_seed(99)  # another than the learner's own
    random_state = torch.get_rng_state()
    e = LayerExplorer(Mine, SENTENCE)
    e.set(d_out=8, training=False)
    assert capsys.readouterr().out == ""
    LayerExplorer(other_layers.AlwaysDropping, SENTENCE).set(seed=7)
    LayerExplorer(partial(nn.MultiheadAttention, dropout=0.5), SENTENCE, batch_first=True).set(seed=7)
    assert torch.equal(torch.get_rng_state(), random_state)


def test_the_seed_draws_what_manual_seed_would():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        expected = nn.MultiheadAttention(4, 2, dropout=0.5, batch_first=True)
        torch.manual_seed(5)
        context = expected(X, X, X)[0]
    layer = seeded(nn.MultiheadAttention, 5, 4, 2, dropout=0.5, batch_first=True)
    with DrawnFrom(torch.Generator().manual_seed(5)):
        torch.testing.assert_close(layer(X, X, X)[0], context)


@pytest.mark.parametrize(
    ("attention", "more", "said"),
    [
        (other_layers.Einsum, {"window": 3}, r"Einsum takes d_in, d_out, num_heads, got window=3"),
        (lambda d_in, window: None, {}, r"needs window: write LayerExplorer\(<lambda>, sentence, window=\.\.\.\)"),
        (nn.Linear(4, 4), {}, r"must be a class that makes a layer, got an object of class Linear: write Linear"),
    ],
)
def test_a_class_that_cannot_be_asked_is_refused(attention, more, said):
    with pytest.raises(TypeError, match=said):
        LayerExplorer(attention, SENTENCE, **more)


def test_what_a_class_takes_is_known_by_its_arguments_names():
    def kinds(attention, **given):
        return {name: kind for name, (kind, _) in kinds_of(attention, given).items()}

    assert kinds(lambda d_in, dim, num_kv_heads=None, **more: None, window=3) == {"d_in": "d_in", "dim": "d_out"}
    assert kinds(lambda dim, n_heads=2, causal=True: None) == {"dim": "d_in", "n_heads": "num_heads", "causal": "flag"}


def test_a_sentence_without_a_future_is_refused_and_a_class_that_makes_no_layer():
    with pytest.raises(ValueError, match="sentence must have at least 2 tokens"):
        LayerExplorer(Mine, Sentence(["a"], torch.ones(1, 4)))
    message = LayerExplorer(lambda d_in: d_in, SENTENCE).message.value
    assert "&lt;lambda&gt; must make a layer that can be called, got 4" in message


def sizes_of(explorer):
    sizes = [part.get("viewBox") for part in ET.fromstring(explorer.svg).iter() if part.get("viewBox")]
    assert len(sizes) == 2
    return sizes


@pytest.mark.parametrize("name", ["Convolution", "HidesTooMuch", "AlwaysDropping", "MaskThrownAway"])
def test_the_picture_has_one_size_whatever_the_layer(name):
    e = LayerExplorer(getattr(other_layers, name), SENTENCE)
    sizes = sizes_of(e)
    e.set(d_out=24)
    assert sizes_of(e) == sizes
    assert sizes_of(e) == sizes_of(LayerExplorer(Mine, SENTENCE))
    assert "nan" not in re.sub("NaN", "", e.svg + e.readout)
    assert ("no attention map was found" in e.svg) == (name == "Convolution")


def test_the_line_of_a_map_stands_in_the_readout_as_code():
    readout = LayerExplorer(other_layers.MaskThrownAway, SENTENCE).readout
    assert "`" not in readout
    assert re.search(r"softmax in line \d+, <code>[^<]*softmax[^<]*</code>", readout)


# What the picture shows.

SVG = "{http://www.w3.org/2000/svg}"


def texts(explorer):
    return ["".join(part.itertext()) for part in ET.fromstring(explorer.svg).iter(f"{SVG}text")]


def bands(explorer):
    """The heads' colours above a strip's columns."""
    return [part.get("fill") for part in ET.fromstring(explorer.svg).iter(f"{SVG}rect") if part.get("height") == "5"]


@pytest.mark.parametrize("name", ["Causal", "MaskThrownAway", "WritesIntoItsInput", "AlwaysDropping", "FixedContext"])
def test_each_verdict_is_listed_after_its_sign_and_told_in_the_alternative_text(name):
    e = LayerExplorer(getattr(other_layers, name), SENTENCE, **{"context_length": 4} if name == "FixedContext" else {})
    verdicts, shown = e.arrays.verdicts.values(), texts(e)
    assert [word for word in shown if word in {*"✓✗?"}] == [verdict.sign for verdict in verdicts]
    tooltips = [part.findtext(f"{SVG}title") for part in ET.fromstring(e.svg).iter(f"{SVG}g")]
    for sign, claim, words, _ in verdicts:
        assert any(word.startswith(f"{claim}:") for word in shown)
        assert f"{claim}: {words}".replace("`", "") in tooltips
        assert f"{sign} {claim}: {words}." in e.alt
    assert e.alt.startswith(f"{e.said}. ")
    assert e.said == headline(e.arrays.verdicts, name)


def test_the_context_has_the_heads_colours_and_the_result_of_a_projection_has_none():
    e = LayerExplorer(other_layers.Renamed, SENTENCE)
    assert bands(e) == [*HEAD_COLOURS[:2]]
    layer = seeded(other_layers.Renamed, 123, 4, 4, num_heads=2)
    context = layer.attended(X, is_causal=True)
    torch.testing.assert_close(e.arrays.context, context[0].detach())
    torch.testing.assert_close(e.arrays.result, layer.o_proj(context)[0].detach())
    assert {"context, by head", "result"} < {*texts(e)}


def test_heads_side_by_side_are_the_result_and_shown_once():
    e = LayerExplorer(other_layers.Einsum, SENTENCE, num_heads=2)
    assert bands(e) == [*HEAD_COLOURS[:2]]
    assert "result: heads side by side" in texts(e)
    assert "context, by head" not in texts(e)
    e = LayerExplorer(other_layers.TorchModule, SENTENCE)  # it doesn't show its context
    assert bands(e) == []
    assert "result" in texts(e)
    assert "context, by head" not in texts(e)


SIDEWAYS = {
    "einsum": lambda weights, v: torch.einsum("bqk,bkd->bqd", weights, v),
    "heads summed": lambda weights, v: torch.einsum("hbqk,bkd->bqd", weights[None], v),
}


@pytest.mark.parametrize("mixed", SIDEWAYS.values(), ids=SIDEWAYS)
def test_the_context_is_found_however_weights_and_values_are_multiplied(mixed):
    def layer(x):
        return mixed((x @ x.mT).softmax(-1), x) * 2

    state = look_at(layer, SENTENCE.embeddings, seed=0)
    if state.owners:
        torch.testing.assert_close(state.context, state.result / 2)
        assert state.owners == [0] * 4
    assert bool(state.owners) == (mixed is not SIDEWAYS["heads summed"])


def test_the_context_is_kept_as_it_was_before_it_is_changed_in_place():
    def layer(x):
        context = (x @ x.mT).softmax(-1) @ x
        context *= 2
        return context

    state = look_at(layer, SENTENCE.embeddings, seed=0)
    torch.testing.assert_close(state.context, state.result / 2)


def test_a_key_that_one_head_hides_is_not_hatched_in_the_others():
    e = LayerExplorer(other_layers.OneHeadMasked, SENTENCE, num_heads=2)
    cells = [title.text for title in ET.fromstring(e.svg).iter(f"{SVG}title") if title.text.startswith("a reads d: ")]
    assert [words.endswith(" 0.0000") for words in cells] == [True, False]


def test_dropped_weights_have_a_cross_and_hidden_ones_do_not():
    e = LayerExplorer(other_layers.Dropping, SENTENCE, p=0.5)
    e.set(seed=3)
    gone = ((e.arrays.shown == 0) & (e.arrays.maps > 0)).sum().item()
    crosses = [part.get("d") for part in ET.fromstring(e.svg).iter(f"{SVG}path") if part.get("stroke-width") == "1.5"]
    assert gone > 0
    assert sum(path.count("M") for path in crosses) == gone


def test_the_influence_is_outlined_where_the_future_is():
    e = LayerExplorer(other_layers.Causal, SENTENCE)
    [outline] = [part for part in ET.fromstring(e.svg).iter(f"{SVG}path") if part.get("stroke") == ABOVE]
    assert outline.get("d").count("v") == 3 + 3  # the stairs, and the right edge down to the third row
    told = [title.text for title in ET.fromstring(e.svg).iter(f"{SVG}title") if title.text.startswith("perturbing")]
    assert f"perturbing a moves d by: {e.arrays.influence[3, 0]:.4f}" in told
    assert f"Perturbing d moves the rows by a 0.00, b 0.00, c 0.00, d {e.arrays.influence[3, 3]:.2f}." in e.alt
    assert "influence: random" in texts(LayerExplorer(other_layers.AlwaysDropping, SENTENCE))


def test_a_verdict_names_the_sentences_words():
    e = LayerExplorer(other_layers.MaskThrownAway, SENTENCE)
    assert e.arrays.verdicts["future"].words.startswith("“a” (row 0) ")
    assert "“a” (row 0)" in e.alt


def test_the_readout_says_what_goes_in_and_out():
    e = LayerExplorer(other_layers.WeightsFirst, SENTENCE)
    summary = re.search("<summary>(.*)</summary>", e.readout)[1]
    judged = "judged by result 2 of 2, ignored: (1, 4, 4), attention weights"
    assert summary == f"(1, 4, 4) in, (1, 4, 4) out, {3 * (4 * 4 + 4)} parameters; {judged}"
    assert "1 attention map: softmax in line " in e.readout


def test_of_many_heads_the_first_twelve_are_shown():
    wide = Sentence(["a", "b"], torch.randn(2, 16, generator=torch.Generator().manual_seed(0)))
    e = LayerExplorer(other_layers.Causal, wide, d_out=32, num_heads=16)
    assert len(e.arrays.maps) == 16
    assert "head 12" in texts(e)
    assert "head 13" not in texts(e)
    assert "16 attention maps, the first 12 are shown" in e.readout


def test_a_default_above_its_sliders_end_is_not_taken():
    class Long(other_layers.Causal):
        def __init__(self, d_in, d_out=3, num_heads=1, context_length=1024, bias=True):
            super().__init__(d_in, d_out, num_heads)

    assert LayerExplorer(Long, SENTENCE).values == {
        "d_out": 3, "num_heads": 1, "context_length": 8, "bias": True, "training": True, "seed": 123,
    }  # fmt: skip


def test_an_input_that_the_layer_writes_into_is_the_same_for_its_next_call():
    e = LayerExplorer(other_layers.WritesIntoItsInput, SENTENCE)
    e.set(seed=5)
    assert torch.equal(e.embeddings, SENTENCE.embeddings)
