"""Every explorer over its controls: what it shows is what the layers compute, and no state raises."""

import itertools
import random
import re
import threading
import xml.etree.ElementTree as ET
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from attention_helpers import (
    CausalAttention,
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
    SelfAttention_v2,
    Sentence,
    attention_weights,
    causal_mask,
    explorers,
)
from attention_helpers.explorers import lookup_models
from attention_helpers.explorers.lesson_06 import divisors
from attention_helpers.explorers.svg_maps import WEIGHTS
from attention_helpers.seeded import seeded
from attention_helpers.training.characters import CharacterModel
from attention_helpers.training.lookup import LookupModel, LookupTask
from tools.bench.made import MADE_FROM, MODEL, MODELS, RUN, SENTENCE, make, settings_of

NAMES = explorers.__all__


@pytest.fixture(scope="module")
def explorer():
    """Each explorer, made once: explorer("ScoresExplorer")."""
    made = {}
    return lambda name: made.setdefault(name, make(name))


def states(explorer, most):
    """The whole grid of control values, or `most` random states of it with every value of every control among them."""
    lists = {name: settings_of(control) for name, control in explorer.controls.items()}
    if np.prod([len(values) for values in lists.values()]) <= most:
        return [dict(zip(lists, state, strict=True)) for state in itertools.product(*lists.values())]
    chance = random.Random(0)
    columns = {name: [values[n % len(values)] for n in range(most)] for name, values in lists.items()}
    for column in columns.values():
        chance.shuffle(column)
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def legal(name, state):
    """Controls that depend on others take a value that goes with them."""
    if state.get("weights") == "trained":
        state["num_heads"] = lookup_models.HEADS[state["seed"] % 3]
        width = lookup_models.WIDTHS[state["seed"] % 4]
        state["d_out"] = width // state["num_heads"] if name == "WrapperExplorer" else width
    elif name in ("SplitExplorer", "LayerExplorer"):
        options = [n for n in divisors(state["d_out"]) if name == "SplitExplorer" or n <= 8]
        state["num_heads"] = options[state["seed"] % len(options)]
    elif name == "TextExplorer":
        state["back"] %= min(len(state["text"]), 32)
    return state


def impossible(name, state):
    """What the error says, if there is one."""
    if name == "VariantsExplorer" and state["num_kv_heads"] > state["num_heads"]:
        return "must divide num_heads"
    if name == "MaskExplorer" and state["poked"] >= state["num_tokens"]:
        return "is not among the first"
    return "x must hold at most" if name == "LayerExplorer" and state["context_length"] < 6 else ""


