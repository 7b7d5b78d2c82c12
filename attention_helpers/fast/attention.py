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


class TorchAttention(nn.Module):
    """A causal nn.MultiheadAttention with the weights of a MultiHeadAttention, called in the fastest correct way.

    x: (b, num_tokens, d_in) with d_in = d_out, as torch's layer requires. Returns (b, num_tokens, d_out). It always
    has biases for queries, keys and values; if split has none, they are 0.
    Errors: TypeError for any other kind of layer; ValueError if d_in isn't d_out.
    """

    def __init__(self, split):
        super().__init__()
        if not isinstance(split, MultiHeadAttention):
            raise TypeError(f"split must be a MultiHeadAttention, got {type(split).__name__}")
        if split.d_in != split.d_out:
            raise ValueError(f"d_in must equal d_out for torch's layer, got d_in={split.d_in}, d_out={split.d_out}")
        self.attention = nn.MultiheadAttention(split.d_out, split.num_heads, batch_first=True)
        self.attention.to(split.W_query.weight)
        three = split.W_query, split.W_key, split.W_value
        with torch.no_grad():
            self.attention.in_proj_weight.copy_(torch.cat([linear.weight for linear in three]))
            self.attention.in_proj_bias.zero_()
            if split.W_query.bias is not None:
                self.attention.in_proj_bias.copy_(torch.cat([linear.bias for linear in three]))
        self.attention.out_proj.load_state_dict(split.out_proj.state_dict())
        hide = nn.Transformer.generate_square_subsequent_mask(split.context_length)
        self.register_buffer("hide", hide.to(split.W_query.weight), persistent=False)

    def forward(self, x):
        hide = self.hide[: x.shape[1], : x.shape[1]]  # a float mask, because a boolean one takes a slower path
        return self.attention(x, x, x, attn_mask=hide, is_causal=True, need_weights=False)[0]
