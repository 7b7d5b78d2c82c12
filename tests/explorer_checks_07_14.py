"""What the explorers of lessons 7 to 15 must show in any state, recomputed with layers or with torch's functions."""

import html

import explorer_page as page
import pytest
import torch
from explorer_page import check_arcs, check_maps, near, numbers, readouts, tooltips
from made import MODEL, MODELS, RUN
from torch.testing import assert_close

from attention_course.build import build_layer
from attention_course.explorers import past_the_training_length as past
from attention_course.explorers.a_real_model import show_blanks
from attention_course.explorers.real_bugs import TOKENS
from attention_course.explorers.svg import number
from attention_course.explorers.svg_maps import HEAD
from attention_course.explorers.words import size_in_words
from attention_course.plots import GREY, HEAD_COLOURS
from attention_course.published import model_cache_bytes, published_models
from attention_helpers import attention_maps, causal_mask
from attention_helpers.training.characters import CharacterModel
from attention_helpers.training.lookup import LookupModel, LookupTask


def check_playground(e, task, d_out, num_heads, dropout, learning_rate, mask, seed):
    """Before the first step: the attention weights of the model that the course trains."""
    state, run = e.arrays, e.arrays.run
    if task == "next character":
        sizes = len(run.task.vocabulary), 32, d_out, num_heads, dropout
        model = build_layer(CharacterModel, seed, *sizes, leaky=mask == "leaky")
    else:
        lookup = LookupTask(questions=1 + (task == "two questions"))
        model = build_layer(LookupModel, seed, lookup, 32, num_heads, d_out=d_out)
    assert_close(state.weights, attention_maps(model.eval(), run.x[:1])[0][0])
    assert (state.step, run.learning_rate, run.model.attention.dropout.p) == (0, learning_rate, dropout)
    if task != "next character":
        check_maps(e, state.weights, state.tokens, hidden=causal_mask(7), limit=1)
        check_arcs(e, [state.weights[:, 6]], state.tokens, 6)
        assert state.answers == [state.tokens[token][-1] for token in state.wanted]


def check_learning(e, step, example):
    x, words = RUN.examples[example - 1], RUN.task.words(RUN.examples[example - 1])
    [snapshot] = [snapshot for snapshot in RUN.snapshots if snapshot.step == step]
    weights = snapshot.maps[example - 1]
    assert torch.equal(e.arrays.run, torch.stack([each.maps[example - 1, :, 6] for each in RUN.snapshots]))
    letters = [x[6, n] - (n + 1) * RUN.task.letters for n in range(2)]  # as they stand in a pair
    assert e.arrays.asked == [words[x[:6, 0].tolist().index(letter)] for letter in letters]
    check_maps(e, weights, words, hidden=causal_mask(7))
    check_arcs(e, [weights[:, 6]], words, 6)
    assert numbers(readouts(e)["loss"]) == near(snapshot.loss)


def check_text(e, text, back):
    """Of 8 characters that are shown with their probabilities, the last one gives way to the one that comes."""
    (models, task), read = MODELS, text[-32:]
    place, names, future = len(read) - 1 - back, [character.replace(" ", "␣") for character in read], []
    token_ids = torch.tensor([[task.vocabulary.index(character) for character in read]])
    maps, bars, comes = [], [], []
    for name, model in models.items():
        maps.append(attention_maps(model, token_ids)[0][0])
        future.append((causal_mask(len(read)) & (name == "masked")).expand_as(maps[-1]))
        shares = model(token_ids)[0, place].softmax(dim=-1)
        ids, following = shares.topk(8).indices.tolist(), token_ids[0, place + 1 :][:1].tolist()
        ids = ids if {*following} <= {*ids} else ids[:-1] + following
        signs = [task.vocabulary[n].replace(" ", "␣").replace("\n", "⏎") for n in ids]
        bars += [f"{sign}, probability: {number(shares[n], 4)}" for sign, n in zip(signs, ids, strict=True)]
        comes.append(shares[following])
    check_maps(e, torch.cat(maps), names, hidden=torch.cat(future), colours=2 * HEAD_COLOURS[: len(maps[0])])
    check_arcs(e, [weights[:, place] for weights in maps], names, place)
    assert page.framed_rows(e, "2" if len(read) <= 16 else "0.8", HEAD)[:1] == near(place, off=0.02)
    assert [words.replace(" ✓", "") for words in tooltips(e, ", probability: ")] == bars
    assert not back or numbers(e.said) == near(*comes)
    assert [*dict.fromkeys(e.controls["back"].options)] == [*range(len(read))][::-1]  # to the right is later


def check_cost(e, num_tokens, num_heads, width, bytes):
    """FLOPs: 2 for each term of a product, of a row of queries, keys, values, scores, context and result for each."""
    state, n = e.arrays, num_tokens
    assert (state.table, state.cache) == (num_heads * n * n * bytes, 2 * n * width * bytes)
    total = 2 * n * width * (3 * width + n + n + width)
    assert numbers(readouts(e)["FLOPs"]) == near(total / 1e9, 2 * 2 * n * n * width / total)


def check_cache(e, num_tokens, num_kv_heads, window, first, bytes):
    """Of 32 layers, whose 32 query heads are 128 wide; of each token it keeps a key and a value per KV head."""
    kept = sum(not window or n < first or n > num_tokens - window for n in range(num_tokens))
    assert e.arrays.total == kept * 2 * 32 * num_kv_heads * 128 * bytes
    reads = [f"query head {head + 1} reads KV head {head * num_kv_heads // 32 + 1}" for head in range(32)]
    assert tooltips(e, "query head") == reads
    assert sum(page.tips(e, "tokens kept: ")) == kept
    assert numbers(readouts(e)["FLOPs per byte that is read"]) == [32 / num_kv_heads * 2 / bytes]