def check_scores(state, query, temperature):
    x = SENTENCE.embeddings
    assert torch.equal(state.scores, x @ x.T)
    torch.testing.assert_close(state.weights, torch.softmax(x @ x.T / temperature, dim=-1), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(state.context, state.weights @ x)
    assert state.query == query


def check_qkv(state, source, d_out, seed, scaling, qkv_bias):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        steps = SelfAttention_v2(3, d_out, qkv_bias).steps(SENTENCE.embeddings)
    if source == "sentence":
        torch.testing.assert_close(state.scores, steps.scores)
        if scaling:
            torch.testing.assert_close(state.weights, steps.weights)
        assert state.parameters == 3 * (3 + qkv_bias) * d_out
    expected = attention_weights(state.scores, scale=d_out**-0.5 if scaling else 1.0)
    assert torch.equal(state.weights, expected)
    assert (state.entropy <= np.log2(6) + 1e-5).all()


def check_mask(state, num_tokens, method, poked, amount):
    future = causal_mask(num_tokens)
    x = SENTENCE.embeddings[None, :num_tokens]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(123)
        layer = CausalAttention(3, 2, 6, 0.0)
    if method in ("none", "leaky"):
        torch.testing.assert_close(state.weights, attention_weights(layer.steps(x).scores, scale=2**-0.5)[0])
        assert num_tokens == 1 or state.influence[future].min() > 0
    else:
        torch.testing.assert_close(state.weights, layer.steps(x).weights[0])
        assert not state.weights[future].any()
        assert state.influence[future].abs().max() < 1e-6 if num_tokens > 1 else True
    assert state.influence.shape == (num_tokens, num_tokens)
    assert torch.equal(state.moved, state.influence[:, poked])


def check_dropout(state, p, seed, training, draws):
    assert state.row_sums.shape == (draws, 6)
    assert state.histogram.sum() == pytest.approx(1)
    assert not state.dropped[causal_mask(6)].any()
    if training and p:
        torch.testing.assert_close(state.dropped, torch.where(state.kept, state.weights / (1 - p), 0.0))
    else:
        assert torch.equal(state.dropped, state.weights)
        torch.testing.assert_close(state.row_sums, torch.ones(draws, 6))


def check_heads(state, layer, x, dropout):
    future = causal_mask(x.shape[1])
    assert not state.weights[:, future].any()
    assert not state.shown[:, future].any()
    torch.testing.assert_close(state.weights.sum(dim=-1), torch.ones(state.weights.shape[:2]))
    torch.testing.assert_close(state.weights, layer.eval().steps(x).weights[0])
    values = layer.steps(x).values[0]  # (num_heads, num_tokens, head_dim)
    torch.testing.assert_close(state.context, torch.cat((state.shown @ values).unbind(), dim=-1), atol=1e-5, rtol=1e-4)
    assert dropout or torch.equal(state.shown, state.weights)
    assert state.parameters == sum(parameter.numel() for parameter in layer.parameters())


def stored(width, num_heads):
    """A trained reader as data/ has it, and the example that explorers show, embedded."""
    reader = LookupModel(lookup_models.TASK, width, num_heads)
    with np.load(lookup_models.FILE) as sets:
        named = {name: sets[f"{width} wide, {num_heads} heads: {name}"] for name in reader.state_dict()}
    reader.load_state_dict({name: torch.from_numpy(part).float() for name, part in named.items()})
    x, _ = lookup_models.TASK.batch(torch.Generator().manual_seed(2**32 - 1))
    return reader.attention, reader.embedded(x[:1])


@torch.no_grad()
def check_stack(state, num_heads, d_out, dropout, seed, weights):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layer, x = MultiHeadAttentionWrapper(3, d_out, 6, dropout, num_heads), SENTENCE.embeddings[None]
        if weights == "trained":
            attention, x = stored(num_heads * d_out, num_heads)
            torch.testing.assert_close(state.weights, attention.steps(x).weights[0])
            layer = MultiHeadAttentionWrapper(num_heads * d_out, d_out, 7, dropout, num_heads)
            for n, head in enumerate(layer.heads):
                rows = slice(n * d_out, (n + 1) * d_out)
                own = {name: part[rows] for name, part in attention.state_dict().items() if name.startswith("W_")}
                head.load_state_dict(own)
    check_heads(state, layer, x, dropout)


@torch.no_grad()
def check_split(state, d_out, num_heads, dropout, num_tokens, seed, weights, where, embeddings):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layer, x = MultiHeadAttention(3, d_out, 64, dropout, num_heads), embeddings[None, :num_tokens]
        if weights == "trained":
            layer, x = stored(d_out, num_heads)
    check_heads(state, layer, x, dropout)
    assert torch.equal(state.x, x[0])
    steps = layer.eval().steps(x)
    for mine, theirs in zip(state.steps[:5], steps[:5], strict=True):
        torch.testing.assert_close(mine, theirs)
    torch.testing.assert_close(state.output, layer.out_proj(state.context))
    assert state.where == where
    assert len(state.tokens) == x.shape[1]


def check_learning(state, step, example):
    [snapshot] = [snapshot for snapshot in RUN.snapshots if snapshot.step == step]
    assert torch.equal(state.weights, snapshot.maps[example - 1])
    assert state.loss == snapshot.loss
    assert torch.equal(state.accuracy, snapshot.accuracy)
    torch.testing.assert_close(state.weights.sum(dim=-1), torch.ones(2, 7))
    assert not state.weights[:, causal_mask(7)].any()


def check_cost(state, num_tokens, num_heads):
    head_dim = 768 // num_heads
    assert state.table == num_heads * num_tokens**2 * 4
    assert state.cache == 2 * num_tokens * 768 * 4
    products = [4 * num_tokens * 768 * 768, 2 * num_tokens**2 * head_dim * num_heads]  # each of them twice
    assert sum(state.operations.values()) == 2 * sum(products)


def check_layer(state, d_out, context_length, dropout, num_heads, qkv_bias, training, seed):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layer = MultiHeadAttention(3, d_out, context_length, dropout, num_heads, qkv_bias)
        torch.manual_seed(seed)
        context = layer.train(training)(SENTENCE.embeddings[None])[0]
    torch.testing.assert_close(state.context, context)
    torch.testing.assert_close(state.maps, layer.eval().steps(SENTENCE.embeddings[None]).weights[0])
    future = causal_mask(6)
    assert not state.shown[:, future].any()
    assert not state.influence[future].any()
    if not (training and dropout):
        assert torch.equal(state.shown, state.maps)
    assert state.parameters == sum(parameter.numel() for parameter in layer.parameters())
    assert [*state.verdicts.values()] == [
        "no leak found by 643 pokes",
        "yes" if num_heads == 1 else f"yes, in each of {num_heads} maps",
        "none",
        "equal to MultiHeadAttention with the same weights",
        "yes",
    ]


def check_variants(state, positions, num_heads, num_kv_heads, window, num_tokens, embeddings):
    """Torch's function on a layer of our own making; values that name their tokens make its result the weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(123)
        wide, narrow = 8 * num_heads, 8 * num_kv_heads
        queries, keys = (5 * nn.Linear(3, width, bias=False)(embeddings[:num_tokens]) for width in (wide, narrow))
    queries, keys = (part.unflatten(-1, (-1, 8)).transpose(0, 1)[None] for part in (queries, keys))
    places = torch.arange(num_tokens)
    distances = places[:, None] - places
    seen = (distances >= 0) & (distances < window)
    bias = torch.zeros(num_heads, num_tokens, num_tokens)
    if positions == "rotary":
        turns = torch.polar(torch.ones(num_tokens, 4), places[:, None] / 10 ** torch.arange(4.0))
        queries, keys = (
            torch.view_as_real(torch.view_as_complex(part.unflatten(-1, (4, 2)).contiguous()) * turns).flatten(-2)
            for part in (queries, keys)
        )
    elif positions == "ALiBi":
        bias = -distances / 2 ** (8 * torch.arange(1, num_heads + 1) / num_heads)[:, None, None]
    bias = bias.masked_fill(~seen, -torch.inf)
    values = torch.eye(num_tokens).expand(1, num_kv_heads, -1, -1)
    weights = scaled_dot_product_attention(queries, keys, values, attn_mask=bias, enable_gqa=True)
    torch.testing.assert_close(state.weights, weights[0], atol=1e-5, rtol=1e-4)
    assert torch.equal(state.sees, seen)
    assert torch.equal(state.reaches, (distances >= 0) & (distances <= 2 * (window - 1)))
    assert state.parameters == 3 * wide + 2 * 3 * narrow + wide**2
    assert state.cache == 2 * min(num_tokens, window - 1) * narrow * 4


def check_playground(state, task, d_out, num_heads, dropout, learning_rate, mask, seed):
    """Before the first step: the weights of the very model that the course trains, and what it answers."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if task == "next character":
            leaky = mask == "leaky"
            model = CharacterModel(state.run.task, d_out, num_heads, dropout=dropout, leaky=leaky)
        else:
            model = LookupModel(LookupTask(questions=1 + (task == "two questions")), d_out, num_heads)
    x, answers = state.run.x, state.run.answers
    outputs = model.eval()(x)
    torch.testing.assert_close(state.weights, model.maps(x[:1])[0])
    assert (state.step, state.run.learning_rate) == (0, learning_rate)
    assert state.run.model.attention.dropout.p == dropout
    [measured] = state.measured
    assert measured.held_loss == pytest.approx(state.run.task.loss(outputs, answers).item(), rel=1e-5)
    assert measured.accuracy == pytest.approx(state.run.task.accuracy(outputs, answers).min().item(), abs=0.01)
    assert state.parameters == sum(parameter.numel() for parameter in model.parameters())


@torch.no_grad()
def check_text(state, text, back):
    models, task = MODELS
    token_ids = torch.tensor([[task.vocabulary.index(character) for character in text[-32:]]])
    assert state.place == token_ids.shape[1] - 1 - back
    for name, model in models.items():
        weights, shares = state.readings[name]
        torch.testing.assert_close(weights, model.maps(token_ids)[0])
        torch.testing.assert_close(shares, model(token_ids)[0, state.place].softmax(dim=-1))
        future = causal_mask(token_ids.shape[1])
        assert (name == "masked") == (not weights[:, future].any()) or not future.any()


def check_reading(state, text, layer, head, token, ablate):
    token_ids = MODEL.encode(text)
    whole, without = MODEL.look(token_ids), MODEL.look(token_ids, state.ablate)
    torch.testing.assert_close(state.maps, without.maps[0])
    place = min(token, token_ids.shape[1] - 1)
    assert (state.layer, state.head, state.token) == (layer, head, place)
    shares = whole.logits[0, place].softmax(dim=-1).sort(descending=True).values
    torch.testing.assert_close(state.shares[0], shares[: len(state.next_words)])
    assert len(state.ablate) == {"none": 0, "this head": 1, "its layer": 4}.get(ablate, 5)
    assert ablate == "none" or not torch.equal(state.shares[0], state.shares[1])


CHECKS = {
    "ReadingExplorer": check_reading,
    "CostExplorer": check_cost,
    "LayerExplorer": check_layer,
    "LearningExplorer": check_learning,
    "Playground": check_playground,
    "ScoresExplorer": check_scores,
    "QKVExplorer": check_qkv,
    "MaskExplorer": check_mask,
    "DropoutExplorer": check_dropout,
    "WrapperExplorer": check_stack,
    "SplitExplorer": check_split,
    "VariantsExplorer": check_variants,
    "TextExplorer": check_text,
}


def plan(explorer, name, most):
    """Legal states of the grid, in an order in which controls depend on each other."""
    return [legal(name, state) for state in states(explorer, most)]


SVG = "{http://www.w3.org/2000/svg}"


def check(explorer, name):
    """Hold what an explorer shows against its layer, and its picture against the form that all pictures have."""
    more = {"embeddings": explorer.embeddings} if name in ("SplitExplorer", "VariantsExplorer") else {}
    CHECKS[name](explorer.arrays, **explorer.values, **more)
    root = ET.fromstring(explorer.svg)
    assert root.get("role") == "img"
    assert root.get("aria-label") == explorer.alt
    assert "nan" not in re.sub('base64,[^"]*', "", explorer.svg + explorer.readout).lower()
    return root


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_whole_grid_or_2000_states(explorer, name):
    e = explorer(name)
    sizes = set()
    for state in plan(e, name, most=2000):
        before = e.svg, e.values
        if said := impossible(name, state):
            with pytest.raises(ValueError, match=said):
                e.set(**state)
            assert (e.svg, e.values) == before
        else:
            e.set(**state)
            assert e.values == state
            sizes.add(str([part.get("viewBox") for part in check(e, name).iter(f"{SVG}svg")]))
    assert len(sizes) == 1  # so that nothing jumps


def test_every_explorer_is_checked():
    assert set(CHECKS) == set(NAMES)


def cells_of(root):
    """What a pointer is told over each cell, and the cell's colour."""
    return {rect.find(f"{SVG}title").text: rect.get("fill") for rect in root.iter(f"{SVG}rect") if len(rect)}


def test_the_picture_shows_the_arrays(explorer):
    """Read the weights back from the cells' colours, and the numbers from what a pointer is told."""
    e = explorer("ScoresExplorer")
    e.set(query=1, temperature=0.1)
    cells, names = cells_of(ET.fromstring(e.svg)), SENTENCE.tokens
    for i, j in itertools.product(range(6), range(6)):
        weight = float(e.arrays.weights[i, j])
        fill = cells[f"{names[i]} reads {names[j]}: {weight:.4f}"]
        assert WEIGHTS.fills.index(fill) / (len(WEIGHTS.fills) - 1) == pytest.approx(weight, abs=0.01)


def test_what_dropout_took_is_marked(explorer):
    """A cross for each weight that was there before dropout and is not after it; the masked ones are hatched."""
    e = explorer("WrapperExplorer")
    e.set(num_heads=2, dropout=0.5, seed=7)
    taken = int(((e.arrays.shown == 0) & (e.arrays.weights > 0)).sum())
    crosses = [
        path.get("d").count("M") for path in ET.fromstring(e.svg).iter(f"{SVG}path") if path.get("stroke") == "#fff"
    ]
    assert sum(crosses) == taken > 0


@pytest.mark.parametrize("name", NAMES)
def test_a_new_explorer_moved_to_its_ends_and_reset(name):
    """A static reader gets a picture; Reset brings the first one back; the notebook's random numbers stay."""
    random_state = torch.get_rng_state()
    e = make(name)
    check(e, name)
    first, values = e.svg, e.values
    bundle = e._repr_mimebundle_()
    assert bundle["text/plain"].startswith(f"{name}: run this cell to ")
    root = ET.fromstring(bundle["image/svg+xml"])
    assert root[0].get("fill") == "#fff"
    assert re.search(r"\d\.\d\d", root.get("aria-label"))
    assert "application/vnd.jupyter.widget-view+json" in bundle
    assert all(control.label for control in e.controls.values() if hasattr(control, "options"))
    for control in e.controls.values():
        control.value = settings_of(control)[-1]
    assert e.values != values
    check(e, name)
    [reset] = [child for child in e.children[0].children if getattr(child, "description", "") == "Reset"]
    reset.click()
    assert e.values == values
    assert e.svg == first
    assert torch.equal(torch.get_rng_state(), random_state)


@pytest.mark.parametrize("name", NAMES)
def test_arrays_follow_from_values_alone(name, explorer):
    """`compute` reads no control and keeps nothing: asked about other states between, it says the same again."""
    e = explorer(name)
    first = e._first
    before = e.compute(**first)
    goes_with_it = {"MaskExplorer": {"poked": 0}, "LayerExplorer": {"num_heads": 1}}
    e.set(**{n: settings_of(e.controls[n])[0] for n in [*e.controls][:1]}, **goes_with_it.get(name, {}))
    assert str(e.compute(**first)) == str(before)
    e.set(**first)


def test_the_play_button_moves_the_step(explorer):
    e = explorer("LearningExplorer")
    [play] = e.children[0].children[len(e.controls) + 1 :]
    assert e.link.source == (play, "value")
    assert e.link.target == (e.controls["step"], "index")
    assert (play.min, play.max) == (0, 4)
    e.controls["step"].index = 3  # as the page does
    assert e.values["step"] == 40
    assert "“" in e.readout
    assert "40 of 400" in e.readout


def test_a_run_that_has_not_run_is_refused():
    with pytest.raises(ValueError, match="training must have run, got 1 snapshots"):
        explorers.LearningExplorer(SimpleNamespace(task=RUN.task, examples=RUN.examples, snapshots=RUN.snapshots[:1]))


def test_a_text_is_read_as_it_is_typed_and_the_place_follows_it(explorer):
    e = explorer("TextExplorer")
    e.set(text="a slow river", back=11)
    assert e.arrays.place == 0
    e.controls["text"].value = "a slo"
    assert (e.values["back"], e.arrays.written) == (4, " ")
    e.controls["text"].value = "a slow river"
    assert e.values["back"] == 11  # what was chosen comes back
    e.set(back=0)
    assert "nothing is written there yet" in e.readout
    e.set(text="x" * 40)
    assert "The models read the last 32 characters." in e.message.value
    assert len(e.arrays.text) == 32


def test_the_leaky_models_maps_show_the_future_and_the_masked_ones_hide_it(explorer):
    e = explorer("TextExplorer")
    e.set(text="a slow river")
    masked, leaky = (len(re.findall("<title>[^<]* reads ", part.svg)) for part in e.picture(e.arrays)[0])
    assert (masked, leaky) == (4 * 78, 4 * 144)


@pytest.mark.parametrize("text", ["", "ü", "a\nbü"])
def test_a_text_that_no_model_can_read_is_explained_and_the_picture_stays(explorer, text):
    e = explorer("TextExplorer")
    e.set(text="a slow river", back=3)
    before = e.svg
    e.controls["text"].value = text
    assert "text must be some characters of" in e.message.value
    assert e.svg == before
    with pytest.raises(ValueError, match="text must be some characters of"):
        e.set(text=text)
    with pytest.raises(ValueError, match="text must be a string, got 3"):
        e.set(text=3)
    e.controls["text"].value = "a slow river!"[:-1] + "s"
    assert e.message.value == ""
    assert e.arrays.text == "a slow rivers"


def test_reading_leaves_a_models_mode_alone():
    models, task = MODELS
    models["masked"].train()
    explorers.TextExplorer(models, task)
    assert models["masked"].training
    assert not models["leaky"].training
    models["masked"].eval()


def test_both_heads_are_drawn_side_by_side_with_the_questions_row_framed(explorer):
    e = explorer("LearningExplorer")
    e.set(step=400, example=2)
    tokens = e.arrays.tokens
    reads = re.findall(rf"<title>{re.escape(tokens[-1])} reads ([^:]*): ([.0-9]*)</title></rect>", e.svg)
    assert [float(weight) for _, weight in reads] == pytest.approx(e.arrays.weights[:, -1].flatten().tolist(), abs=1e-4)
    assert [name for name, _ in reads] == 2 * tokens
    assert e.svg.count('fill="none" stroke="#D55E00" stroke-width="2"') == 2


def test_an_impossible_state_is_explained_and_nothing_is_lost(explorer):
    e = explorer("MaskExplorer")
    e.set(num_tokens=6, poked=5)
    before, arrays = e.svg, e.arrays
    e.controls["num_tokens"].value = 3
    assert "token 5 is not among the first 3" in e.message.value
    assert (e.svg, e.arrays) == (before, arrays)
    e.controls["poked"].value = 2
    assert e.message.value == ""
    assert e.arrays.weights.shape == (3, 3)


def test_only_divisors_are_offered_and_the_others_explained(explorer):
    e = explorer("SplitExplorer")
    e.set(d_out=12, num_heads=4)
    assert settings_of(e.controls["num_heads"]) == [1, 2, 3, 4, 6, 12]
    e.controls["d_out"].value = 15
    assert settings_of(e.controls["num_heads"]) == [1, 3, 5]
    assert e.values["num_heads"] == 3
    assert "4 does not divide d_out = 15" in e.message.value
    assert "15 / 2 = 7.50" in e.readout
    e.controls["d_out"].value = 13
    assert e.values["num_heads"] == 1
    e.controls["d_out"].value = 16
    assert e.values["num_heads"] == 4  # what was chosen comes back
    assert e.message.value == ""
    e.set(d_out=15)
    assert "4 does not divide d_out = 15" in e.message.value  # as after a slider's move


def test_more_key_heads_than_query_heads_are_explained(explorer):
    e = explorer("VariantsExplorer")
    e.set(num_heads=8, num_kv_heads=4)
    assert "1 → 1, 2 → 1, 3 → 2, 4 → 2, 5 → 3, 6 → 3, 7 → 4, 8 → 4" in e.readout
    before = e.svg
    e.controls["num_heads"].value = 2
    assert "num_kv_heads must divide num_heads, got num_kv_heads=4, num_heads=2" in e.message.value
    assert e.svg == before
    e.controls["num_kv_heads"].value = 1
    assert (e.message.value, len(e.arrays.weights)) == ("", 2)


@pytest.mark.parametrize("order", [("num_heads", "d_out"), ("d_out", "num_heads")])
def test_set_takes_its_values_in_any_order(explorer, order):
    e = explorer("SplitExplorer")
    e.set(d_out=12, num_heads=2)
    wanted = {"num_heads": 5, "d_out": 15}
    e.set(**{name: wanted[name] for name in order})
    assert (e.values["num_heads"], e.values["d_out"]) == (5, 15)


def test_an_impossible_set_raises_and_changes_nothing(explorer):
    e = explorer("MaskExplorer")
    e.set(num_tokens=6, poked=5)
    before = e.values, e.arrays, e.svg, e.message.value
    with pytest.raises(ValueError, match="token 5 is not among the first 3"):
        e.set(num_tokens=3)
    assert (e.values, e.arrays, e.svg, e.message.value) == before
    e.set(poked=1, num_tokens=3)
    assert e.arrays.weights.shape == (3, 3)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"d_in": 3}, r"name must be one of d_out, .* got 'd_in'"),
        ({"d_out": 0}, r"d_out must be from 1 to 96 in steps of 1, got 0"),
        ({"d_out": "wide"}, r"d_out must be from 1 to 96 in steps of 1, got 'wide'"),
        ({"d_out": 12, "num_heads": 5}, r"num_heads must be one of 1, 2, 3, 4, 6, 12, got 5"),
        ({"seed": 7, "dropout": 2.0}, r"dropout must be from 0 to 0.9 in steps of 0.05, got 2.0"),
    ],
)
def test_set_names_what_is_wrong_and_changes_nothing(explorer, values, said):
    e = explorer("SplitExplorer")
    before, svg = e.values, e.svg
    with pytest.raises(ValueError, match=said):
        e.set(**values)
    assert e.values == before
    assert e.svg == svg


