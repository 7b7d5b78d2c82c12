"""Layers that are not the course's: as others write them, right and wrong. Each is made by (d_in, d_out, num_heads)."""

import math

import torch
from torch import nn
from torch.nn import functional

from attention_helpers.seeded import seeded

SIZES = {"d_in": 4, "d_out": 4, "num_heads": 2, "context_length": 4, "dropout": 0.0}


def made(layer_class, seed=0, **more):
    """A layer with SIZES, as far as its class takes them."""
    names = layer_class.__init__.__code__.co_varnames[1 : layer_class.__init__.__code__.co_argcount]
    return seeded(layer_class, seed, **{name: size for name, size in (SIZES | more).items() if name in names})


class Projections(nn.Module):
    """What most of them share: three projections, and heads cut from them, (b, num_heads, num_tokens, head_dim)."""

    def __init__(self, d_in, d_out, num_heads=1):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, d_out // num_heads
        self.to_q = nn.Linear(d_in, d_out)
        self.to_k = nn.Linear(d_in, d_out)
        self.to_v = nn.Linear(d_in, d_out)

    def parts(self, x):
        return self.to_q(x), self.to_k(x), self.to_v(x)

    def heads(self, x):
        return [part.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2) for part in self.parts(x)]

    def join(self, context):
        return context.transpose(1, 2).flatten(2)


def future(n):
    return torch.ones(n, n, dtype=torch.bool).triu(1)


class Causal(Projections):
    """What most of those below share, each with one step of its own."""

    def forward(self, x):
        q, k, v = self.heads(x)
        return self.join(self.weights(self.scaled(q @ k.transpose(-2, -1))) @ v)

    def scaled(self, scores):
        return scores / math.sqrt(self.head_dim)

    def weights(self, scores):
        return scores.masked_fill(self.hide(scores), -torch.inf).softmax(-1)

    def hide(self, scores):
        return future(scores.shape[-1])


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


class Einsum(Projections):
    """Scores and context by einsum, causal."""

    def forward(self, x):
        q, k, v = self.heads(x)
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / self.head_dim**0.5
        weights = scores.masked_fill(future(x.shape[1]), -torch.inf).softmax(-1)
        return torch.einsum("b h q k, b h k d -> b q h d", weights, v).flatten(2)


class EinsumKeysFirst(Projections):
    """The table lies on its side: a row a key, a column a query; so the softmax over dim=-2 is right. Causal."""

    def forward(self, x):
        q, k, v = self.heads(x)
        scores = torch.einsum("bhkd,bhqd->bhkq", k, q) / self.head_dim**0.5
        weights = functional.softmax(scores.masked_fill(future(x.shape[1]).T, float("-inf")), dim=-2)
        return torch.einsum("b h k q, b h k d -> b q h d", weights, v).flatten(2)


class Grouped(nn.Module):
    """Two query heads share each key head, causal."""

    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        self.groups, self.head_dim = num_heads // 2, d_out // num_heads
        self.to_q = nn.Linear(d_in, d_out)
        self.to_kv = nn.Linear(d_in, d_out)  # half of it keys, half of it values

    def forward(self, x):
        b, n, _ = x.shape
        q = self.to_q(x).view(b, n, self.groups, 2, self.head_dim)
        k, v = self.to_kv(x).view(b, n, 2, self.groups, self.head_dim).unbind(2)
        scores = torch.einsum("bqgrd,bkgd->bgrqk", q, k) / self.head_dim**0.5
        weights = torch.softmax(scores + torch.full((n, n), -torch.inf).triu(1), -1)
        return torch.einsum("bgrqk,bkgd->bqgrd", weights, v).reshape(b, n, -1)


class GroupedFused(Grouped):
    """The same heads by scaled_dot_product_attention's enable_gqa."""

    def forward(self, x):
        b, n, _ = x.shape
        q = self.to_q(x).view(b, n, -1, self.head_dim).transpose(1, 2)
        k, v = self.to_kv(x).view(b, n, 2, self.groups, self.head_dim).permute(2, 0, 3, 1, 4)
        fused = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return fused.transpose(1, 2).reshape(b, n, -1)


class ByHand(Causal):
    """exp, divided by its sum, causal."""

    def weights(self, scores):
        scores = scores.masked_fill(self.hide(scores), -torch.inf)
        shares = torch.exp(scores - scores.amax(-1, keepdim=True))
        return shares / shares.sum(-1, keepdim=True)


