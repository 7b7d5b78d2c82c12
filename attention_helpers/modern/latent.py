"""Multi-head latent attention (MLA): what the cache keeps per token is one small vector, from which all heads read."""

from typing import NamedTuple

import torch
from torch import nn

from ..checks import check_input, check_size
from ..core import attention_weights, context_vectors
from .parts import window_mask
from .positions import rope_frequencies, rotate


class LatentCache(NamedTuple):
    """What MLA keeps of each token: d_latent + d_rope numbers for all heads together."""

    latents: torch.Tensor  # (b, num_tokens, d_latent), normalized
    rotary_keys: torch.Tensor  # (b, num_tokens, d_rope), rotated, shared by all heads


class LatentAttention(nn.Module):
    """Causal attention whose keys and values are made from one latent vector per token.

    x: (b, num_tokens, d_in). Returns (b, num_tokens, d_out). d_latent: width of the latent; d_key, d_value: of each
    head's keys and values made from it; d_rope: of the part of queries and keys that rotates, one key for all heads.
    DeepSeek's queries also come from a latent, which saves memory in training only.
    Errors: as in SelfAttention_v1; also ValueError for an odd d_rope or an x without a token.
    Source: DeepSeek-AI 2024, "DeepSeek-V2" (arXiv 2405.04434), section 2.1.
    """

    def __init__(self, d_in, d_out, num_heads, d_latent, d_key, d_value, d_rope):
        super().__init__()
        self.d_in, self.d_out = check_size("d_in", d_in), check_size("d_out", d_out)
        self.num_heads, self.d_latent = check_size("num_heads", num_heads), check_size("d_latent", d_latent)
        self.d_key, self.d_value = check_size("d_key", d_key), check_size("d_value", d_value)
        self.d_rope = check_size("d_rope", d_rope)
        self.scale, self.frequencies = (d_key + d_rope) ** -0.5, rope_frequencies(d_rope)
        self.W_query = nn.Linear(d_in, num_heads * (d_key + d_rope), bias=False)
        self.W_latent = nn.Linear(d_in, d_latent, bias=False)
        self.latent_norm = nn.RMSNorm(d_latent, eps=1e-6)
        self.W_rotary_key = nn.Linear(d_in, d_rope, bias=False)
        self.W_key = nn.Linear(d_latent, num_heads * d_key, bias=False)
        self.W_value = nn.Linear(d_latent, num_heads * d_value, bias=False)
        self.out_proj = nn.Linear(num_heads * d_value, d_out, bias=False)

    def project(self, x, past=0):
        """Queries in two parts, (b, num_heads, num_tokens, d_key and d_rope), and what the cache keeps of x."""
        check_input(x, self.d_in, ranks=(3,), into=self.W_latent)
        positions = torch.arange(past, past + x.shape[1], device=x.device)
        queries = self.W_query(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        plain, rotary = queries.split((self.d_key, self.d_rope), dim=-1)
        rotary = rotate(rotary, positions, self.frequencies)
        rotary_keys = rotate(self.W_rotary_key(x), positions, self.frequencies)
        return plain, rotary, LatentCache(self.latent_norm(self.W_latent(x)), rotary_keys)

    def forward(self, x):
        """Keys and values are made from all latents first: fewer products per score, for training and prefill."""
        plain, rotary, cache = self.project(x)
        keys = self.W_key(cache.latents).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        values = self.W_value(cache.latents).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        weights = self.weights(plain @ keys.mT, rotary, cache)  # (b, num_heads, num_tokens, num_tokens)
        context = context_vectors(weights, values)  # (b, num_heads, num_tokens, d_value)
        return self.out_proj(context.transpose(1, 2).flatten(2))

    def step(self, x, cache=None):
        """The output for the tokens x after those in the cache, and the extended cache: no key or value is made.

        W_key is absorbed into the queries and W_value into the output, so that all heads read the
        latents themselves. A score then takes d_latent + d_rope products instead of d_key + d_rope.
        Source: as for the class, section 2.1.2 and appendix C.
        """
        if not isinstance(cache, LatentCache | None):
            raise TypeError(f"cache must be a LatentCache that step returned, or None, got {type(cache).__name__}")
        plain, rotary, new = self.project(x, 0 if cache is None else cache.latents.shape[1])
        if cache is not None:
            new = LatentCache(*(torch.cat(parts, dim=1) for parts in zip(cache, new, strict=True)))
        key_rows = self.W_key.weight.unflatten(0, (self.num_heads, -1))  # (num_heads, d_key, d_latent)
        value_rows = self.W_value.weight.unflatten(0, (self.num_heads, -1))  # (num_heads, d_value, d_latent)
        latents = new.latents[:, None]  # (b, 1, num_keys, d_latent), the same for all heads
        weights = self.weights(plain @ key_rows @ latents.mT, rotary, new)  # (b, num_heads, num_tokens, num_keys)
        context = weights @ latents @ value_rows.mT  # (b, num_heads, num_tokens, d_value)
        return self.out_proj(context.transpose(1, 2).flatten(2)), new

    def weights(self, scores, rotary, cache):
        """Softmax of both parts' scores, with the future hidden."""
        scores = scores + rotary @ cache.rotary_keys[:, None].mT
        num_tokens, num_keys = scores.shape[-2:]
        hide = window_mask(num_tokens, num_keys, num_keys - num_tokens, scores.device)
        return attention_weights(scores, hide, self.scale)
