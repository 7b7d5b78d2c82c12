"""Layers that are not the course's: one by the book, as text, and what to replace in it for others, right or wrong."""

import linecache

import torch
from torch import nn
from torch.nn import functional as F

from attention_course.build import build_layer

SOURCE = """\
class Layer(nn.Module):
    def __init__(self, d_in, d_out, num_heads=2):
        super().__init__()
        self.num_heads, self.p = num_heads, 0.0  # of dropout, as an attribute
        self.to_q, self.to_k, self.to_v = (nn.Linear(d_in, d_out) for _ in range(3))
        self.more(d_in, d_out)

    def more(self, d_in, d_out):
        pass

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = self.to_q(x), self.to_k(x), self.to_v(x)
        q, k, v = (part.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for part in (q, k, v))
        scores = q @ k.mT / q.shape[-1] ** 0.5
        scores = scores.masked_fill(future(n), -torch.inf)
        weights = scores.softmax(-1)
        weights = F.dropout(weights, self.p, self.training)
        context = weights @ v
        context = context.transpose(1, 2).flatten(2)
        return context
"""
PARTS = "self.to_q(x), self.to_k(x), self.to_v(x)"
CUT = "part.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)"
SCALED = "q @ k.mT / q.shape[-1] ** 0.5"
MASKED = "scores.masked_fill(future(n), -torch.inf)"
SOFTMAX = "scores.softmax(-1)"
DROPPED = "F.dropout(weights, self.p, self.training)"
JOINED = "context.transpose(1, 2).flatten(2)"
RESULT = "return context"
UNMASKED = (MASKED, "scores")
RESIDUAL = (
    "b, n, _ = x.shape",
    "b, n, _ = (given := x).shape; x = F.layer_norm(x, x.shape[-1:])",
    RESULT,
    "return given + context",
)


def future(n, diagonal=1):
    return torch.ones(n, n, dtype=torch.bool).triu(diagonal)


def layer_with(*edits):
    """The class by the book with pieces of its text replaced: old, new, old, new, ..."""
    text = SOURCE
    for old, new in zip(edits[::2], edits[1::2], strict=True):
        assert old in text
        text = text.replace(old, new)
    name = f"<layer {hash(text)}>"
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name  # so that errors show its lines
    space = {"__name__": "cell", "torch": torch, "nn": nn, "F": F, "future": future}
    exec(compile(text, name, "exec"), space)
    return space["Layer"]


def more(line):
    """Another line of __init__."""
    return "pass", line


def fused(options):
    start, end = SOURCE.index("scores = q"), SOURCE.index("        context = context")
    return SOURCE[start:end], f"context = F.scaled_dot_product_attention(q, k, v, {options})\n"


def make_layer(*edits, width=8, seed=0):
    """A layer with as many outputs as inputs."""
    return build_layer(layer_with(*edits), seed, width, width, 2)


def torchs_own(num_tokens):
    start, end = SOURCE.index("        q, k, v"), SOURCE.index("        return")
    return (
        "(nn.Linear(d_in, d_out) for _ in range(3))", "[None] * 3",
        "pass", "self.attention = nn.MultiheadAttention(d_in, 2, batch_first=True)",
        SOURCE[start:end], f"        context = self.attention(x, x, x, attn_mask=future({num_tokens}))\n",
    )  # fmt: skip


