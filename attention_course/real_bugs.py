"""Notebook 15's suspects, ten layers with bugs that people really had, and check_attention, which finds most of them.

Each suspect is a Heads with one step changed. None of them says what's wrong: the page does.
"""

import copy
import inspect
import warnings

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

    def join_heads(self, context):
        return context.transpose(1, 2).flatten(2)  # (b, num_tokens, d_out)

    def forward(self, x):  # (b, num_tokens, d_in)
        context = self.attend(*self.project(x))
        return self.out_proj(self.join_heads(context))


class SuspectA(Heads):
    def attend(self, queries, keys, values):
        n = keys.shape[2]
        future = self.mask[:n, :n]  # True: a later token
        return F.scaled_dot_product_attention(queries, keys, values, future)


class SuspectB(Heads):
    def masked_scores(self, queries, keys):
        if not self.training:
            return super().masked_scores(queries, keys)
        return queries @ keys.mT / self.head_dim**0.5


class SuspectC(Heads):
    def split_heads(self, x):  # (b, num_tokens, d_out)
        b, n, d_out = x.shape
        return x.view(b, self.num_heads, n, self.head_dim)

    def join_heads(self, context):
        b, num_heads, n, head_dim = context.shape
        return context.reshape(b, n, num_heads * head_dim)


class SuspectD(Heads):
    def attend(self, queries, keys, values):
        weights = torch.softmax(self.masked_scores(queries, keys), dim=-1)
        return F.dropout(weights, self.dropout.p) @ values


class SuspectE(Heads):
    def attend(self, queries, keys, values):
        sdpa = F.scaled_dot_product_attention
        return sdpa(queries, keys, values, is_causal=True)

    def forward(self, x, cache=None):  # x: only new tokens
        queries, keys, values = self.project(x)
        if cache is not None:
            keys = torch.cat((cache[0], keys), dim=2)
            values = torch.cat((cache[1], values), dim=2)
        context = self.join_heads(self.attend(queries, keys, values))
        return self.out_proj(context), (keys, values)


class SuspectF(Heads):
    def attend(self, queries, keys, values):
        weights = torch.softmax(self.masked_scores(queries, keys), dim=2)
        return self.dropout(weights) @ values


class SuspectG(Heads):
    def masked_scores(self, queries, keys):
        n, d_in = keys.shape[2], self.W_key.in_features
        scores = queries @ keys.mT / d_in**0.5
        return scores.masked_fill(self.mask[:n, :n], -torch.inf)


class SuspectH(Heads):  # two query heads share a KV head
    def __init__(self, d_in, d_out, *others):
        super().__init__(d_in, d_out, *others)
        self.W_query = nn.Linear(d_in, 2 * d_out, bias=False)
        self.out_proj = nn.Linear(2 * d_out, d_out)

    def split_heads(self, x):  # (b, num_tokens, heads * head_dim)
        return x.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)

    def attend(self, queries, keys, values):
        groups = queries.shape[1] // keys.shape[1]
        keys = keys.repeat(1, groups, 1, 1)
        values = values.repeat(1, groups, 1, 1)
        return super().attend(queries, keys, values)


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

    def forward(self, x, padding=0):  # how many to ignore
        place = torch.arange(x.shape[1])
        queries, keys, values = self.project(x + self.positions(place))
        scores = self.masked_scores(queries, keys)
        scores = scores.masked_fill(place < padding, -1e9)
        weights = torch.softmax(scores, dim=-1)
        return self.out_proj(self.join_heads(weights @ values))


FIRST_SUSPECTS = [SuspectA, SuspectB, SuspectC, SuspectD, SuspectE, SuspectF]
SUSPECTS = [*FIRST_SUSPECTS, SuspectG, SuspectH, SuspectI, SuspectJ]
REPAIRS = {  # what's wrong in a suspect's text, and what's right; A, C and E are exercises
    SuspectB: ("if not self.training:\n            return", "return"),
    SuspectD: ("F.dropout(weights, self.dropout.p)", "self.dropout(weights)"),
    SuspectF: ("dim=2", "dim=-1"),
    SuspectG: ("d_in**0.5", "self.head_dim**0.5"),
    SuspectH: (".repeat(1, groups, 1, 1)", ".repeat_interleave(groups, dim=1)"),
    SuspectI: ('self.register_buffer("frequencies", frequencies)', "self.frequencies = frequencies"),
    SuspectJ: ("self.positions(place)", "self.positions((place - padding).clamp(min=0))"),
}


