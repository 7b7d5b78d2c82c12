"""`steps` costs nothing: forward keeps no more memory than a textbook forward of the same layer."""

import pytest
import torch
from sizes import Sizes, build
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

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


class Peak(TorchDispatchMode):
    """The most bytes that results of operations held at once."""

    def __init__(self):
        super().__init__()
        self.alive, self.peak = {}, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                storage = tensor.untyped_storage()
                self.alive[storage._cdata] = (StorageWeakRef(storage), storage.nbytes())
        self.peak = max(self.peak, self.now())
        return result

    def now(self):
        self.alive = {key: entry for key, entry in self.alive.items() if not entry[0].expired()}
        return sum(size for _, size in self.alive.values())


def peak_and_kept_bytes(layer, x):
    """The most bytes held during forward, and the bytes that are still held after it."""
    with Peak() as peak:
        layer(x)
    return peak.peak, peak.now()


@pytest.mark.parametrize("p", [0.0, 0.5])
def test_saves_no_more_for_backward_than_a_textbook_forward(p):
    layer, x = build("MultiHeadAttention", SIZES, dropout=p), SIZES.x(torch.float32)
    torch.manual_seed(0)
    expected = Textbook(layer, p)(x)
    torch.manual_seed(0)
    torch.testing.assert_close(layer(x), expected)  # the same layer, so the comparison is fair
    assert 0 < saved_bytes(layer, x) <= saved_bytes(Textbook(layer, p), x)


@pytest.mark.parametrize("grad", [True, False])
def test_needs_and_keeps_no_more_than_a_textbook_forward(grad):
    layer, x = build("MultiHeadAttention", SIZES), SIZES.x(torch.float32)
    with torch.set_grad_enabled(grad):
        peak, kept = peak_and_kept_bytes(layer, x)
        textbook_peak, textbook_kept = peak_and_kept_bytes(Textbook(layer, 0.0), x)
    assert 0 < peak <= textbook_peak
    assert kept <= textbook_kept
