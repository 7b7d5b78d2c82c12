"""Layers that are not the course's: as others write them, right and wrong. Each is made by (d_in, d_out, num_heads)."""

import math

import torch
from torch import nn
from torch.nn import functional


class Projections(nn.Module):
    """What most of them share: three projections, and heads cut from them, (b, num_heads, num_tokens, head_dim)."""

    def __init__(self, d_in, d_out, num_heads=1):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, d_out // num_heads
        self.to_q = nn.Linear(d_in, d_out)
        self.to_k = nn.Linear(d_in, d_out)
        self.to_v = nn.Linear(d_in, d_out)

    def heads(self, x):
        return [
            wide.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)
            for wide in (self.to_q(x), self.to_k(x), self.to_v(x))
        ]

    def join(self, context):
        return context.transpose(1, 2).flatten(2)

    def scaled(self, x):
        q, k, v = self.heads(x)
        return q @ k.transpose(-2, -1) / math.sqrt(self.head_dim), v


def future(n):
    return torch.ones(n, n, dtype=torch.bool).triu(1)


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


class ByHand(Projections):
    """exp, divided by its sum, causal."""

    def forward(self, x):
        scores, v = self.scaled(x)
        scores = scores.masked_fill(future(x.shape[1]), -torch.inf)
        shares = torch.exp(scores - scores.amax(-1, keepdim=True))
        return self.join(shares / shares.sum(-1, keepdim=True) @ v)


class ByHandMaskedLate(Projections):
    """exp first, then the mask: a large score of the future brings all of the past to 0, and 0 / 0 is NaN."""

    def forward(self, x):
        scores, v = self.scaled(x)
        shares = torch.exp(scores - scores.amax(-1, keepdim=True)) * ~future(x.shape[1])
        return self.join(shares / shares.sum(-1, keepdim=True) @ v)


class MaskThrownAway(Projections):
    """masked_fill without its underscore, result unused."""

    def forward(self, x):
        scores, v = self.scaled(x)
        scores.masked_fill(future(x.shape[1]), -torch.inf)
        return self.join(torch.softmax(scores, dim=-1) @ v)


class MaskedAfterwards(Projections):
    """tril after softmax, and no division."""

    def forward(self, x):
        scores, v = self.scaled(x)
        return self.join(torch.softmax(scores, dim=-1).tril() @ v)


class Renormalised(Projections):
    """tril after softmax, and the division."""

    def forward(self, x):
        scores, v = self.scaled(x)
        weights = torch.softmax(scores, dim=-1).tril()
        weights = weights / weights.sum(dim=-1, keepdim=True)
        return self.join(weights @ v)


class OneTooLate(Projections):
    """triu(2): each token sees the next one, too."""

    def forward(self, x):
        scores, v = self.scaled(x)
        hide = torch.ones_like(scores).triu(2).bool()
        return self.join(scores.masked_fill(hide, -torch.inf).softmax(-1) @ v)


class HidesTooMuch(Projections):
    """triu(0) hides a token from itself, too, and the first row has nothing left: NaN."""

    def forward(self, x):
        scores, v = self.scaled(x)
        hide = torch.ones_like(scores).triu(0).bool()
        return self.join(scores.masked_fill(hide, -torch.inf).softmax(-1) @ v)


class OverTime(Projections):
    """softmax over the queries."""

    def forward(self, x):
        scores, v = self.scaled(x)
        return self.join(torch.softmax(scores, dim=-2) @ v)


class OverFeatures(Projections):
    """softmax over the features of each token: no table of tokens, though it may have the shape of one."""

    def forward(self, x):
        return functional.softmax(self.to_v(x), dim=-1)


class HeadsMixed(Projections):
    """Heads joined without transposing back: a row gets numbers of other tokens."""

    def forward(self, x):
        scores, v = self.scaled(x)
        weights = scores.masked_fill(future(x.shape[1]), -torch.inf).softmax(-1)
        return (weights @ v).reshape(x.shape[0], x.shape[1], -1)


class AlwaysDropping(Projections):
    """functional.dropout without training=self.training: it drops in eval, too."""

    def forward(self, x):
        scores, v = self.scaled(x)
        weights = scores.masked_fill(future(x.shape[1]), -torch.inf).softmax(-1)
        return self.join(functional.dropout(weights, 0.01) @ v)


class HalfLook(Projections):
    """For one sentence alone, (num_tokens, d_in): T on the keys."""

    def forward(self, x):
        if x.ndim != 2:
            raise ValueError("one sentence, please")
        q, k, v = self.to_q(x), self.to_k(x), self.to_v(x)
        return (q @ k.T / k.shape[-1] ** 0.5).softmax(-1) @ v


class Dropping(Projections):
    """Dropout as it should be: a module's, off in eval mode. p is its default."""

    def __init__(self, d_in, d_out, num_heads=2, p=0.5):
        super().__init__(d_in, d_out, num_heads)
        self.drop = nn.Dropout(p)

    def forward(self, x):
        scores, v = self.scaled(x)
        return self.join(self.drop(scores.masked_fill(future(x.shape[1]), -torch.inf).softmax(-1)) @ v)


class SoftmaxTwice(Projections):
    def forward(self, x):
        scores, v = self.scaled(x)
        weights = scores.masked_fill(future(x.shape[1]), -torch.inf).softmax(-1)
        return self.join(weights.softmax(-1) @ v)


class HeadByHead(Projections):
    """A softmax a head, in a loop; the weights stacked before they mix."""

    def forward(self, x):
        scores, v = self.scaled(x)
        maps = [scores[:, h].masked_fill(future(x.shape[1]), -torch.inf).softmax(-1) for h in range(self.num_heads)]
        return self.join(torch.stack(maps, dim=1) @ v)


class FixedContext(Projections):
    """Causal, but its mask is not cut to the sentence: no fewer tokens than context_length."""

    def __init__(self, d_in, d_out, num_heads, context_length):
        super().__init__(d_in, d_out, num_heads)
        self.register_buffer("mask", future(context_length))

    def forward(self, x):
        scores, v = self.scaled(x)
        return self.join(scores.masked_fill(self.mask, -torch.inf).softmax(-1) @ v)


class Convolution(nn.Module):
    """Each token and its two neighbours."""

    def __init__(self, d_in, d_out):
        super().__init__()
        self.conv = nn.Conv1d(d_in, d_out, 3, padding=1)

    def forward(self, x):
        return self.conv(x.transpose(1, 2)).transpose(1, 2)
