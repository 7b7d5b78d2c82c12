"""Layers that are not the course's: as others write them, right and wrong. Each is made by (d_in, d_out, num_heads)."""

import math
from dataclasses import dataclass
from operator import itemgetter

import torch
from torch import nn
from torch.nn import functional

from attention_course.build import build_layer


def future(n, diagonal=1):
    return torch.ones(n, n, dtype=torch.bool).triu(diagonal)


class Causal(nn.Module):
    """Attention by the book, in steps; most of the layers below change one of them."""

    def __init__(self, d_in, d_out, num_heads=2):
        super().__init__()
        self.num_heads, self.p = num_heads, 0.0  # of dropout, as an attribute
        self.to_q = nn.Linear(d_in, d_out)
        self.to_k = nn.Linear(d_in, d_out)
        self.to_v = nn.Linear(d_in, d_out)

    def parts(self, x):
        return self.to_q(x), self.to_k(x), self.to_v(x)

    def heads(self, x):
        """Queries, keys and values, (b, num_heads, num_tokens, head_dim)."""
        return [part.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for part in self.parts(x)]

    def scaled(self, scores, head_dim):
        return scores / math.sqrt(head_dim)

    def hidden(self, n):
        return future(n)

    def masked(self, scores):
        return scores.masked_fill(self.hidden(scores.shape[-1]), -torch.inf)

    def weights(self, scores):
        return scores.softmax(-1)

    def mix(self, weights, values):
        return weights @ values

    def join(self, context):
        return context.transpose(1, 2).flatten(2)

    def forward(self, x):
        q, k, v = self.heads(x)
        scores = self.scaled(q @ k.transpose(-2, -1), q.shape[-1])
        return self.join(self.mix(self.weights(self.masked(scores)), v))


def variant(base, **steps):
    """A layer like `base`, with some of its steps changed."""
    return type("Variant", (base,), steps)


def make_layer(layer_class, width=8, num_heads=2, seed=0):
    """A layer with as many outputs as inputs."""
    return build_layer(layer_class, seed, width, width, num_heads)


Unmasked = variant(Causal, hidden=lambda s, n: torch.zeros(n, n, dtype=torch.bool))


# Right ones, written in other ways.


class Einsum(Causal):
    def forward(self, x):
        q, k, v = self.heads(x)
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / q.shape[-1] ** 0.5
        return torch.einsum("b h q k, b h k d -> b q h d", self.masked(scores).softmax(-1), v).flatten(2)


def exp_by_hand(_, scores):
    shares = torch.exp(scores - scores.amax(-1, keepdim=True))
    return shares / shares.sum(-1, keepdim=True)


class Dropping(Causal):
    """Dropout as it should be: a module's, off in eval mode. p is its default."""

    def __init__(self, d_in, d_out, num_heads=2, p=0.5):
        super().__init__(d_in, d_out, num_heads)
        self.drop = nn.Dropout(p)

    def weights(self, scores):
        return self.drop(scores.softmax(-1))


class WeightsFirst(Causal):
    """The mean of the heads' weights, then the output: as many numbers per token as there are tokens."""

    def weights(self, scores):
        self.kept = scores.softmax(-1)
        return self.kept

    def forward(self, x):
        output = super().forward(x)
        return self.kept.mean(1), output


def over_queries_and_back(self, x):
    """keys @ queries.T, softmax over the queries, and the weights transposed: right all the same."""
    q, k, v = self.heads(x)
    scores = self.scaled(k @ q.mT, q.shape[-1]).masked_fill(future(x.shape[1]).mT, -torch.inf)
    return self.join(scores.softmax(-2).mT @ v)


class InOne(Causal):
    """One matrix for keys, queries and values, in this order, which nothing but the code says."""

    def __init__(self, d_in, d_out, num_heads=2):
        nn.Module.__init__(self)
        self.num_heads, self.projection = num_heads, nn.Linear(d_in, 3 * d_out)

    def parts(self, x):
        k, q, v = self.projection(x).chunk(3, dim=-1)
        return q, k, v


class Fused(Causal):
    options = {"is_causal": True}  # noqa: RUF012

    def forward(self, x):
        return self.join(functional.scaled_dot_product_attention(*self.heads(x), **self.options))


class Renamed(Fused):
    """The usual names of a published model's projections, and keys first."""

    def __init__(self, d_in, d_out, num_heads=2):
        nn.Module.__init__(self)
        self.num_heads = num_heads
        self.k_proj, self.q_proj, self.v_proj = (nn.Linear(d_in, d_out, bias=False) for _ in range(3))
        self.o_proj = nn.Linear(d_out, d_out, bias=False)

    def parts(self, x):
        return self.q_proj(x), self.k_proj(x), self.v_proj(x)

    def join(self, context):
        return self.o_proj(super().join(context))


class TorchModule(nn.Module):
    """torch's own with a boolean mask; context and mean weights are both returned."""

    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        self.attention = nn.MultiheadAttention(d_in, num_heads, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x, attn_mask=future(x.shape[1]))