class ByHandMaskedLate(Causal):
    """exp first, then the mask: a large score of the future brings all of the past to 0, and 0 / 0 is NaN."""

    def weights(self, scores):
        shares = torch.exp(scores - scores.amax(-1, keepdim=True)) * ~self.hide(scores)
        return shares / shares.sum(-1, keepdim=True)


class MaskThrownAway(Causal):
    """masked_fill without its underscore, result unused."""

    def weights(self, scores):
        scores.masked_fill(self.hide(scores), -torch.inf)
        return torch.softmax(scores, dim=-1)


class MaskedAfterwards(Causal):
    """tril after softmax, and no division."""

    def weights(self, scores):
        return torch.softmax(scores, dim=-1).tril()


class Renormalised(Causal):
    """tril after softmax, and the division."""

    def weights(self, scores):
        weights = torch.softmax(scores, dim=-1).tril()
        return weights / weights.sum(dim=-1, keepdim=True)


class OneTooLate(Causal):
    """triu(2): each token sees the next one, too."""

    def hide(self, scores):
        return torch.ones_like(scores).triu(2).bool()


class HidesTooMuch(Causal):
    """triu(0) hides a token from itself, too, and the first row has nothing left: NaN."""

    def hide(self, scores):
        return torch.ones_like(scores).triu(0).bool()


class FixedContext(Causal):
    """Its mask is not cut to the sentence: no fewer tokens than context_length."""

    def __init__(self, d_in, d_out, num_heads, context_length):
        super().__init__(d_in, d_out, num_heads)
        self.register_buffer("mask", future(context_length))

    def hide(self, scores):
        return self.mask


class Window(Causal):
    """Each token reads itself and the one before it."""

    def hide(self, scores):
        return super().hide(scores) | torch.ones_like(scores).tril(-2).bool()


class OverTime(Causal):
    """softmax over the queries."""

    def weights(self, scores):
        return torch.softmax(scores, dim=-2)


class OverHeads(Causal):
    """dim=1 is right without heads; with them, it's the heads' dimension."""

    def weights(self, scores):
        return scores.masked_fill(self.hide(scores), -torch.inf).softmax(1)


class HeadByHead(Causal):
    """A softmax a head, in a loop; the weights stacked before they mix."""

    def weights(self, scores):
        return torch.stack([super(HeadByHead, self).weights(head) for head in scores.unbind(1)], dim=1)


class AlwaysDropping(Causal):
    """functional.dropout without training=self.training: it drops in eval, too."""

    def weights(self, scores):
        return functional.dropout(super().weights(scores), 0.01)


class Dropping(Causal):
    """Dropout as it should be: a module's, off in eval mode. p is its default."""

    def __init__(self, d_in, d_out, num_heads=2, p=0.5):
        super().__init__(d_in, d_out, num_heads)
        self.drop = nn.Dropout(p)

    def weights(self, scores):
        return self.drop(super().weights(scores))


class Unscaled(Causal):
    def scaled(self, scores):
        return scores


class ScaledByWidth(Causal):
    """By the width of all heads, not of one."""

    def scaled(self, scores):
        return scores / math.sqrt(self.num_heads * self.head_dim)


class HeadsMixed(Causal):
    """Heads joined without transposing back: a row gets numbers of other tokens."""

    def join(self, context):
        return context.reshape(context.shape[0], context.shape[2], -1)


class ViewWithoutTranspose(HeadsMixed):
    """Heads cut by view only: their "tokens" are pieces of a few tokens, and the last never reads the first."""

    def heads(self, x):
        return [part.view(x.shape[0], self.num_heads, x.shape[1], self.head_dim) for part in self.parts(x)]


class WeightsFirst(Causal):
    """One head's weights, then the output: as many numbers per token as there are tokens."""

    def forward(self, x):
        q, k, v = self.heads(x)
        weights = self.weights(self.scaled(q @ k.mT))
        return weights.mean(1), self.join(weights @ v)


class ScoresFirst(Causal):
    """The scores, which sum to nothing in particular, and the output, in a dict."""

    def forward(self, x):
        q, k, v = self.heads(x)
        scores = self.scaled(q @ k.mT)
        return {"scores": scores, "output": self.join(self.weights(scores) @ v)}


class FusedCausal(Projections):
    def forward(self, x):
        return self.join(functional.scaled_dot_product_attention(*self.heads(x), is_causal=True))


class FusedFloat(Projections):
    """A float mask, and a scale of its own."""

    def forward(self, x):
        mask = torch.zeros(x.shape[1], x.shape[1]).masked_fill(future(x.shape[1]), -torch.inf)
        return self.join(functional.scaled_dot_product_attention(*self.heads(x), mask, scale=1.0))


