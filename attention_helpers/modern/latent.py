"""Multi-head latent attention (MLA): what the cache keeps per token is one small vector, from which all heads read."""

import torch
from torch import nn

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