def repair(suspect):
    """The suspect's class with its wrong piece of text replaced: FixedB for SuspectB, and so on."""
    [(ours, pieces)] = [(ours, pieces) for ours, pieces in REPAIRS.items() if ours.__name__ == suspect.__name__]
    text = inspect.getsource(ours).replace(*pieces).replace("class Suspect", "class Fixed")
    names = dict(globals())
    exec(text, names)
    return names[ours.__name__.replace("Suspect", "Fixed")]


def check_attention(layer, x=None, causal=True):
    """What's wrong with a layer, as a list; x: (1, num_tokens, d_in)."""
    layer = copy.deepcopy(layer).eval()
    matrices = [each for each in layer.parameters() if each.ndim == 2]
    if x is None:  # first matrix: (d_out, d_in)
        x = torch.randn(1, 512, matrices[0].shape[-1]).to(matrices[0])
    n, few = x.shape[1], min(x.shape[1], 12)
    passed = {}  # by fault

    def run(x, model=layer, seed=0):
        torch.manual_seed(seed)
        output = model(x)
        if isinstance(output, dict):
            output = tuple(output.values())
        return output[0] if isinstance(output, tuple) else output

    def close(a, b, limit=1e-4):  # False for NaN
        return (a - b).abs().max() <= limit * b.abs().max()

    alone = run(x)
    passed["two calls differ in eval mode"] = close(run(x, seed=1), alone)
    for mode in [True, False] if causal else []:
        same = [True]
        for cut in {1, n // 2, n - 1} - {0, n}:  # blocks leak inside
            future = torch.cat((x[:, :cut], -x[:, cut:]), dim=1)
            rows = [run(y, layer.train(mode))[:, :cut] for y in (future, x)]
            same.append(close(*rows))
        passed[f"reads the future (training: {mode})"] = all(same)
    copies = (x[:, :few] / 100).expand(few, -1, -1)  # no weight near 0
    # copy j with token j negated
    changed = copies * (1 - 2 * torch.eye(few).to(x)[..., None])
    moves = (run(changed) - run(copies)).abs().amax(dim=-1)
    reads = moves > 1e-6 * run(copies).abs().max()
    passed["a token doesn't read itself"] = reads.diagonal().all()
    passed["doesn't read the token before"] = reads.diagonal(1).all()
    back = reads[1:, 1:].diagonal(2)  # a window may be shorter
    passed["only some tokens read two back"] = back.all() or not back.any()
    with torch.enable_grad():  # none: unused, detached, or uniform weights
        loss = run(x).square().sum()
        grads = torch.autograd.grad(loss, matrices, allow_unused=True)
    learns = all(grad is not None and grad.any() for grad in grads)
    passed["a matrix gets no gradient"] = learns
    output = layer(x[:, :-3])
    if isinstance(output, tuple) and isinstance(output[1], tuple):
        rows, _ = layer(x[:, -3:], output[1])
        passed["a cache changes rows"] = close(rows, alone[:, -3:])
    else:  # in a dictionary, by keyword, or none at all
        warnings.warn("found no tuple of a cache: tested none", stacklevel=2)
    # parameters as they were, buffers rounded
    rounded = copy.deepcopy(layer).bfloat16().to(x.dtype)
    rounded.load_state_dict(dict(layer.named_parameters()), strict=False)
    same = close(run(10 * x, rounded), run(10 * x), limit=0.1)
    passed["10 x overflows, or rounded buffers move rows"] = same
    draws = run(x[:, :few].expand(4000, -1, -1), layer.train()).mean(dim=0)
    average = run(x[:, :few], layer.eval())[0]
    passed["training has another mean"] = close(draws, average, limit=0.1)
    return [fault for fault, absent in passed.items() if not absent]
