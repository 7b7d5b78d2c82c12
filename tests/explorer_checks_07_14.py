"""What the explorers of lessons 7 to 14 must show in any state, recomputed with layers or with torch's functions."""

import html

import pytest
import torch
from explorer_page import (
    SVG,
    check_arcs,
    check_maps,
    figures,
    near,
    numbers,
    readouts,
    told,
    tree_of,
)
from made import MODEL, MODELS, RUN
from torch.testing import assert_close

from attention_course.build import build_layer
from attention_course.explorers import past_the_training_length as past
from attention_course.explorers.a_real_model import show_blanks
from attention_course.explorers.real_bugs import LAYERS, TOKENS
from attention_course.explorers.rope_scaling import llama3_frequencies, yarn_frequencies
from attention_course.explorers.svg import number
from attention_course.explorers.words import size_in_words
from attention_course.plots import GREY, HEAD_COLOURS
from attention_course.published import model_cache_bytes, published_models
from attention_helpers import attention_maps, causal_mask
from attention_helpers.training.characters import CharacterModel
from attention_helpers.training.lookup import LookupModel, LookupTask


def check_playground(e, task, d_out, num_heads, dropout, learning_rate, mask, seed):
    """Before the first step: the attention weights of the model that the course trains, and its answers."""
    state = e.arrays
    x, answers, run = state.run.x, state.run.answers, state.run
    if task == "next character":
        sizes = len(run.task.vocabulary), 32, d_out, num_heads, dropout
        model = build_layer(CharacterModel, seed, *sizes, leaky=mask == "leaky")
    else:
        lookup = LookupTask(questions=1 + (task == "two questions"))
        model = build_layer(LookupModel, seed, lookup, 32, num_heads, d_out=d_out)
    outputs = model.eval()(x)
    assert_close(state.weights, attention_maps(model, x[:1])[0][0])
    assert (state.step, run.learning_rate, run.model.attention.dropout.p) == (0, learning_rate, dropout)
    [measured] = state.measured
    assert measured.held_loss == pytest.approx(run.task.loss(outputs, answers).item(), rel=1e-5)
    assert measured.accuracy == pytest.approx(run.task.accuracy(outputs, answers).min().item(), abs=0.01)
    if task != "next character":
        check_maps(e, state.weights, state.tokens, hidden=causal_mask(7), limit=1)
        check_arcs(e, [state.weights[:, 6]], state.tokens, 6)
        assert state.predicted == [f"{digit}" for digit in outputs[0].argmax(dim=-1).tolist()]
        assert state.answers == [state.tokens[token][-1] for token in state.wanted]


def check_learning(e, step, example):
    state = e.arrays
    [snapshot] = [snapshot for snapshot in RUN.snapshots if snapshot.step == step]
    assert torch.equal(state.weights, snapshot.maps[example - 1])
    assert state.loss == snapshot.loss
    assert torch.equal(state.accuracy, snapshot.accuracy)
    for shown, other in zip(state.run, RUN.snapshots, strict=True):  # (num_heads, num_tokens) each
        assert torch.equal(shown, other.maps[example - 1, :, 6])
    x = RUN.examples[example - 1]
    letters = [x[6, n] - (n + 1) * RUN.task.letters for n in range(2)]  # as they stand in a pair
    words = RUN.task.words(x)
    assert state.asked == [words[x[:6, 0].tolist().index(letter)] for letter in letters]
    check_maps(e, state.weights, words, hidden=causal_mask(7))
    check_arcs(e, [state.weights[:, 6]], words, 6)
    assert numbers(readouts(e)["loss"]) == near(snapshot.loss)


def likeliest(shares, comes, count):
    """The likeliest characters and their probabilities; the last gives way to the one that comes."""
    ids = shares.topk(count).indices.tolist()
    ids = ids if comes is None or comes in ids else [*ids[:-1], comes]
    return [(MODELS[1].vocabulary[n].replace(" ", "␣").replace("\n", "⏎"), shares[n].item()) for n in ids]


