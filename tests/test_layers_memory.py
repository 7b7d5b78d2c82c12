"""`steps` costs nothing: forward keeps no more memory than a textbook forward of the same layer."""

import pytest
import torch
from sizes import Sizes, build
from torch import nn

SIZES = Sizes(2, 32, 0, 16, 4, 4, False, 0)


class Textbook(nn.Module):
    """MultiHeadAttention in the widely used form, all in one forward, using our layer's modules."""

    def __init__(self, ours, p):
        super().__init__()
        self.ours, self.dropout = ours, nn.Dropout(p)

    def forward(self, x):
        ours = self.ours
        b, num_tokens, _ = x.shape
        keys = ours.W_key(x).view(b, num_tokens, ours.num_heads, ours.head_dim).transpose(1, 2)
        queries = ours.W_query(x).view(b, num_tokens, ours.num_heads, ours.head_dim).transpose(1, 2)
        values = ours.W_value(x).view(b, num_tokens, ours.num_heads, ours.head_dim).transpose(1, 2)
        scores = queries @ keys.transpose(2, 3)
        scores.masked_fill_(ours.mask[:num_tokens, :num_tokens], -torch.inf)
        weights = self.dropout(torch.softmax(scores / keys.shape[-1] ** 0.5, dim=-1))
        context = (weights @ values).transpose(1, 2).contiguous().view(b, num_tokens, ours.d_out)
        return ours.out_proj(context)


def saved_bytes(layer, x):
    """Bytes kept for backward, counting each storage once."""
    storages = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage  # a strong reference, so that no address is reused
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        layer(x)
    return sum(storage.nbytes() for storage in storages.values())


@pytest.mark.parametrize("p", [0.0, 0.5])
def test_saves_no_more_for_backward_than_a_textbook_forward(p):
    layer, x = build("MultiHeadAttention", SIZES, dropout=p), SIZES.x(torch.float32)
    torch.manual_seed(0)
    expected = Textbook(layer, p)(x)
    torch.manual_seed(0)
    torch.testing.assert_close(layer(x), expected)  # the same layer, so the comparison is fair
    assert 0 < saved_bytes(layer, x) <= saved_bytes(Textbook(layer, p), x)