class TokensFirst(TorchModule):
    """torch's own takes (num_tokens, b, d_in) if nobody says otherwise: its rows are another sentence's."""

    def forward(self, x):
        self.attention.batch_first = False
        return self.attention(x, x, x, attn_mask=future(len(x)))


class Grouped(Fused):
    """Two query heads share each key head."""

    options = {"is_causal": True, "enable_gqa": True}  # noqa: RUF012

    def __init__(self, d_in, d_out, num_heads):
        super().__init__(d_in, d_out, num_heads)
        self.to_k, self.to_v = (nn.Linear(d_in, d_out // 2) for _ in range(2))

    def heads(self, x):
        head_dim = self.to_q.out_features // self.num_heads
        return [part.unflatten(-1, (-1, head_dim)).transpose(1, 2) for part in self.parts(x)]


class OneSentence(Unmasked):
    """For one sentence alone, (num_tokens, d_in): T on the keys."""

    def forward(self, x):
        if x.ndim != 2:
            raise ValueError("one sentence, please")
        q, k, v = self.parts(x)
        return (q @ k.T / k.shape[-1] ** 0.5).softmax(-1) @ v


class Own(Causal):
    """Its matrices are parameters without nn.Linear, which forward reads through views."""

    def __init__(self, d_in, d_out, num_heads):
        nn.Module.__init__(self)
        self.num_heads, self.qkv = num_heads, nn.Parameter(torch.randn(3 * d_out, d_in) / 4)
        self.position, self.gain = nn.Parameter(torch.randn(1, 9, d_in) / 9), nn.Parameter(torch.ones(d_out))
        self.sharpness = nn.Parameter(torch.ones(()))

    def parts(self, x):
        x = x + self.position[:, : x.shape[1]]
        return [x @ part.T for part in self.qkv.chunk(3)]

    def scaled(self, scores, head_dim):
        return scores * head_dim**-0.5 * self.sharpness

    def join(self, context):
        return super().join(context) * self.gain.unsqueeze(0)


class TalkingHeads(Causal):
    """A learned mixture of the heads' weights, whose rows don't sum to 1."""

    def __init__(self, d_in, d_out, num_heads):
        super().__init__(d_in, d_out, num_heads)
        self.blend = nn.Conv2d(num_heads, num_heads, 1, bias=False)

    def weights(self, scores):
        return self.blend(scores.softmax(-1))


def with_a_sink(_, scores):
    sink = torch.zeros(*scores.shape[:-1], 1)
    return torch.cat((scores, sink), -1).softmax(-1)[..., :-1]


@torch.autocast("cpu", dtype=torch.bfloat16)
def in_half(layer, x):
    return Causal.forward(layer, x).float()


def residual(layer, x):
    return x + Causal.forward(layer, functional.layer_norm(x, x.shape[-1:]))


def fill(value):
    return {"masked": lambda s, scores: scores.where(~future(scores.shape[-1]), value)}


def values_first(self, x):
    q, k, v = self.heads(x)
    return self.join((v.mT @ self.weights(self.masked(q @ k.mT / q.shape[-1] ** 0.5)).mT).mT)


@dataclass
class Output:
    last_hidden_state: torch.Tensor


def rotate_heads(self, x):
    """Queries and keys turned by complex numbers, as rotary positions often are."""
    q, k, v = Causal.heads(self, x)
    turn = torch.polar(torch.ones(x.shape[1], 1), torch.arange(x.shape[1])[:, None] * torch.ones(1))
    turned = (torch.view_as_complex(each.unflatten(-1, (-1, 2)).contiguous()) * turn for each in (q, k))
    return *(torch.view_as_real(each).flatten(-2) for each in turned), v


def half_dropping(s, scores):
    return functional.dropout(scores.softmax(-1), s.p, s.training)


WRAPPER, WHOLE = (
    "computes what the course's MultiHeadAttentionWrapper",
    "computes what the course's MultiHeadAttention ",
)
FINE = "^No fault found: it reads only the past, each token reads its whole past, rows sum to 1"
RIGHT = {  # what the headline says
    "by the book": (Causal, WRAPPER),
    "einsum": (Einsum, WRAPPER),
    "exp by hand": (variant(Causal, weights=exp_by_hand), WRAPPER),
    "dropout": (Dropping, WRAPPER),
    "dropout by attribute": (variant(Causal, weights=half_dropping), WRAPPER),
    "weights first": (WeightsFirst, WRAPPER),
    "weights last": (variant(WeightsFirst, forward=lambda s, x: WeightsFirst.forward(s, x)[::-1]), WRAPPER),
    "over queries and back": (variant(Causal, forward=over_queries_and_back), WRAPPER),
    "one matrix": (InOne, WRAPPER),
    "fused": (Fused, WRAPPER),
    "renamed": (Renamed, WHOLE),
    "torch's own": (TorchModule, WHOLE),
    "tokens first": (TokensFirst, WHOLE + "computes with the tokens first$"),
    "grouped": (Grouped, FINE),
    "unmasked": (Unmasked, WRAPPER + " computes without its mask$"),
    "one sentence": (OneSentence, "computes what the course's SelfAttention_v2 computes$"),
    "values first": (variant(Causal, forward=values_first), WRAPPER),
    "rotated": (variant(Causal, heads=rotate_heads), FINE),
    "a dataclass as its result": (variant(Causal, forward=lambda s, x: Output(Causal.forward(s, x))), WRAPPER),
    "parameters that are read through views": (Own, FINE),
    "talking heads": (TalkingHeads, FINE),
    "two maps": (variant(Causal, weights=lambda _, s: s.softmax(-1) - (3 * s).softmax(-1) * 0.5), FINE),
    "a sink": (variant(Causal, weights=with_a_sink), WRAPPER.replace("Wrapper", "") + "|" + FINE),
    "a residual": (variant(Causal, forward=residual), FINE),
    "half precision inside": (variant(Causal, forward=in_half), WRAPPER),
    "a rounded scale": (variant(Causal, scaled=lambda _, scores, n: scores * (1.0003 / n**0.5)), FINE),
    "a mask of -1e9": (variant(Causal, **fill(-1e9)), WRAPPER),
    "a mask of -1e9 that's added": (variant(Causal, masked=lambda _, s: s - 1e9 * future(s.shape[-1])), WRAPPER),
    "a copy that's never used": (variant(Causal, join=lambda s, c: (c.clone(), Causal.join(s, c))[1]), WRAPPER),
    "a softmax of the output": (variant(Causal, join=lambda s, c: Causal.join(s, c).softmax(-1)), FINE),
}

# Wrong ones.


class HeadsInAList(nn.Module):
    """Neither parameters() nor eval() knows of the heads, so their dropout stays on."""

    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        self.heads = [Dropping(d_in, d_out // num_heads, 1) for _ in range(num_heads)]

    def forward(self, x):
        return torch.cat([head(x) for head in self.heads], dim=-1)


class Convolution(nn.Module):
    """Each token and its two neighbours."""

    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        self.conv = nn.Conv1d(d_in, d_out, 3, padding=1)

    def forward(self, x):
        return self.conv(x.transpose(1, 2)).transpose(1, 2)


def attend_within_tokens(self, x):
    """No transpose after the view: each token's heads attend to each other, and no token to another."""
    q, k, v = (part.transpose(1, 2) for part in self.heads(x))
    return (self.scaled(q @ k.mT, q.shape[-1]).softmax(-1) @ v).flatten(2)


def take_one(self, x):
    """A batch of one, and no other: squeeze() takes its dimension away."""
    q, k, v = (part.squeeze() for part in self.parts(x))
    return (self.masked(torch.mm(q, k.mT) / math.sqrt(k.shape[-1])).softmax(-1) @ v)[None]


def write_into_input(self, x):
    x += 1.0
    return Causal.forward(self, x)


def count_calls(self, x):
    self.calls = getattr(self, "calls", 0) + 1
    return Causal.parts(self, x * self.calls)


def mask_one_head(self, n):
    hide = torch.zeros(self.num_heads, n, n, dtype=torch.bool)
    hide[0] = future(n)
    return hide


def hide_last(n, diagonal=1):
    """Where True should have hidden; the last row isn't empty."""
    hide = future(n, diagonal)
    hide[-1, -1] = True
    return hide


def renormalise(_, scores):
    weights = torch.softmax(scores, dim=-1).tril()
    return weights / weights.sum(dim=-1, keepdim=True)


def throw_away(_, scores):
    scores.masked_fill(future(scores.shape[-1]), -torch.inf)
    return scores.softmax(-1)


def fade(_, scores):
    """softmax, then less for what's far away: nothing is 0."""
    places = torch.arange(scores.shape[-1])
    return scores.softmax(-1) * 0.9 ** (places[:, None] - places).abs()


def scramble(_, context):
    return context.reshape(len(context), context.shape[2], -1)


def cut_by_view(self, x):
    return [part.view(x.shape[0], self.num_heads, x.shape[1], -1) for part in self.parts(x)]


def drop(scores, p):
    """0 with the probability p, else 1."""
    return torch.rand_like(scores) > p if p else torch.ones_like(scores)


def detach(*numbers):
    """Queries, keys and values, some without gradients."""
    parts = Causal.parts
    return {"parts": lambda s, x: [each.detach() if n in numbers else each for n, each in enumerate(parts(s, x))]}


def exchange(*order):
    return {"parts": lambda s, x: itemgetter(*order)(Causal.parts(s, x))}


def turn_along_heads(self, x):
    q, k, v = Causal.heads(self, x)
    return q * torch.tensor([[[1.0]], [[-1.0]]]), k * torch.tensor([[[1.0]], [[-1.0]]]), v