def check_text(e, text, back):
    state, (models, task), read = e.arrays, MODELS, text[-32:]
    n, names, future = len(read), [character.replace(" ", "␣") for character in read], causal_mask(len(read))
    token_ids = torch.tensor([[task.vocabulary.index(character) for character in read]])
    assert state.place == n - 1 - back
    comes = task.vocabulary.index(read[n - back]) if back else None
    maps, hidden, bars, expected = [], [], [], []
    for name, model in models.items():
        weights, shares = state.readings[name]
        assert_close(weights, attention_maps(model, token_ids)[0][0])
        assert_close(shares, model(token_ids)[0, state.place].softmax(dim=-1))
        assert (name == "masked") == (not weights[:, future].any()) or not future.any()
        maps.append(weights)
        hidden.append((future & (name == "masked")).expand_as(weights))
        bars += likeliest(shares, comes, 8)
        expected.append(shares[comes] if back else None)
    heads = [*HEAD_COLOURS[: len(maps[0])]]
    check_maps(e, torch.cat(maps), names, hidden=torch.cat(hidden), colours=2 * heads)
    check_arcs(e, [weights[:, state.place] for weights in maps], names, state.place)
    shown = [words.replace(" ✓", "") for words, _ in told(tree_of(e)) if ", probability: " in words]
    assert shown == [f"{sign}, probability: {number(share, 4)}" for sign, share in bars]
    if back:
        assert numbers(e.said) == near(torch.stack(expected))


def check_cost(e, num_tokens, num_heads, width, bytes):
    """FLOPs: 2 for each term of a product, of a row of queries, keys, values, scores, context and result for each."""
    state, n = e.arrays, num_tokens
    assert (state.table, state.cache) == (num_heads * n * n * bytes, 2 * n * width * bytes)
    total = 2 * n * width * (3 * width + n + n + width)
    assert sum(state.operations.values()) == total
    assert numbers(readouts(e)["FLOPs"]) == near(total / 1e9, 2 * 2 * n * n * width / total)


def check_cache(e, num_tokens, num_kv_heads, window, first, bytes):
    """Of 32 layers, whose 32 query heads are 128 wide; of each token it keeps a key and a value per KV head."""
    kept = [n for n in range(num_tokens) if not window or n < first or n > num_tokens - window]
    each = 2 * 32 * num_kv_heads * 128 * bytes
    assert (e.arrays.kept, e.arrays.per_token, e.arrays.total) == (len(kept), each, len(kept) * each)
    shown = [words for words, _ in told(tree_of(e))]
    reads = [f"query head {head + 1} reads KV head {head * num_kv_heads // 32 + 1}" for head in range(32)]
    assert [words for words in shown if words.startswith("query head")] == reads
    assert sum(numbers(words)[0] for words in shown if "tokens kept: " in words) == len(kept)
    assert numbers(readouts(e)["FLOPs per byte that is read"]) == [32 / num_kv_heads * 2 / bytes]


def check_models(e, model, num_tokens, kind):
    """A line and a point for each model, at what its layers keep; those without the kind of layer are faded."""
    state, lengths, rows = e.arrays, [2**n for n in range(10, 21)], {row["name"]: row for row in published_models()}
    ends = {name: 1 if "learned_positions" in row else 11 for name, row in rows.items()}
    kept = {name: [model_cache_bytes(row, n) for n in lengths[: ends[name]]] for name, row in rows.items()}
    assert state.kept == kept
    assert sum(state.parts.values()) == model_cache_bytes(rows[model], num_tokens)
    points = {words.partition(":")[0] for words, shape in told(tree_of(e)) if shape.get("r")}
    lines = {words for words, shape in told(tree_of(e)) if shape.tag == f"{SVG}path"}
    assert points == lines == {*rows}
    has = {name for name, row in rows.items() if kind == "all" or any(kind in each["kind"] for each in row["layers"])}
    assert state.lit == has
    assert {*e.alt.partition("faded: ")[2].rstrip(".").split(", ")} - {""} == {*rows} - has - {model}
    assert rows[model]["source"] in html.unescape(e.readout)


def check_length(e, length, window, factor, rule, pair):
    """What is stored is shown; test_stored_models.py measures it again."""
    state, (losses, far, scores) = e.arrays, past.load_scores()
    at = past.SCALINGS.index((rule if factor > 1 else "linear", factor)), past.WINDOW_WIDTHS.index(window)
    parts = scores[at][past.READ_LENGTHS.index(length)][:, : min(length, window)]
    assert_close(state.losses, losses[at][:length])
    assert_close(state.scores, parts.sum(dim=0) if pair == "all" else parts[int(pair)])
    plain = 10_000 ** -(torch.arange(8, dtype=torch.float64) / 8)
    scaled = {
        "linear": plain / factor,
        "NTK-aware": (10_000 * factor ** (16 / 14)) ** -(torch.arange(8, dtype=torch.float64) / 8),
        "Llama 3": llama3_frequencies(plain, factor, 32),
        "YaRN": yarn_frequencies(plain, factor, 32, 10_000)[0],
    }[rule]
    number = 2 if pair == "all" else int(pair)
    farthest = min(length, window) - 1
    ends = [32, 32, state.losses[:32].mean()] + [32, length, state.losses[-32:].mean()] * (length > 32)
    assert numbers(e.said) == near(ends)
    equal, gives = max(farthest - 31, 0) / (farthest + 1), far[at][past.READ_LENGTHS.index(length)]
    assert numbers(readouts(e)[f"position {length - 1}"]) == near(4, gives, 31, equal, off=6e-3)
    assert numbers(readouts(e)[f"pair {number}"]) == near(farthest * scaled[number], 31 * plain[number])