def check_models(e, model, num_tokens, kind):
    """A line and a point for each model, at what its layers keep; those without the kind of layer are faded."""
    state, rows = e.arrays, {row["name"]: row for row in published_models()}
    assert {name: kept[0] for name, kept in state.kept.items()} == {n: model_cache_bytes(rows[n], 1024) for n in rows}
    assert sum(state.parts.values()) == model_cache_bytes(rows[model], num_tokens)
    assert sorted(words.partition(":")[0] for words in tooltips(e, "")) == sorted(2 * [*rows])
    has = {name for name, row in rows.items() if kind == "all" or any(kind in each["kind"] for each in row["layers"])}
    assert {*e.alt.partition("faded: ")[2].rstrip(".").split(", ")} - {""} == {*rows} - has - {model}
    assert rows[model]["source"] in html.unescape(e.readout)


def check_length(e, length, window, factor, rule, pair):
    """What is stored is shown; test_stored_models.py measures it again, test_modern_foreign.py checks the rules."""
    losses, far, scores = past.load_scores()
    at = past.SCALINGS.index((rule if factor > 1 else "linear", factor)), past.WINDOW_WIDTHS.index(window)
    read, losses, keys = (*at, past.READ_LENGTHS.index(length)), losses[at][:length], min(length, window)
    assert torch.equal(e.arrays.scores, scores[read][slice(None) if pair == "all" else [int(pair)], :keys].sum(dim=0))
    ends = [32, 32, losses[:32].mean()] + [32, length, losses[-32:].mean()] * (length > 32)
    assert numbers(e.said) == near(ends)
    beyond = near(4, far[read], 31, max(keys - 32, 0) / keys, off=6e-3)
    assert numbers(readouts(e)[f"position {length - 1}"]) == beyond
    number = 2 if pair == "all" else int(pair)
    angle, trained = numbers(readouts(e)[f"pair {number}"])
    assert trained == pytest.approx(31 * 10_000 ** (-number / 8), abs=5.1e-3)
    assert rule != "linear" or angle == pytest.approx((keys - 1) * 10_000 ** (-number / 8) / factor, abs=5.1e-3)


def check_reading(e, text, layer, head, token, ablate):
    state, token_ids = e.arrays, MODEL.encode(text)
    whole, without = MODEL.look(token_ids), MODEL.look(token_ids, state.ablate)
    assert_close(state.maps, without.maps[0])
    assert (state.layer, state.head, state.token) == (layer, head, token)
    assert [*dict.fromkeys(e.controls["token"].options)] == [*range(token_ids.shape[1])]
    assert len(state.ablate) == {"none": 0, "this head": 1, "its layer": 4}.get(ablate, 5)
    shares, ids = whole.logits[0, token].softmax(dim=-1).topk(5)
    ablated = without.logits[0, token].softmax(dim=-1)[ids]
    after = [show_blanks(word) for word in MODEL.words(ids)]
    for kind, values in (("all heads", shares), ("ablated", ablated if state.ablate else [])):
        bars = [f"{word}, {kind}: {number(share, 4)}" for word, share in zip(after, values, strict=False)]
        assert tooltips(e, f", {kind}: ") == bars
    said = [shares[0], ablated[0]] if state.ablate else [state.maps[layer, head, token].max()]
    assert all(f"{share:.2f}" in e.said for share in said)


def check_machines(e, split, processes, num_tokens, num_heads, num_kv_heads):
    """Numbers of 2 bytes; with heads, each has all rows and passes on a sum; with tokens, keys and values move on."""
    state, width, by_heads = e.arrays, 128 * num_heads, split == "heads"
    kv_width = 128 * max(num_kv_heads, by_heads * processes)
    matrices, rows = 4 * width * (width + kv_width), 4 * num_tokens * width
    inner, moving = 2 * num_tokens * (width + 2 * kv_width), 4 * num_tokens * kv_width
    held = matrices / processes + rows + inner / processes
    if not by_heads:
        held = matrices + (rows + inner + moving * (processes > 1)) / processes
    sent = (rows if by_heads else moving) * (processes - 1) / processes
    assert (sum(state.held.values()), state.sent) == pytest.approx((held, sent))
    pairs = {"heads": processes + 1, "tokens": processes + 1, "zigzag": processes + 0.5}[split]  # of chunks
    assert sum(map(sum, state.work)) == pytest.approx(processes * pairs / 2)
    assert (min(state.busy) == 1) == (split != "tokens" or processes == 1)
    assert len(tooltips(e, "computes")) == processes * len(state.steps)
    assert size_in_words(round(held)) in e.said
    assert all(f"{share:.0%}" in readouts(e)["computes"] for share in (min(state.busy), max(state.busy)))
    assert readouts(e)["sends"].endswith(f" = {size_in_words(state.sent)}")


def check_suspects(e, suspect, training, head):
    state = e.arrays
    check_maps(e, state.maps[[head]], TOKENS, limit=1, colours=[HEAD_COLOURS[head]])
    check_maps(e, state.moves[None], TOKENS, "perturbing {1} moves {0} by", limit=state.moves.max(), colours=[GREY])
    leaks = suspect in "AF" or (suspect == "B" and training)
    assert ("Looks like none" in e.said) == (suspect not in "ACF" and not leaks)
    ahead, zeros, _, _, *sums = numbers(e.said)  # "n of 21 are 0"
    assert (leaks, suspect in "AC") == (ahead > 0, zeros > 0)
    low, high = state.maps.sum(dim=-1).min(), state.maps.sum(dim=-1).max()
    assert (suspect in "AF") == (high - low > 0.1)
    assert sums == near([low, high] if suspect in "AF" else [1])
