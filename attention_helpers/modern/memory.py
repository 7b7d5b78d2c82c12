"""What models keep of the past in place of all keys and values: one latent per token, or one state (notebook 12)."""

import torch
from torch import nn
from torch.nn import functional as F

from .positions import rope_frequencies, rotate


class LatentAttention(nn.Module):
    """Causal attention whose keys and values are made from one latent vector per token, but never written out.

    x: only the new tokens, (b, num_new, d_in); cache: what the previous call returned, or None. Returns (b, num_new,
    d_out), and the cache: latents (b, num_tokens, d_latent), normalized, and rotated keys (b, num_tokens, d_rope), both
    for all heads together. d_key, d_value: width of a head's keys and values; d_rope: of the part that rotates.
    W_key is absorbed into the queries and W_value into the output. DeepSeek's queries come from a latent, too.
    Source: DeepSeek-AI 2024, "DeepSeek-V2" (arXiv 2405.04434), section 2.1 and appendix C.
    """

    def __init__(  # d_latent and d_rope are what a token leaves in the cache
        self, d_in, d_out, num_heads, d_latent, d_key, d_value, d_rope
    ):
        super().__init__()
        self.num_heads = num_heads
        self.d_key = d_key
        self.frequencies = rope_frequencies(d_rope)
        # two parts per head
        self.W_query = nn.Linear(d_in, num_heads * (d_key + d_rope), bias=False)
        self.W_latent = nn.Linear(d_in, d_latent, bias=False)
        # divides by the root mean square
        self.latent_norm = nn.RMSNorm(d_latent, eps=1e-6)
        # for all heads together
        self.W_rotary_key = nn.Linear(d_in, d_rope, bias=False)
        self.W_key = nn.Linear(d_latent, num_heads * d_key, bias=False)
        self.W_value = nn.Linear(d_latent, num_heads * d_value, bias=False)
        self.out_proj = nn.Linear(num_heads * d_value, d_out, bias=False)

    def forward(self, x, cache=None):  # only new tokens, (b, num_new, d_in)
        past = 0 if cache is None else cache[0].shape[1]
        num_tokens = past + x.shape[1]
        positions = torch.arange(past, num_tokens, device=x.device)
        latents = self.latent_norm(self.W_latent(x))
        rotary_keys = rotate(self.W_rotary_key(x), positions, self.frequencies)
        if cache is not None:
            latents = torch.cat((cache[0], latents), dim=1)
            rotary_keys = torch.cat((cache[1], rotary_keys), dim=1)
        queries = self.W_query(x).unflatten(-1, (self.num_heads, -1))
        # (b, num_heads, num_new, d_key + d_rope)
        queries = queries.transpose(1, 2)
        plain = queries[..., : self.d_key]
        rotary = rotate(queries[..., self.d_key :], positions, self.frequencies)
        # (num_heads, d_key or d_value, d_latent)
        W_key = self.W_key.weight.unflatten(0, (self.num_heads, -1))
        W_value = self.W_value.weight.unflatten(0, (self.num_heads, -1))
        absorbed = plain @ W_key  # (b, num_heads, num_new, d_latent)
        # (b, num_heads, num_new, num_tokens), from the same for all heads
        scores = absorbed @ latents[:, None].mT
        scores = scores + rotary @ rotary_keys[:, None].mT
        scores = scores / queries.shape[-1] ** 0.5
        future = torch.arange(num_tokens, device=x.device) > positions[:, None]
        scores = scores.masked_fill(future, -torch.inf)
        weights = torch.softmax(scores, dim=-1)
        # absorbed: (b, num_heads, num_new, d_value)
        context = weights @ latents[:, None] @ W_value.mT
        output = self.out_proj(context.transpose(1, 2).flatten(2))
        return output, (latents, rotary_keys)


class GatedDeltaNet(nn.Module):
    """A layer whose heads each keep one state, overwritten by the delta rule and decaying; a gate scales what's read.

    x: only the new tokens, (b, num_new, d_in); state: what the previous call returned, or None. Returns (b, num_new,
    d_out), and the state (b, num_heads, d_key, d_value), however many tokens came, in float32 at least.
    Source: Yang et al. 2024, "Gated Delta Networks" (arXiv 2412.06464), section 3, without its convolution.
    """

    def __init__(self, d_in, d_out, num_heads, d_key, d_value):
        super().__init__()
        self.num_heads = num_heads
        self.W_query = nn.Linear(d_in, num_heads * d_key, bias=False)
        self.W_key = nn.Linear(d_in, num_heads * d_key, bias=False)
        self.W_value = nn.Linear(d_in, num_heads * d_value, bias=False)
        self.W_rate = nn.Linear(d_in, num_heads, bias=False)
        self.W_decay = nn.Linear(d_in, num_heads)
        self.W_gate = nn.Linear(d_in, num_heads * d_value, bias=False)
        self.norm = nn.RMSNorm(d_value, eps=1e-6)
        self.out_proj = nn.Linear(num_heads * d_value, d_out, bias=False)

    def split_heads(self, x):  # (b, num_new, num_heads * width)
        x = x.unflatten(-1, (self.num_heads, -1))
        return x.transpose(1, 2)  # (b, num_heads, num_new, width)

    def project(self, x):  # (b, num_heads, num_new, width) each
        queries = F.normalize(self.split_heads(self.W_query(x)), dim=-1)
        keys = F.normalize(self.split_heads(self.W_key(x)), dim=-1)  # of length 1
        values = self.split_heads(self.W_value(x))
        rates = self.split_heads(self.W_rate(x)).sigmoid()
        decays = self.split_heads(self.W_decay(x)).sigmoid()
        # silu(x) = x * sigmoid(x) can exceed 1
        gates = F.silu(self.split_heads(self.W_gate(x)))
        return queries, keys, values, rates, decays, gates

    def forward(self, x, state=None):  # only new tokens, (b, num_new, d_in)
        *parts, gates = self.project(x)
        # float32 at least: in bfloat16, many small changes would be lost
        wide = torch.promote_types(x.dtype, torch.float32)
        queries, keys, values, rates, decays = (part.to(wide) for part in parts)
        if state is None:  # (b, num_heads, d_key, d_value)
            state = torch.zeros_like(keys[:, :, :1].mT @ values[:, :, :1])
        reads = []
        for n in range(x.shape[1]):
            key = keys[:, :, n : n + 1]  # (b, num_heads, 1, d_key)
            state = decays[:, :, n : n + 1] * state
            missing = values[:, :, n : n + 1] - key @ state  # (b, num_heads, 1, d_value)
            state = state + rates[:, :, n : n + 1] * key.mT @ missing
            reads.append(queries[:, :, n : n + 1] @ state)
        context = self.norm(torch.cat(reads, dim=2).to(x.dtype)) * gates
        return self.out_proj(context.transpose(1, 2).flatten(2)), state
