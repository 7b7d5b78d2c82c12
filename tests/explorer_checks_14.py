"""What the explorer of lesson 14 must show in any state, counted again without the package's formulas."""

import pytest
from explorer_page import SVG, figures, near, numbers, readouts, tips, told, tree_of

from attention_course.explorers.words import size_in_words


def computed(split, processes):
    """For each rank and step, how much of the step it computes; and how long the steps take, in chunks of 1 / P."""
    if split == "heads":
        return [[1.0]] * processes, [(processes + 1) / 2]
    chunks = [(n,) if split == "tokens" else (n, 2 * processes - 1 - n) for n in range(processes)]
    done = [
        [
            sum(key <= query for query in chunks[n] for key in chunks[(n - step) % processes])
            for step in range(processes)
        ]
        for n in range(processes)
    ]
    longest = [max(done[n][step] for n in range(processes)) for step in range(processes)]
    shares = [[mine / most for mine, most in zip(own, longest, strict=True)] for own in done]
    return shares, [most / len(chunks[0]) ** 2 for most in longest]


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
    shares, steps = computed(split, processes)
    assert state.steps == pytest.approx(steps)
    done = [(n, step, share) for n, own in enumerate(shares) for step, share in enumerate(own, 1)]
    works = ["rank {}, step {}, computes: {:.2f} of the time".format(*part) for part in done]
    assert [words for words, _ in told(tree_of(e)) if "computes" in words] == works
    filled = [rect for rect in tree_of(e).iter(f"{SVG}rect") if rect.get("stroke") and rect.get("fill") != "none"]
    expected = [400 / processes * steps[step - 1] * share for _, step, share in done if share]
    assert [float(rect.get("width")) for rect in filled] == near(expected)
    for name, size in zip(state.held, held, strict=True):
        each = float(size_in_words(round(size)).split()[0])
        assert tips(e, f", {name}: ") == pytest.approx([each] * processes)
    busy = [sum(a * b for a, b in zip(own, steps, strict=True)) / sum(steps) for own in shares]
    assert size_in_words(round(sum(held))) in e.said
    assert numbers(readouts(e)["computes"]) == near(sorted({min(busy), max(busy)}))
    assert ("waits" in readouts(e)["computes"]) == (min(busy) < 0.999)
    assert figures(readouts(e)["sends"])[-1] == size_in_words(state.sent).split()[0]
