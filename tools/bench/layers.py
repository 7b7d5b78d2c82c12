"""Time and measure the layers against each other, against torch's own and against a floor.

    python -m tools.bench.layers [--sizes toy small] [--runs 7]      (make bench ARGS="layers --sizes toy small")

All implementations get the same weights, and nothing is timed before outputs and gradients agree. They take turns in
one process, so other work on the machine slows them all alike: the ratios are what counts. The floor is what no layer
can do without: the bare matrix products and the bare scaled_dot_product_attention on tensors of the same sizes.
"""

import argparse
import os
from functools import partial

import torch

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


class Floor:
    """The matrix products and the attention of a layer of these sizes, with nothing around them."""

    def __init__(self, split, x):
        b, num_tokens, width = x.shape
        self.x, self.W_qkv, self.W_out = x.flatten(0, 1), torch.randn(width, 3 * width), torch.randn(width, width)
        self.heads = torch.randn(3, b, split.num_heads, num_tokens, split.head_dim)

    def __call__(self, x):
        self.x @ self.W_qkv
        torch.nn.functional.scaled_dot_product_attention(*self.heads, is_causal=True)
        return self.x @ self.W_out


def wrapper_of(split):
    """The stacked heads with the split class's weights, and its out_proj after them."""
    stacked = MultiHeadAttentionWrapper(split.d_in, split.head_dim, split.context_length, 0.0, split.num_heads)
    with torch.no_grad():
        for name in ("W_query", "W_key", "W_value"):
            for head, rows in zip(stacked.heads, getattr(split, name).weight.split(split.head_dim), strict=True):
                getattr(head, name).weight.copy_(rows)
    return torch.nn.Sequential(stacked, split.out_proj)


def layers_of(size):
    """Every implementation by name, with the same weights; an input; and the floor.

    size: b, num_tokens, width, num_heads. Errors: SystemExit if the outputs for this input differ.
    """
    b, num_tokens, width, num_heads = size
    torch.manual_seed(0)
    split = MultiHeadAttention(width, width, num_tokens, 0.0, num_heads).eval()
    x = torch.randn(b, num_tokens, width)
    layers = {
        "wrapper": wrapper_of(split).eval(),
        "split": split,
        "fused": FusedMultiHeadAttention.from_split(split),
        "nn.MHA": TorchAttention(split).eval(),
    }
    with torch.no_grad():
        prove_equal("output", {name: layer(x) for name, layer in layers.items()}, 1e-5)
    return layers, x, Floor(split, x)


def prove_equal(what, found, tolerance):
    """SystemExit unless all are as split's, but for this share of its largest number."""
    expected = found["split"]
    for name, tensor in found.items():
        share = max_difference(tensor, expected) / expected.abs().max().item()
        if not share <= tolerance:  # put so that NaN is refused, too
            raise SystemExit(f"the {what} of {name} differs from split's by a share of {share}: nothing is timed")


def gradient(layer, x):
    """The gradient of x, (b, num_tokens, d_in)."""
    own = x.clone().requires_grad_()
    layer(own).square().mean().backward()
    return own.grad


def backward(layer, x):
    """A forward and a backward pass; the gradients are new each time."""
    layer.zero_grad()
    layer(x).sum().backward()


def milliseconds(size, runs):
    """Medians of a forward pass, and of one with a backward pass, by name: {"split": (0.3, 0.9)}; the floor has one."""
    layers, x, floor = layers_of(size)
    prove_equal("gradient", {name: gradient(layer, x) for name, layer in layers.items()}, 1e-4)
    with torch.no_grad():
        forward = medians(timed({name: partial(layer, x) for name, layer in (layers | {"floor": floor}).items()}, runs))
    train = medians(timed({name: partial(backward, layer.train(), x) for name, layer in layers.items()}, runs))
    return {name: [1000 * way[name] for way in (forward, train) if name in way] for name in forward}


def peaks(lengths, width=768, num_heads=12):
    """The most bytes that a forward pass holds, by name, one for each number of tokens."""
    found = {}
    for num_tokens in lengths:
        layers, x, _ = layers_of((1, num_tokens, width, num_heads))
        with torch.no_grad():
            for name, layer in layers.items():
                found.setdefault(name, []).append(peak_bytes(layer, x))
    return found


def print_times(size, runs):
    times = milliseconds(SIZES[size], runs)
    floor, fused = times["floor"][0], times["fused"][1]
    for name, (forward, *train) in times.items():
        trained = "".join(f"{step:18.3f} {step / fused:8.2f}" for step in train)
        print(f"{size:9} {name:9} {forward:12.3f} {forward / floor:8.2f} {trained}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sizes", nargs="*", choices=SIZES, default=[*SIZES], help="whose time (default: all)")
    parser.add_argument("--lengths", nargs="*", type=int, default=LENGTHS, help="in tokens, whose memory (default: 4)")
    parser.add_argument("--runs", type=int, default=7, help="runs of each layer at each size (default 7)")
    chosen = parser.parse_args()
    torch.set_num_threads(os.cpu_count())
    print(f"{'medians':9} {'layer':9} {'forward, ms':>12} {'x floor':>8} {'and backward, ms':>18} {'x fused':>8}")
    for size in chosen.sizes:
        print_times(size, chosen.runs)
    print(
        f"\n{'MB held by a forward pass at':29}", *(f"{n:>7}" for n in chosen.lengths), "tokens; the power it grows by"
    )
    for name, held in peaks(chosen.lengths).items():
        power = f"{slope(chosen.lengths, held):8.2f}" if len(held) > 1 else ""
        print(f"{name:29}", *(f"{count / 1e6:7.0f}" for count in held), power)


if __name__ == "__main__":
    main()
