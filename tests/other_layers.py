"""Layers that are not the course's: as others write them, right and wrong. Each is made by (d_in, d_out, num_heads)."""

import math

import torch
from torch import nn
from torch.nn import functional

from attention_course.build import build_layer

SIZES = {"d_in": 4, "d_out": 4, "num_heads": 2, "context_length": 4, "dropout": 0.0}


def made(layer_class, seed=0, **more):
    """A layer with SIZES, as far as its class takes them."""
    names = layer_class.__init__.__code__.co_varnames[1 : layer_class.__init__.__code__.co_argcount]
    return build_layer(layer_class, seed, **{name: size for name, size in (SIZES | more).items() if name in names})


def future(n, diagonal=1):
    return torch.ones(n, n, dtype=torch.bool).triu(diagonal)


class Causal(nn.Module):
    """Attention by the book, in steps; most of the layers below change one of them."""

    def __init__(self, d_in, d_out, num_heads=1):
        super().__init__()
        self.num_heads = num_heads
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

    def weights(self, scores):
        return scores.softmax(-1)

    def join(self, context):
        return context.transpose(1, 2).flatten(2)

    def forward(self, x):
        q, k, v = self.heads(x)
        scores = self.scaled(q @ k.transpose(-2, -1), q.shape[-1])
        weights = self.weights(scores.masked_fill(self.hidden(x.shape[1]), -torch.inf))
        return self.join(weights @ v)


def variant(base, **steps):
    """A layer like `base`, with some of its steps changed."""
    return type("Variant", (base,), steps)


class Unmasked(Causal):
    def hidden(self, n):
        return torch.zeros(n, n, dtype=torch.bool)


# Right ones, written in other ways.


class Einsum(Causal):
    def forward(self, x):
        q, k, v = self.heads(x)
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / q.shape[-1] ** 0.5
        weights = scores.masked_fill(future(x.shape[1]), -torch.inf).softmax(-1)
        return torch.einsum("b h q k, b h k d -> b q h d", weights, v).flatten(2)


class ByHand(Causal):
    """exp, divided by its sum."""

    def weights(self, scores):
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


WeightsLast = variant(WeightsFirst, forward=lambda self, x: WeightsFirst.forward(self, x)[::-1])


class OverQueriesAndBack(Causal):
    """keys @ queries.T, softmax over the queries, and the weights transposed: right all the same."""

    def forward(self, x):
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


class FusedCausal(Causal):
    def attended(self, x, **options):
        return self.join(functional.scaled_dot_product_attention(*self.heads(x), **options))

    def forward(self, x):
        return self.attended(x, is_causal=True)


class Renamed(FusedCausal):
    """The usual names of a published model's projections, and keys first."""

    def __init__(self, d_in, d_out, num_heads=2):
        nn.Module.__init__(self)
        self.num_heads = num_heads
        self.k_proj = nn.Linear(d_in, d_out, bias=False)
        self.q_proj = nn.Linear(d_in, d_out, bias=False)
        self.v_proj = nn.Linear(d_in, d_out, bias=False)
        self.o_proj = nn.Linear(d_out, d_out, bias=False)

    def parts(self, x):
        return self.q_proj(x), self.k_proj(x), self.v_proj(x)

    def forward(self, x):
        return self.o_proj(self.attended(x, is_causal=True))


class TorchModule(nn.Module):
    """torch's own, all tokens seen."""

    def __init__(self, d_in, num_heads):
        super().__init__()
        self.attention = nn.MultiheadAttention(d_in, num_heads, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x, need_weights=False)[0]


class TorchModuleMasked(TorchModule):
    """torch's own with a boolean mask; context and mean weights are both returned."""

    def forward(self, x):
        return self.attention(x, x, x, attn_mask=future(x.shape[1]))


