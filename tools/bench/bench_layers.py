"""Time and weigh the layers against each other; each is proved equal before it is timed.

Every way gets the same weights. What is compared stands in one process and takes turns. A floor stands beside them:
the bare matrix products and the bare scaled_dot_product_attention on tensors of the same sizes, with nothing around.
"""

import os
from functools import partial
from pathlib import Path

import torch
from matplotlib.figure import Figure

from attention_helpers import MultiHeadAttention, MultiHeadAttentionWrapper, max_difference
from attention_helpers.fast.attention import FusedMultiHeadAttention, TorchAttention
from attention_helpers.fast.costs import medians, peak_bytes, slope, timed

SIZES = {  # b, num_tokens, width, num_heads
    "toy": (2, 6, 4, 2),
    "small": (2, 256, 256, 4),
    "gpt2_b2": (2, 1024, 768, 12),
    "gpt2": (8, 1024, 768, 12),
}
LENGTHS = (512, 1024, 2048, 4096)
PLOT = Path(__file__).parents[2] / "build" / "bench_layers.png"


class Floor:
    """What no layer of these sizes can do without."""

    def __init__(self, split, x):
        b, num_tokens, width = x.shape
        self.x, self.W_qkv, self.W_out = x.flatten(0, 1), torch.randn(width, 3 * width), torch.randn(width, width)
        self.heads = torch.randn(3, b, split.num_heads, num_tokens, split.head_dim)

    def __call__(self, x):
        self.x @ self.W_qkv
        torch.nn.functional.scaled_dot_product_attention(*self.heads, is_causal=True)
        return self.x @ self.W_out


class Textbook(torch.nn.Module):
    """MultiHeadAttention in the widely used form, all in one forward, with a float mask; on the modules of ours."""

    def __init__(self, split):
        super().__init__()
        self.split, self.dropout = split, torch.nn.Dropout(0.0)
        self.register_buffer("mask", torch.triu(torch.ones(split.context_length, split.context_length), diagonal=1))

    def forward(self, x):
        b, num_tokens, _ = x.shape
        shape = b, num_tokens, self.split.num_heads, self.split.head_dim
        keys = self.split.W_key(x).view(shape).transpose(1, 2)
        queries = self.split.W_query(x).view(shape).transpose(1, 2)
        values = self.split.W_value(x).view(shape).transpose(1, 2)
        scores = queries @ keys.transpose(2, 3)
        scores.masked_fill_(self.mask.bool()[:num_tokens, :num_tokens], -torch.inf)
        weights = self.dropout(torch.softmax(scores / keys.shape[-1] ** 0.5, dim=-1))
        context = (weights @ values).transpose(1, 2).contiguous().view(b, num_tokens, self.split.d_out)
        return self.split.out_proj(context)


def wrapper_of(split):
    """The stacked heads with the split class's weights, and its out_proj after them."""
    stacked = MultiHeadAttentionWrapper(split.d_in, split.head_dim, split.context_length, 0.0, split.num_heads)
    with torch.no_grad():
        for name in ("W_query", "W_key", "W_value"):
            for head, rows in zip(stacked.heads, getattr(split, name).weight.split(split.head_dim), strict=True):
                getattr(head, name).weight.copy_(rows)
    return torch.nn.Sequential(stacked, split.out_proj)


def ways(size):
    """Every implementation by name, with the same weights, and an input; all have been held against each other."""
    b, num_tokens, width, num_heads = size
    torch.manual_seed(0)
    split = MultiHeadAttention(width, width, num_tokens, 0.0, num_heads).eval()
    x = torch.randn(b, num_tokens, width)
    layers = {
        "wrapper": wrapper_of(split).eval(),
        "split": split,
        "textbook": Textbook(split).eval(),
        "fused": FusedMultiHeadAttention.from_split(split),
        "nnmha": TorchAttention(split).eval(),
    }
    with torch.no_grad():
        expected = split(x)
        for name, layer in layers.items():
            difference = max_difference(layer(x), expected)
            if difference > 1e-5:
                raise SystemExit(f"{name} differs from split by {difference} at {size}: nothing is timed")
    return layers, x, Floor(split, x)


def backward(layer, x):
    """A forward and a backward pass; the gradients are new each time."""
    layer.zero_grad()
    layer(x).sum().backward()