def check_reading(e, text, layer, head, token, ablate):
    state, token_ids = e.arrays, MODEL.encode(text)
    whole, without = MODEL.look(token_ids), MODEL.look(token_ids, state.ablate)
    assert_close(state.maps, without.maps[0])
    assert (state.layer, state.head, state.token) == (layer, head, token)
    shares, ids = whole.logits[0, token].softmax(dim=-1).topk(5)
    assert_close(state.shares, torch.stack([shares, without.logits[0, token].softmax(dim=-1)[ids]]))
    assert len(state.ablate) == {"none": 0, "this head": 1, "its layer": 4}.get(ablate, 5)
    assert ablate == "none" or not torch.equal(state.shares[0], state.shares[1])
    after = [show_blanks(word) for word in MODEL.words(ids)]
    for kind, shares in (("all heads", state.shares[0]), ("ablated", state.shares[1] if state.ablate else [])):
        shown = [words for words, _ in told(tree_of(e)) if f", {kind}: " in words]
        assert shown == [f"{word}, {kind}: {number(share, 4)}" for word, share in zip(after, shares, strict=False)]
    most = state.maps[layer, head, token].max()
    assert all(f"{share:.2f}" in e.said for share in (state.shares[:, 0] if state.ablate else [most]))


def check_machines(e, split, processes, num_tokens, num_heads, num_kv_heads):
    state, width, by_heads = e.arrays, 128 * num_heads, split == "heads"
    kv_heads = max(num_kv_heads / processes, 1) * processes if by_heads else num_kv_heads
    matrix, rows = 2 * width * (width + 128 * kv_heads) * 2, 2 * num_tokens * width * 2
    inner = num_tokens * (width + 2 * 128 * kv_heads) * 2
    arriving = 0 if by_heads or processes == 1 else num_tokens * 2 * 128 * kv_heads * 2
    shared = (processes, 1) if by_heads else (1, processes)
    held = [matrix / shared[0], rows / shared[1], (inner + arriving) / processes]
    assert [*state.held.values()] == pytest.approx(held)
    passed_on = num_tokens * width * 2 if by_heads else num_tokens * 128 * num_kv_heads * 2
    assert state.sent == pytest.approx(2 * (processes - 1) * passed_on / processes)  # a sum passed on; keys, values
    pairs = {"heads": processes + 1, "tokens": processes + 1, "zigzag": processes + 0.5}[split]  # of chunks
    assert sum(map(sum, state.work)) == pytest.approx(processes * pairs / 2)
    assert state.steps == [max(step) for step in zip(*state.work, strict=True)]
    assert (min(state.busy) == 1) == (split != "tokens" or processes == 1)
    assert len([words for words, _ in told(tree_of(e)) if "computes" in words]) == processes * len(state.steps)
    assert size_in_words(round(sum(held))) in e.said
    assert figures(readouts(e)["sends"])[-1] == size_in_words(state.sent).split()[0]


def check_suspects(e, suspect, training, head):
    state = e.arrays
    layer = build_layer(LAYERS[suspect], 0, 8, 8, 6, 0.0, 2).train(training)
    assert type(layer).__name__[-1] == suspect or suspect == "none"
    check_maps(e, state.maps[[head]], TOKENS, limit=1, colours=[HEAD_COLOURS[head]], bar=False)
    look = {"limit": state.moves.max(), "colours": [GREY], "bar": False}
    check_maps(e, state.moves[None], TOKENS, "perturbing {1} moves {0} by", **look)
    leaks = suspect in "AF" or (suspect == "B" and training)
    assert ("Looks like none" in e.said) == (suspect not in "ACF" and not leaks)
    ahead, zeros, _, _, *sums = numbers(e.said)  # "n of 21 are 0"
    assert leaks == (ahead > 0)
    assert (suspect in "AC") == (zeros > 0)
    low, high = state.maps.sum(dim=-1).min(), state.maps.sum(dim=-1).max()
    assert (suspect in "AF") == (high - low > 0.1)
    assert sums == near([low, high] if suspect in "AF" else [1])