HOSTILE = ["<img onerror=x>", 'a "quoted" one', "$x$", "a | b", "a\nb", "&amp;"]


@pytest.mark.parametrize("name", [name for name in NAMES if name not in MADE_FROM])
def test_a_sentence_of_ones_own_is_shown_whatever_its_words(name):
    embeddings = torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    e = getattr(explorers, name)(Sentence(HOSTILE, embeddings))
    root = ET.fromstring(e.svg)
    assert "<img" not in e.svg + e.readout
    told = " ".join(title.text for title in root.iter(f"{SVG}title"))
    assert "<img onerror=x> reads" in told
    for control in e.controls.values():
        control.value = settings_of(control)[-1]


@pytest.mark.parametrize(
    ("sentence", "error", "said"),
    [
        (Sentence(["a"] * 9, torch.ones(9, 3)), ValueError, "sentence must have 1 to 8 tokens .* got 9 tokens"),
        (Sentence([], torch.ones(0, 3)), ValueError, "sentence must have 1 to 8 tokens .* got 0 tokens"),
        (Sentence(["a", "b"], torch.ones(3, 3)), ValueError, r"got 2 tokens and embeddings \(3, 3\)"),
        (
            Sentence(["a"], torch.ones(1, 3).long()),
            TypeError,
            "must hold floating-point numbers, got torch.int64",
        ),
        (Sentence(["a"], torch.full((1, 3), float("nan"))), ValueError, "sentence.embeddings must be finite, got"),
        (
            Sentence(["a"], torch.ones(3)),
            ValueError,
            r"must have the shape \(num_tokens, d_in\), got \(3,\)",
        ),
        (Sentence([1], torch.ones(1, 3)), TypeError, "sentence must be a Sentence, its tokens strings, got Sentence"),
        ("journey", TypeError, "sentence must be a Sentence, its tokens strings, got str: 'journey'"),
    ],
)
def test_a_sentence_that_cannot_be_shown_is_refused(sentence, error, said):
    with pytest.raises(error, match=said):
        explorers.ScoresExplorer(sentence)