class FusedWrongWay(Projections):
    """The mask of a course where True hides: here it keeps, so only the future is seen."""

    def forward(self, x):
        hide = future(x.shape[1])
        hide[-1, -1] = True  # or its last row would be empty
        return self.join(functional.scaled_dot_product_attention(*self.heads(x), attn_mask=hide))


class HalfLook(Projections):
    """For one sentence alone, (num_tokens, d_in): T on the keys."""

    def forward(self, x):
        if x.ndim != 2:
            raise ValueError("one sentence, please")
        q, k, v = self.to_q(x), self.to_k(x), self.to_v(x)
        return (q @ k.T / k.shape[-1] ** 0.5).softmax(-1) @ v


class Convolution(nn.Module):
    """Each token and its two neighbours."""

    def __init__(self, d_in, d_out):
        super().__init__()
        self.conv = nn.Conv1d(d_in, d_out, 3, padding=1)

    def forward(self, x):
        return self.conv(x.transpose(1, 2)).transpose(1, 2)


class HeadsAsTokens(Projections):
    """No transpose after the view: each token's heads attend to each other, and no token to another."""

    def forward(self, x):
        q, k, v = (part.transpose(1, 2) for part in self.heads(x))  # (b, num_tokens, num_heads, head_dim)
        return ((q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)).softmax(-1) @ v).flatten(2)


class Renamed(nn.Module):
    """The usual names of a published model's projections, and nn.Linear's own biases."""

    def __init__(self, d_in, d_out, num_heads=2):
        super().__init__()
        self.n_head = num_heads
        self.q_proj = nn.Linear(d_in, d_out, bias=False)
        self.k_proj = nn.Linear(d_in, d_out, bias=False)
        self.v_proj = nn.Linear(d_in, d_out, bias=False)
        self.o_proj = nn.Linear(d_out, d_out, bias=False)

    def parts(self, x):
        return self.q_proj(x), self.k_proj(x), self.v_proj(x)

    def attended(self, x, **more):
        b, n, _ = x.shape
        heads = [part.view(b, n, self.n_head, -1).transpose(1, 2) for part in self.parts(x)]
        return functional.scaled_dot_product_attention(*heads, **more).transpose(1, 2).reshape(b, n, -1)

    def forward(self, x):
        return self.o_proj(self.attended(x, is_causal=True))


class ProjectionForgotten(Renamed):
    def forward(self, x):
        return self.attended(x, is_causal=True)


class KeysFirst(Renamed):
    """In another order: key, query, value."""

    def __init__(self, d_in, d_out, num_heads=2):
        nn.Module.__init__(self)
        self.n_head = num_heads
        self.key, self.query, self.value, self.proj = (nn.Linear(d_in, d_out) for _ in range(4))

    def forward(self, x):
        return self.proj(self.attended(x, is_causal=True))

    def parts(self, x):
        return self.query(x), self.key(x), self.value(x)


class OneMatrix(Renamed):
    """Queries, keys and values in one."""

    def __init__(self, d_in, d_out, num_heads=2):
        nn.Module.__init__(self)
        self.n_head = num_heads
        self.c_attn, self.c_proj = nn.Linear(d_in, 3 * d_out), nn.Linear(d_out, d_out)

    def parts(self, x):
        return self.c_attn(x).chunk(3, dim=-1)

    def forward(self, x):
        return self.c_proj(self.attended(x, is_causal=True))


class HeadAfterHead(nn.Module):
    """A list of heads with plain matrices."""

    def __init__(self, d_in, d_out, num_heads=2):
        super().__init__()
        sizes = [(d_in, d_out // num_heads)] * 3
        self.heads = nn.ModuleList(
            nn.ParameterList(nn.Parameter(torch.randn(size)) for size in sizes) for _ in range(num_heads)
        )

    def forward(self, x):
        return torch.cat([self.one(x, *(x @ matrix for matrix in head)) for head in self.heads], dim=-1)

    def one(self, x, q, k, v):
        scores = q @ k.mT / k.shape[-1] ** 0.5
        return scores.masked_fill(future(x.shape[1]), -torch.inf).softmax(-1) @ v


class Rotated(Causal):
    """Queries and keys turned by their position; its parameters are those of a layer without."""

    def heads(self, x):
        q, k, v = super().heads(x)
        turns = torch.polar(torch.ones(x.shape[1], 1), torch.arange(x.shape[1])[:, None] * 1.0)
        turned = (torch.view_as_complex(part.unflatten(-1, (-1, 2)).contiguous()) * turns for part in (q, k))
        return [*(torch.view_as_real(part).flatten(-2) for part in turned), v]


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