ONE_MATRIX = more("self.to_q = self.to_k = self.to_v = None; self.qkv = nn.Linear(d_in, 3 * d_out)")
PROJECTION = more("self.o_proj = nn.Linear(d_out, d_out, bias=False)")
TURN = "torch.polar(torch.ones(n, 1), torch.arange(n)[:, None] * torch.ones(1))"
ROTATED = (
    SCALED,
    f"""1.0
        q, k = (torch.view_as_complex(part.unflatten(-1, (-1, 2)).contiguous()) * {TURN} for part in (q, k))
        q, k = (torch.view_as_real(part).flatten(-2) for part in (q, k))
        scores = {SCALED}""",
)
GROUPED = (
    *more("self.to_k, self.to_v = (nn.Linear(d_in, d_out // 2) for _ in range(2))"),
    CUT, "part.unflatten(-1, (-1, q.shape[-1] // self.num_heads)).transpose(1, 2)",
    *fused("is_causal=True, enable_gqa=True"),
)  # fmt: skip
OWN = (
    *more(
        "self.to_q = self.to_k = self.to_v = None; self.qkv = nn.Parameter(torch.randn(3 * d_out, d_in) / 4)\n"
        "        self.position, self.gain = nn.Parameter(torch.randn(1, 9, d_in) / 9), nn.Parameter(torch.ones(d_out))"
    ),
    PARTS, "((x + self.position[:, :n]) @ part.T for part in self.qkv.chunk(3))",
    RESULT, "return context * self.gain.unsqueeze(0)",
)  # fmt: skip
EACH_ALONE = "[head(x) for head in self.parts]"
IN_HALF = ("def forward", "@torch.autocast('cpu', dtype=torch.bfloat16)\n    def forward", RESULT, RESULT + ".float()")
WRAPPER = "computes what the course's MultiHeadAttentionWrapper computes"
WHOLE = "computes what the course's MultiHeadAttention computes"
FINE = "^No fault found: it reads only the past, each token reads its whole past, rows sum to 1"
RIGHT = {  # what the headline says
    "by the book": ((), WRAPPER + "$"),
    "einsum": ((SCALED, SCALED.replace("q @ k.mT", "torch.einsum('bhqd,bhkd->bhqk', q, k)"),
                "weights @ v", "torch.einsum('b h q k, b h k d -> b h q d', weights, v)"), WRAPPER),
    "exp by hand": ((SOFTMAX, "scores.exp() / scores.exp().sum(-1, keepdim=True)"), WRAPPER),
    "a module for dropout": ((*more("self.drop = nn.Dropout(0.5)"), DROPPED, "self.drop(weights)"), WRAPPER),
    "weights first": ((RESULT, "return weights.mean(1), context"), WRAPPER),
    "weights last": ((RESULT, "return context, weights.mean(1)"), WRAPPER),
    "over queries and back": ((SCALED, SCALED.replace("q @ k.mT", "k @ q.mT"), "future(n)", "future(n).mT",
                               SOFTMAX, "scores.softmax(-2).mT"), WRAPPER),
    "one matrix, keys first": ((*ONE_MATRIX, f"q, k, v = {PARTS}", "k, q, v = self.qkv(x).chunk(3, dim=-1)"), WRAPPER),
    "fused": (fused("is_causal=True"), WRAPPER),
    "a projection": ((*PROJECTION, RESULT, "return self.o_proj(context)"), WHOLE),
    "torch's own": (torchs_own("n"), WHOLE),
    "tokens first": ((*torchs_own("b"), "batch_first=True", "batch_first=False"), WHOLE + " with the tokens first$"),
    "grouped": (GROUPED, FINE),
    "unmasked": (UNMASKED, WRAPPER + " without its mask$"),
    "values first": (("weights @ v", "(v.mT @ weights.mT).mT"), WRAPPER),
    "rotated": (ROTATED, FINE),
    "a dictionary as its result": ((RESULT, "return {'output': context}"), WRAPPER),
    "parameters that are read through views": (OWN, FINE),
    "talking heads": ((*more("self.blend = nn.Conv2d(2, 2, 1, bias=False)"), DROPPED, "self.blend(weights)"), FINE),
    "two maps": ((DROPPED, "weights - (3 * scores).softmax(-1) * 0.5"), FINE),
    "a sink": ((SOFTMAX, "torch.cat((scores, torch.zeros(b, 2, n, 1)), -1).softmax(-1)[..., :-1]"), FINE),
    "a residual": (RESIDUAL, FINE),
    "half precision inside": (IN_HALF, WRAPPER),
    "a rounded scale": ((SCALED, SCALED + " * 1.0003"), FINE),
    "a mask of -1e9": ((MASKED, MASKED.replace("-torch.inf", "-1e9")), WRAPPER),
    "a mask of -1e9 that's added": ((MASKED, "scores - 1e9 * future(n)"), WRAPPER),
    "a copy that's never used": ((RESULT, "context.clone(); return context"), WRAPPER),
    "a softmax of the output": ((RESULT, "return context.softmax(-1)"), FINE),
}  # fmt: skip
