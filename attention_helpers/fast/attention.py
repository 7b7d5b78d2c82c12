"""The same attention, faster: one product for queries, keys and values, no stored score matrix."""

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from ..checks import check_dropout, check_flag, check_heads, check_input, check_size
from ..layers import MultiHeadAttention

PARTS = "W_query", "W_key", "W_value"


class FusedMultiHeadAttention(nn.Module):
    """MultiHeadAttention in fewer, larger operations: the same result, without storing the scores.

    x: (b, num_tokens, d_in). Returns (b, num_tokens, d_out). The same seed gives the same initial
    weights as in MultiHeadAttention; W_qkv holds W_query, W_key and W_value, in this order. With
    dropout in training, results agree with MultiHeadAttention only in distribution; torch promises
    no more, though on a CPU the masks can be the same. On a CPU, dropout also makes torch store the
    complete weight matrix, so memory grows with the square of num_tokens.
    Errors: as in MultiHeadAttention.
    Source: Dao et al. 2022, "FlashAttention", algorithm 1.
    """

    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        self.d_in, self.d_out = check_size("d_in", d_in), check_size("d_out", d_out)
        self.context_length = check_size("context_length", context_length)
        self.num_heads = check_size("num_heads", num_heads)
        check_heads(d_out, num_heads)
        check_flag("qkv_bias", qkv_bias)
        self.head_dim = d_out // num_heads
        self.dropout = check_dropout("dropout", dropout)
        parts = [nn.Linear(d_in, d_out, bias=qkv_bias) for _ in PARTS]
        device = parts[0].weight.device
        self.W_qkv = nn.utils.skip_init(nn.Linear, d_in, 3 * d_out, bias=qkv_bias, device=device)
        self.out_proj = nn.Linear(d_out, d_out)
        self.join(parts)

    @torch.no_grad()
    def join(self, parts):
        """Copy the weights and biases of three layers into W_qkv, stacked by rows."""
        self.W_qkv.weight.copy_(torch.cat([part.weight for part in parts]))
        if self.W_qkv.bias is not None:
            self.W_qkv.bias.copy_(torch.cat([part.bias for part in parts]))

    def split_heads(self, x):
        """Queries, keys and values of x, (b, num_heads, num_tokens, head_dim) each."""
        b, num_tokens, _ = x.shape
        qkv = self.W_qkv(x).view(b, num_tokens, 3, self.num_heads, self.head_dim)
        return qkv.permute(2, 0, 3, 1, 4)  # (3, b, num_heads, num_tokens, head_dim)

    def forward(self, x):
        check_input(x, self.d_in, ranks=(3,), context_length=self.context_length, into=self.W_qkv)
        queries, keys, values = self.split_heads(x)
        p = self.dropout if self.training else 0.0
        context = scaled_dot_product_attention(queries, keys, values, dropout_p=p, is_causal=True)
        return self.out_proj(context.transpose(1, 2).reshape(*x.shape[:2], self.d_out))

    @classmethod
    @torch.no_grad()
    def from_split(cls, split):
        """The fused layer with exactly the weights, dropout, mode, device and dtype of a MultiHeadAttention.

        Errors: TypeError for any other kind of layer.
        """
        if not isinstance(split, MultiHeadAttention):
            raise TypeError(f"split must be a MultiHeadAttention, got {type(split).__name__}")
        sizes = split.d_in, split.d_out, split.context_length
        fused = cls(*sizes, split.dropout.p, split.num_heads, split.W_query.bias is not None)
        fused.to(split.W_query.weight)
        fused.join([getattr(split, name) for name in PARTS])
        fused.out_proj.load_state_dict(split.out_proj.state_dict())
        return fused.train(split.training)
