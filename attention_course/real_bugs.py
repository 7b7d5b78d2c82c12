"""Notebook 15's suspects, ten layers with bugs that people really had, and check_attention, which finds most of them.

Each suspect is a Heads with one step changed. None of them says what's wrong: the page does.
"""

import copy

import torch
from torch import nn
from torch.nn import functional as F

from attention_helpers import MultiHeadAttention
from attention_helpers.modern.positions import rope_frequencies, rotate


class Heads(MultiHeadAttention):
    """MultiHeadAttention in four steps, so that a subclass can change one of them."""

    def project(self, x):  # (b, num_heads, num_tokens, head_dim) each
        layers = self.W_query, self.W_key, self.W_value
        return [self.split_heads(layer(x)) for layer in layers]

    def masked_scores(self, queries, keys):
        n = keys.shape[2]
        scores = queries @ keys.mT / self.head_dim**0.5
        return scores.masked_fill(self.mask[:n, :n], -torch.inf)

    def attend(self, queries, keys, values):
        weights = torch.softmax(self.masked_scores(queries, keys), dim=-1)
        return self.dropout(weights) @ values

    def join_heads(self, context):  # (b, num_heads, num_tokens, head_dim)
        return context.transpose(1, 2).flatten(2)  # (b, num_tokens, d_out)

    def forward(self, x):  # (b, num_tokens, d_in)
        context = self.attend(*self.project(x))
        return self.out_proj(self.join_heads(context))


class SuspectA(Heads):
    def attend(self, queries, keys, values):
        n = keys.shape[2]
        future = self.mask[:n, :n]  # True: a later token
        sdpa = F.scaled_dot_product_attention
        return sdpa(queries, keys, values, attn_mask=future)


class SuspectB(Heads):
    def attend(self, queries, keys, values):
        scores = queries @ keys.mT / self.head_dim**0.5
        if not self.training:
            n = keys.shape[2]
            future = self.mask[:n, :n]
            scores = scores.masked_fill(future, -torch.inf)
        return torch.softmax(scores, dim=-1) @ values


class SuspectC(Heads):
    def split_heads(self, x):  # (b, num_tokens, d_out)
        b, n, d_out = x.shape
        return x.view(b, self.num_heads, n, self.head_dim)

    def join_heads(self, context):
        b, num_heads, n, head_dim = context.shape
        return context.reshape(b, n, num_heads * head_dim)


class SuspectD(Heads):
    def attend(self, queries, keys, values):
        scores = self.masked_scores(queries, keys)
        weights = torch.softmax(scores, dim=-1)
        return F.dropout(weights, self.dropout.p) @ values


class SuspectE(Heads):
    def forward(self, x, cache=None):  # x: only new tokens
        queries, keys, values = self.project(x)
        if cache is not None:
            keys = torch.cat((cache[0], keys), dim=2)
            values = torch.cat((cache[1], values), dim=2)
        sdpa = F.scaled_dot_product_attention
        context = sdpa(queries, keys, values, is_causal=True)
        output = self.out_proj(self.join_heads(context))
        return output, (keys, values)


class SuspectF(Heads):
    def attend(self, queries, keys, values):
        scores = self.masked_scores(queries, keys)
        return torch.softmax(scores, dim=2) @ values


class SuspectG(Heads):
    def attend(self, queries, keys, values):
        n, d_in = keys.shape[2], self.W_key.in_features
        scores = queries @ keys.mT / d_in**0.5
        scores = scores.masked_fill(self.mask[:n, :n], -torch.inf)
        return torch.softmax(scores, dim=-1) @ values


class SuspectH(Heads):
    def attend(self, queries, keys, values):
        scores = self.masked_scores(queries, keys)
        weights = torch.softmax(scores, dim=-1)
        p = self.dropout.p
        if self.training and p > 0:
            keep = torch.rand_like(weights) > p
            weights = weights * keep / p
        return weights @ values


class SuspectI(Heads):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        frequencies = rope_frequencies(self.head_dim).float()
        self.register_buffer("frequencies", frequencies)

    def attend(self, queries, keys, values):
        positions = torch.arange(keys.shape[2])
        queries = rotate(queries, positions, self.frequencies)
        keys = rotate(keys, positions, self.frequencies)
        return super().attend(queries, keys, values)


class SuspectJ(Heads):
    def __init__(self, d_in, d_out, context_length, *others):
        super().__init__(d_in, d_out, context_length, *others)
        self.positions = nn.Embedding(context_length, d_in)

    def forward(self, x, padding=0):  # tokens to ignore: (b, 1)
        place = torch.arange(x.shape[1])
        x = x + self.positions(place)
        queries, keys, values = self.project(x)
        scores = self.masked_scores(queries, keys)
        ignored = (place < padding)[..., None, None, :]
        scores = scores.masked_fill(ignored, -torch.inf)
        # padding's own rows see nothing: NaN
        weights = torch.softmax(scores, dim=-1).nan_to_num()
        return self.out_proj(self.join_heads(weights @ values))


FIRST_SUSPECTS = [SuspectA, SuspectB, SuspectC, SuspectD, SuspectE, SuspectF]
SUSPECTS = [*FIRST_SUSPECTS, SuspectG, SuspectH, SuspectI, SuspectJ]


def check_attention(layer, x=None, causal=True):
    """What's wrong with a layer, as a list; x: (1, num_tokens, d_in)."""
    if x is None:
        x = torch.randn(1, 512, next(layer.parameters()).shape[-1])
    layer = copy.deepcopy(layer).eval()
    noise = torch.randn_like(x)
    half = x.shape[1] // 2
    found = []

    def run(x, model=layer, seed=0):
        torch.manual_seed(seed)
        output = model(x)
        return output[0] if isinstance(output, tuple) else output

    def expect(words, a, b, most=1e-4, least=0.0):
        gap = (a - b).abs().max() / b.abs().max()
        if not least <= gap <= most:  # nor is NaN
            found.append(words)

    alone, few = run(x), run(x[:, :6])
    expect("two calls differ in eval mode", run(x, seed=1), alone)
    expect("a batch changes rows", run(torch.cat((noise, x)))[1:], alone)
    future = torch.cat((x[:, :half], noise[:, half:]), dim=1)
    for mode in [True, False] if causal else []:
        layer.train(mode)
        rows = run(future)[:, :half], run(x)[:, :half]
        expect(f"a row reads the future (training: {mode})", *rows)
    before = torch.cat((x[:, : half - 1], noise[:, :1], x[:, half:]), dim=1)
    rows = run(before / 100)[:, half], run(x / 100)[:, half]
    expect("a row doesn't read the token before it", *rows, torch.inf, 1e-6)
    output = layer(x[:, :-1])
    if isinstance(output, tuple) and isinstance(output[1], tuple):
        last = layer(x[:, -1:], output[1])[0]
        expect("a cache changes rows", last, alone[:, -1:])
    rounded = copy.deepcopy(layer).bfloat16().to(x.dtype)
    rounded.load_state_dict(dict(layer.named_parameters()), strict=False)
    expect("rounded buffers move rows", run(10 * x, rounded), run(10 * x), 0.1)
    draws = run(x[:, :6].expand(4000, -1, -1), layer.train())
    expect("training has another mean", draws.mean(dim=0), few[0], 0.2)
    return found
