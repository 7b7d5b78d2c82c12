"""Layers that are not the course's: one by the book, as text, and what to replace in it for others, right or wrong."""

import linecache

import torch
from torch import nn
from torch.nn import functional as F

from attention_course.build import build_layer

SOURCE = """\
class Layer(nn.Module):
    def __init__(self, d_in, d_out, num_heads=2, dropout=0.0):
        super().__init__()
        self.num_heads, self.p = num_heads, dropout
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
MIXED = "weights @ v"
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


def filled(value):
    return MASKED, MASKED.replace("-torch.inf", value)


def mixed_by(equation):
    return MIXED, f"torch.einsum('{equation}', weights, v)"


def hiding(mask):
    return "future(n)", mask


def make_layer(*edits, width=8, seed=0, dropout=0.0):
    """A layer with as many outputs as inputs."""
    return build_layer(layer_with(*edits), seed, width, width, 2, dropout)


def torchs_own(num_tokens):
    start, end = SOURCE.index("        q, k, v"), SOURCE.index("        return")
    return (
        "(nn.Linear(d_in, d_out) for _ in range(3))", "[None] * 3",
        "pass", "self.attention = nn.MultiheadAttention(d_in, 2, batch_first=True)",
        SOURCE[start:end], f"        context = self.attention(x, x, x, attn_mask=future({num_tokens}))\n",
    )  # fmt: skip


PROJECTION = more("self.o_proj = nn.Linear(d_out, d_out, bias=False)")
TURN = "part.unflatten(-1, (-1, 2)).contiguous()) * torch.polar(torch.ones(n, 1), torch.arange(float(n))[:, None])"
ROTATED = (
    "scores = q",
    f"q, k = (torch.view_as_real(torch.view_as_complex({TURN}).flatten(-2) for part in (q, k)); scores = q",
)
ANGLES = (  # of half-split pairs, as tables
    *more(
        "angles = torch.arange(512.0)[:, None] * torch.logspace(0, -2, d_out // 4).repeat(2)\n"
        "        self.register_buffer('cos', angles.cos())\n"
        "        self.register_buffer('sin', angles.sin() * torch.tensor([-1.0, 1.0]).repeat_interleave(d_out // 4))"
    ),
    "scores = q",
    "q, k = (part * self.cos[:n] + part.roll(part.shape[-1] // 2, -1) * self.sin[:n] for part in (q, k)); scores = q",
)  # fmt: skip
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
WRAPPER = "computes what the course's MultiHeadAttentionWrapper computes"
WHOLE = "computes what the course's MultiHeadAttention computes"
FINE = "^No fault found: it reads only the past, each token reads its whole past, rows sum to 1"
RIGHT = {  # what the headline says, and the edits
    "by the book": (WRAPPER + "$",),
    "einsum": (WRAPPER, "q @ k.mT", "torch.einsum('bhqd,bhkd->bhqk', q, k)", *mixed_by("b h q k, b h k d -> b h q d")),
    "exp by hand": (WRAPPER, SOFTMAX, "scores.exp() / scores.exp().sum(-1, keepdim=True)"),
    "a module for dropout": (WRAPPER, *more("self.drop = nn.Dropout(0.5)"), DROPPED, "self.drop(weights)"),
    "weights first": (WRAPPER, RESULT, "return weights.mean(1), context"),
    "weights last": (WRAPPER, RESULT, "return context, weights.mean(1)"),
    "over queries and back": (WRAPPER, "q @ k", "k @ q", *hiding("future(n).mT"), "softmax(-1)", "softmax(-2).mT"),
    "one matrix, keys first": (
        WRAPPER, *more("self.to_q = self.to_k = self.to_v = None; self.qkv = nn.Linear(d_in, 3 * d_out)"),
        f"q, k, v = {PARTS}", "k, q, v = self.qkv(x).chunk(3, dim=-1)",
    ),
    "fused": (WRAPPER, *fused("is_causal=True")),
    "a projection": (WHOLE, *PROJECTION, RESULT, "return self.o_proj(context)"),
    "torch's own": (WHOLE, *torchs_own("n")),
    "tokens first": (WHOLE + " with the tokens first$", *torchs_own("b"), "batch_first=True", "batch_first=False"),
    "grouped": (WRAPPER + " with shared KV heads$", *GROUPED),
    "unmasked": (WRAPPER + " without its mask$", *UNMASKED),
    "values first": (WRAPPER, MIXED, "(v.mT @ weights.mT).mT"),
    "rotated": (f"{FINE}|{WRAPPER}", *ROTATED),
    "parameters that are read through views": (WRAPPER, *OWN),
    "talking heads": (FINE, *more("self.blend = nn.Conv2d(2, 2, 1, bias=False)"), DROPPED, "self.blend(weights)"),
    "two maps": (FINE, DROPPED, "weights - (3 * scores).softmax(-1) * 0.5"),
    "a sink": (FINE, SOFTMAX, "torch.cat((scores, torch.zeros(b, 2, n, 1)), -1).softmax(-1)[..., :-1]"),
    "a residual": (WRAPPER + " with a residual$", *RESIDUAL),
    "half precision inside": (
        WRAPPER, "def forward", "@torch.autocast('cpu', torch.bfloat16)\n    def forward", RESULT, RESULT + ".float()",
    ),
    "a rounded scale": (FINE, SCALED, SCALED + " * 1.0003"),
    "a mask of -1e9": (WRAPPER, *filled("-1e9")),
    "a mask of -1e9 that's added": (WRAPPER, MASKED, "scores - 1e9 * future(n)"),
    "a copy that's never used": (WRAPPER, RESULT, "context.clone(); return context"),
    "a mask by assignment": (WRAPPER, MASKED, "scores.clone(); scores[..., future(n)] = -torch.inf"),
    "rows and views that are written into": (
        WRAPPER, RESULT,
        "rows = torch.zeros_like(context); rows[:, :1], rows[:, 1:] = context[:, :1], context[:, 1:]\n"
        "        rows.view(-1)[0] *= 1; return rows.mT.mT",
    ),
    "results that are kept": (
        WRAPPER, *more("self.kept = []"),
        RESULT, "return {'output': context, 'more': [context.max(-1).values, self.kept.append(context + 1)]}",
    ),
    "a softmax of the output": (FINE, RESULT, "return context.softmax(-1)"),
    "float64 inside": (WRAPPER, PARTS, f"(part.double() for part in ({PARTS}))", RESULT, "return context.to(x)"),
    "a mask in a buffer": (
        WRAPPER, *more("self.register_buffer('bias', torch.full((512, 512), -torch.inf).triu(1))"),
        MASKED, "scores + self.bias[:n, :n]",
    ),
    "angles in buffers": (f"{FINE}|{WRAPPER} with rotary positions", *ANGLES),
    "biased by distance": (FINE, SCALED, f"{SCALED} + torch.arange(n) * torch.tensor([[[0.25]], [[0.0625]]])"),
    "normed queries": (FINE, SCALED, "F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT * 8"),
}  # fmt: skip

KEPT = "(torch.rand_like(scores) > self.p if self.training else 1)"
SCRAMBLED = JOINED, "context.reshape(b, n, -1)"
NO_GRADIENT = "A parameter gets no gradient: "
OTHER_SCALE = "In training, its weights have another scale: .*"
WRONG = {  # the same for faults
    "thrown away": ("line 16 computes masked_fill and throws it away", MASKED, f"scores; {MASKED}"),
    "no mask, exp thrown away": ("^A result is never used: line 16 computes exp", MASKED, "scores; scores.exp()"),
    "much thrown away": (
        "^A result is never used: line 21 computes transpose",
        RESULT, f"context.transpose(0, 1); context.max(-1); context.clone().add_(1); (context + 1).shape; {RESULT}",
    ),
    "-1e4": (r"It reads the future: it hides by a score of -1e\+04, not far", *filled("-1e4")),
    "the past hidden": ("it hides the past and", *hiding("~(future(n) | torch.diag(torch.arange(n) == n - 1))")),
    "-20": ("It reads the future: it hides by a score of -20, not far", *filled("-20.0")),
    "0 and 1 added": ("adds its mask of 0 and 1", *fused("attn_mask=torch.ones(n, n).tril()")),
    "renormalised in place": (
        "softmax in line .* mixes later tokens", *UNMASKED,
        DROPPED, "weights + 0; weights[..., future(n)] = 0; weights /= weights.sum(-1, keepdim=True)",
    ),
    "too early": ("one diagonal too early", *hiding("future(n, 0)"), "-torch.inf", "-1e9"),
    "one head masked": ("hides only some of", *hiding("future(n) & torch.tensor([True, False]).view(2, 1, 1)")),
    "leaks in training": ("^In training, .*: softmax in line", MASKED, f"scores if self.training else {MASKED}"),
    "leaks in eval": ("^In eval mode, it reads the future", MASKED, f"{MASKED} if self.training else scores"),
    "normed over tokens": (
        "^In training, .*: batch_norm", DROPPED, "weights",
        RESULT, "return F.batch_norm(context[0], *torch.ones(2, 8), training=self.training)[None]",
    ),
    "turned by einsum": ("The weights are transposed", *mixed_by("...qk,...qd->...kd")),
    "turned, values first": ("The weights are transposed", MIXED, "(v.mT @ weights).mT"),
    "summed": ("The weights are transposed", MIXED, "(weights[..., None] * v[:, :, :, None]).sum(2)"),
    "all heads' values": ("Each head averages the values of all heads", *mixed_by("bhqk,bgkd->bhqd")),
    "heads mixed, unmasked": ("A row gets the numbers of several tokens", *SCRAMBLED, *UNMASKED),
    "heads mixed, with a residual": ("A row gets the numbers of several tokens", *SCRAMBLED, *UNMASKED, *RESIDUAL),
    "heads cut by view": (
        "Tokens miss .*: A head gets whole tokens", *SCRAMBLED, CUT, "part.view(b, self.num_heads, n, -1)",
    ),
    "a mean over the tokens": (r"mean in line \d+ mixes", RESULT, "return context * context.mean(1, keepdim=True)"),
    "last row emptied": ("Tokens miss .*: token 4 ", RESULT, "return context * (torch.arange(n) < n - 1)[:, None]"),
    "within tokens": (
        "only itself: no pert", *UNMASKED, CUT, CUT.replace(".transpose(1, 2)", ""), JOINED, "context.flatten(2)",
    ),
    "only itself": ("only itself: no perturbation .* a row$", *hiding("~torch.eye(n).bool()")),
    "divided afterwards": ("all weights are multiplied by 0.5$", DROPPED, "weights / 2"),
    "fading": ("sum to 1: after softmax some weights are changed$", DROPPED, "weights * 0.9 ** torch.arange(n)"),
    "no softmax": ("^No fault found, but no attention weights either", SOFTMAX, "scores.exp() / 9"),
    "all hidden": ("Row 0 is NaN: softmax in .* makes the first NaN, b", *hiding("future(n, 0)")),
    "returned weights": ("It returns its attention weights: softmax in .* times", RESULT, "return weights.mean(1)"),
    "a forgotten projection": ("A parameter is never used: o_proj.weight$", *PROJECTION),
    "keys as values": (
        "It averages keys",
        *OWN[:3], "[(x + self.position[:, :n]) @ self.qkv.chunk(3)[part].T for part in (0, 1, 1)]", *OWN[4:],
    ),
    "always dropping": (r"random in eval mode too: dropout in line \d+ draws", DROPPED, "F.dropout(weights, 0.01)"),
    "fused dropping": ("scaled_dot_product.* draws at each", *fused("is_causal=True, dropout_p=0.1")),
    "heads in a list": (
        r"aren't registered: `parameters\(\)` lacks 72 trainable numbers",
        *more("del self.to_q; self.lost = [nn.Linear(d_in, d_out)]"), PARTS, PARTS.replace("to_q", "lost[0]"),
    ),
    "a fixed mask": ("It fails on fewer tokens: line .* raises RuntimeErr", *hiding("future(5)")),
    "one sentence": ("Sentences of a batch mix: next to other sent", CUT, "part.view(1, n, 2, -1).transpose(1, 2)"),
    "the batch's spread": (
        "Sentences of a batch mix",
        *(RESULT, "return context + (context - context.mean(0)).square().mean(0)"),
    ),
    "takes one": (r"fails on a batch .*: line \d+", RESULT, "return torch.mm(context.squeeze(0), torch.eye(8))[None]"),
    "writes": ("It writes into its input", "x.shape", "x.add_(1).shape"),
    "counts": (
        "^It keeps something between calls: .*`calls`",
        *more("self.calls = 0"), RESULT, "self.calls += 1; return context * self.calls",
    ),
    "drops scores": ("drops scores", SOFTMAX, "F.dropout(scores, self.p, self.training).softmax(-1)"),
    "drops without dividing": (OTHER_SCALE + "aren't", DROPPED, f"weights * {KEPT}"),
    "drops twice": (OTHER_SCALE + "more than once, and their sum is 0.8 of", DROPPED, f"{DROPPED} * {KEPT}"),
    "divides by p": (OTHER_SCALE + "by p, not by 1 - p", DROPPED, f"weights * {KEPT} / (self.p or 1)"),
    "NaN in training": (
        "^In training with dropout, .*is NaN: div", DROPPED, f"(w := {DROPPED}) / w.sum(-1, keepdim=True)",
    ),
    "another scale in training": ("in training, without dropout, rows", SCALED, f"{SCALED} / (1 + self.training)"),
    "queries cut": (NO_GRADIENT + "detach in .*, so to_q.weight, to_q.bias can't", "q @ k.mT", "q.detach() @ k.mT"),
    "x cut": ("gradients of x aren't", PARTS, PARTS.replace("x", "x.detach()")),
    "rounded": (NO_GRADIENT + "some step's slope is 0 every", SCALED, f"({SCALED} * 8).round() / 8"),
    "argmax": (NO_GRADIENT + "argmax", SOFTMAX, "F.one_hot(scores.argmax(-1), n).float()"),
    "turned along the heads": (
        "mul in line .* multiplies by numbers that differ from place", "scores = q",
        "q, k = (part * torch.tensor([[[1.0]], [[-1.0]]]) for part in (q, k)); scores = q",
    ),
}  # fmt: skip