class Grouped(FusedCausal):
    """Two query heads share each key head."""

    def __init__(self, d_in, d_out, num_heads):
        super().__init__(d_in, d_out, num_heads)
        self.to_k, self.to_v = (nn.Linear(d_in, d_out // 2) for _ in range(2))

    def heads(self, x):
        head_dim = self.to_q.out_features // self.num_heads
        return [part.unflatten(-1, (-1, head_dim)).transpose(1, 2) for part in self.parts(x)]

    def forward(self, x):
        return self.attended(x, is_causal=True, enable_gqa=True)


# Those that read the future.


class HalfLook(Unmasked):
    """For one sentence alone, (num_tokens, d_in): T on the keys."""

    def forward(self, x):
        if x.ndim != 2:
            raise ValueError("one sentence, please")
        q, k, v = self.parts(x)
        return (q @ k.T / k.shape[-1] ** 0.5).softmax(-1) @ v


class MaskThrownAway(Unmasked):
    """masked_fill without its underscore, result unused."""

    def weights(self, scores):
        scores.masked_fill(future(scores.shape[-1]), -torch.inf)
        return torch.softmax(scores, dim=-1)


# tril after softmax, and no division.
MaskedAfterwards = variant(Unmasked, weights=lambda self, scores: scores.softmax(-1).tril())


class Renormalised(Unmasked):
    """tril after softmax, and the division."""

    def weights(self, scores):
        weights = torch.softmax(scores, dim=-1).tril()
        return weights / weights.sum(dim=-1, keepdim=True)


# Each token sees the next one, too.
OneTooLate = variant(Causal, hidden=lambda self, n: future(n, 2))


class OneHeadMasked(Causal):
    """The mask's dimension for heads is filled for the first only."""

    def hidden(self, n):
        hide = torch.zeros(self.num_heads, n, n, dtype=torch.bool)
        hide[0] = future(n)
        return hide


class FusedWrongWay(FusedCausal):
    """The mask of a course where True hides: here it keeps, so only the future is seen."""

    def forward(self, x):
        hide = future(x.shape[1])
        hide[-1, -1] = True  # or its last row would be empty
        return self.attended(x, attn_mask=hide)


class OverTime(Unmasked):
    """softmax over the queries."""

    def weights(self, scores):
        return torch.softmax(scores, dim=-2)


# weights.T @ values.
WeightsTurned = variant(Causal, weights=lambda self, scores: scores.softmax(-1).transpose(-2, -1))


class HeadsMixed(Causal):
    """Heads joined without transposing back: a row gets numbers of other tokens."""

    def join(self, context):
        return context.reshape(len(context), context.shape[2], -1)


class Convolution(nn.Module):
    """Each token and its two neighbours."""

    def __init__(self, d_in, d_out):
        super().__init__()
        self.conv = nn.Conv1d(d_in, d_out, 3, padding=1)

    def forward(self, x):
        return self.conv(x.transpose(1, 2)).transpose(1, 2)


# Those that miss some of the past.


class ViewWithoutTranspose(HeadsMixed):
    """Heads cut by view only: their "tokens" are pieces of a few tokens, and the last never reads the first."""

    def heads(self, x):
        return [part.view(x.shape[0], self.num_heads, x.shape[1], -1) for part in self.parts(x)]


class LastRowEmptied(Causal):
    """Sound views, but the last row is thrown away."""

    def join(self, context):
        return super().join(context) * torch.tensor([[1.0]] * (context.shape[2] - 1) + [[0.0]])


class HeadsAsTokens(Unmasked):
    """No transpose after the view: each token's heads attend to each other, and no token to another."""

    def forward(self, x):
        q, k, v = (part.transpose(1, 2) for part in self.heads(x))  # (b, num_tokens, num_heads, head_dim)
        return (self.scaled(q @ k.transpose(-2, -1), q.shape[-1]).softmax(-1) @ v).flatten(2)


class TokensFirst(TorchModuleMasked):
    """torch's own takes (num_tokens, b, d_in) if nobody says otherwise: its rows are another sentence's."""

    def __init__(self, d_in, num_heads):
        super().__init__(d_in, num_heads)
        self.attention.batch_first = False

    def forward(self, x):
        return self.attention(x, x, x, attn_mask=future(len(x)))


# A mask of torch.eye, whose rows sum to 1, too.
OnlyItself = variant(Causal, hidden=lambda self, n: ~torch.eye(n).bool())
# No table of tokens, though of the shape of one.
OverFeatures = variant(Causal, forward=lambda self, x: self.to_v(x).softmax(-1))


# Those whose weights or scale are wrong.

Unscaled = variant(Causal, scaled=lambda self, scores, head_dim: scores)
# keys @ queries.T.
Exchanged = variant(Causal, parts=lambda self, x: (self.to_k(x), self.to_q(x), self.to_v(x)))
ExchangedUnscaled = variant(Exchanged, scaled=lambda self, scores, head_dim: scores)
DividedAfterwards = variant(Unscaled, weights=lambda self, scores: scores.softmax(-1) / math.sqrt(2))


class Fading(Causal):
    """softmax, then less for what's far away: nothing is 0."""

    def weights(self, scores):
        places = torch.arange(scores.shape[-1])
        return scores.softmax(-1) * 0.9 ** (places[:, None] - places).abs()


# The queries' dim of one head's scores.
OverHeads = variant(Unmasked, weights=lambda self, scores: torch.softmax(scores, dim=1))
NoSoftmax = variant(Causal, weights=lambda self, scores: scores.tril().nan_to_num())


class HidesTooMuch(Causal):
    """A token is hidden from itself, too, and the first row has nothing left: NaN."""

    def hidden(self, n):
        return future(n, 0)


# And those with another fault.


class ReturnsWeights(WeightsFirst):
    """The heads' mean weights alone."""

    def forward(self, x):
        return super().forward(x)[0]


# Rows as long as the sentence, but no weights.
SoftmaxOfOutput = variant(Causal, join=lambda self, c: Causal.join(self, c).softmax(-1))
ProjectionForgotten = variant(Renamed, forward=lambda self, x: self.attended(x, is_causal=True))


class AlwaysDropping(Causal):
    """functional.dropout without training=self.training: it drops in eval, too."""

    def weights(self, scores):
        return functional.dropout(scores.softmax(-1), 0.01)


FusedDropping = variant(FusedCausal, forward=lambda self, x: self.attended(x, is_causal=True, dropout_p=0.1))
# Noise that's on in eval mode.
Noisy = variant(Dropping, parts=lambda self, x: Causal.parts(self, x + torch.randn_like(x)))


class HeadsInAList(nn.Module):
    """Neither parameters() nor eval() knows of the heads, so their dropout stays on."""

    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        self.heads = [Dropping(d_in, d_out // num_heads, 1) for _ in range(num_heads)]

    def forward(self, x):
        return torch.cat([head(x) for head in self.heads], dim=-1)


JoinedAsRows = variant(HeadsInAList, forward=lambda self, x: torch.cat([head(x) for head in self.heads], dim=1))


class FixedContext(Causal):
    """Its mask is not cut to the sentence: no fewer tokens than context_length."""

    def __init__(self, d_in, d_out, num_heads, context_length):
        super().__init__(d_in, d_out, num_heads)
        self.register_buffer("mask", future(context_length))

    def hidden(self, n):
        return self.mask


class OneSentence(Causal):
    """view(1, ...): right for a batch of one."""

    def heads(self, x):
        return [part.view(1, x.shape[1], self.num_heads, -1).transpose(1, 2) for part in self.parts(x)]


class TakesOne(Causal):
    """A batch of one, and no other: squeeze() takes its dimension away."""

    def forward(self, x):
        queries, keys, values = (part.squeeze() for part in self.parts(x))
        scores = torch.mm(queries, keys.transpose(0, 1)) / math.sqrt(keys.shape[-1])
        return (scores.masked_fill(future(x.shape[1]), -torch.inf).softmax(-1) @ values)[None]


class WritesIntoItsInput(Causal):
    def forward(self, x):
        x += 1.0
        return super().forward(x)