def test_moves_from_two_threads_end_in_the_final_states_picture():
    e, fresh = explorers.ScoresExplorer(SENTENCE), explorers.ScoresExplorer(SENTENCE)
    values = settings_of(e.controls["temperature"])

    def drag(control, moves):
        for value in moves:
            e.controls[control].value = value

    threads = [
        threading.Thread(target=drag, args=("temperature", values * 2)),
        threading.Thread(target=drag, args=("query", [*range(6), 3] * 4)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    fresh.set(temperature=values[-1], query=3)
    assert e.values == fresh.values
    assert e.svg == fresh.svg


def test_seeded_layers_are_those_of_the_global_seed():
    for layer_class, sizes in (
        (SelfAttention_v2, (3, 5, True)),
        (CausalAttention, (3, 2, 6, 0.0)),
        (MultiHeadAttentionWrapper, (3, 2, 6, 0.0, 2)),
        (MultiHeadAttention, (3, 4, 6, 0.0, 2)),
    ):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(789)
            expected = layer_class(*sizes)
        layer = seeded(layer_class, 789, *sizes)
        assert all(torch.equal(a, b) for a, b in zip(layer.parameters(), expected.parameters(), strict=True))
        assert all(torch.equal(a, b) for a, b in zip(layer.buffers(), expected.buffers(), strict=True))


@pytest.mark.slow
def test_500_moves_take_little_memory():
    import psutil

    e = explorers.SplitExplorer(SENTENCE)
    moves = plan(e, "SplitExplorer", 500)
    for state in moves[::10]:  # what is kept for reuse, traces, is there before
        e.set(**state)
    before = psutil.Process().memory_info().rss
    for state in moves:
        e.set(**state)
    assert psutil.Process().memory_info().rss - before < 20e6


def test_the_mask_explorer_pokes_and_computes_no_jacobian(monkeypatch):
    from attention_helpers.explorers import lesson_03 as masking

    monkeypatch.setattr(torch.autograd.functional, "jacobian", None)
    assert masking.attend(SENTENCE.embeddings, 4, "none", 2, 1.0).moved.all()