def gradients_agree(layers, x):
    """SystemExit unless the gradient of x is the same for all."""
    found = {}
    for name, layer in layers.items():
        own = x.clone().requires_grad_()
        layer(own).square().mean().backward()
        found[name] = own.grad
    for name, gradient in found.items():
        difference = max_difference(gradient, found["split"]) / found["split"].abs().max().item()
        if difference > 1e-4:
            raise SystemExit(f"the gradient of {name} differs by a share of {difference}: nothing is timed")


def layer_times(runs):
    """Lists of milliseconds by name, such as split_forward, and the size that each belongs to; on all cores."""
    torch.set_num_threads(os.cpu_count())
    times, sizes = {}, {}
    for label, size in SIZES.items():
        layers, x, floor = ways(size)
        with torch.no_grad():
            calls = {name: partial(layer, x) for name, layer in (layers | {"floor": floor}).items()}
            taken = {f"{name}_forward": seconds for name, seconds in timed(calls, runs).items()}
        gradients_agree(layers, x)
        trained = {name: partial(backward, layer.train(), x) for name, layer in layers.items()}
        taken |= {f"{name}_train": seconds for name, seconds in timed(trained, runs).items()}
        for name, seconds in taken.items():
            full = name if label == "gpt2" else f"{name}_{label}"
            times[full], sizes[full] = [1000 * second for second in seconds], list(size)
    return times, sizes


def peaks():
    """The most bytes that a forward pass holds, by way and number of tokens, at width 768 and 12 heads."""
    found = {"split": {}, "textbook": {}, "fused": {}, "nnmha": {}}
    for num_tokens in LENGTHS:
        layers, x, _ = ways((1, num_tokens, 768, 12))
        with torch.no_grad():
            for name, by_length in found.items():
                by_length[num_tokens] = peak_bytes(layers[name], x)
    return found


def generation_times(num_tokens=512, runs=3):
    """Milliseconds to take num_tokens tokens one by one, with the cache and without."""
    torch.manual_seed(0)
    layer, x = FusedMultiHeadAttention(768, 768, num_tokens, 0.0, 12).eval(), torch.randn(1, num_tokens, 768)

    def cached():
        cache, parts = None, []
        for token in x.split(1, dim=1):
            part, cache = layer.step(token, cache)
            parts.append(part)
        return torch.cat(parts, dim=1)

    def whole():
        return torch.cat([layer(x[:, : n + 1])[:, -1:] for n in range(num_tokens)], dim=1)

    with torch.no_grad():
        if max_difference(cached(), whole()) > 1e-5:
            raise SystemExit("with the cache something else comes out: nothing is timed")
        taken = timed({"cached_generation": cached, "whole_generation": whole}, runs, warm=0)
    return {name: [1000 * second for second in seconds] for name, seconds in taken.items()}


def lines(times, found):
    """What the times and bytes say about each other."""
    middle = medians(times)
    for label in SIZES:
        tail = "" if label == "gpt2" else f"_{label}"
        for name in ("wrapper", "textbook", "split", "fused", "nnmha"):
            forward, floor = middle[f"{name}_forward{tail}"], middle[f"floor_forward{tail}"]
            yield f"{label:8} {name:8} forward {forward / floor:6.2f} of the floor, {floor / forward:.0%} of its speed"
    for name, by_length in found.items():
        bytes_held = ", ".join(f"{n}: {b / 1e6:.0f} MB" for n, b in by_length.items())
        yield f"peak of {name:6} {bytes_held}; grows with the power {slope(by_length, by_length.values()):.2f}"


def plot(times, found):
    """Forward times by size, and peaks by length, both on logarithmic axes."""
    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    middle = medians(times)
    for name in ("wrapper", "split", "fused", "nnmha", "floor"):
        tails = ["" if label == "gpt2" else f"_{label}" for label in SIZES]
        left.plot(list(SIZES), [middle[f"{name}_forward{tail}"] for tail in tails], marker="o", label=name)
    left.set(yscale="log", ylabel="forward, ms", title="medians in one run")
    for name, by_length in found.items():
        right.plot(list(by_length), [b / 1e6 for b in by_length.values()], marker="o", label=name)
    right.set(xscale="log", yscale="log", xlabel="num_tokens", ylabel="peak, MB", title="memory of a forward pass")
    left.legend(), right.legend()
    PLOT.parent.mkdir(exist_ok=True)
    figure.savefig(PLOT, dpi=100)
