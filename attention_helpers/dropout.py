"""Dropout that gives the same mask on every CPU."""

import torch
from torch import nn

from .checks import ANY_RANK, check_dropout, check_tensor


class Dropout(nn.Module):
    """In training, zero each entry with probability p and divide the others by 1 - p.

    In eval mode nothing changes.

    Builds of torch have drawn nn.Dropout's mask from a generator of their own on Intel CPUs, so one
    seed gave two masks on two machines. Here the mask is one comparison of uniform float64 numbers,
    which has no such second path. For a contiguous input it is the mask that nn.Dropout draws from
    the same seed on the machines where that follows torch's own generator; an input whose memory is
    laid out otherwise gets its mask in index order.

    p: in [0, 1). generator: a torch.Generator to draw from, or None for torch's global one. Nothing
    is drawn at p = 0 or in eval. The mask is drawn on the generator's device if there is one, else
    on the input's, or on the CPU where the input's device has no float64 (Apple's mps), and then
    moved. While it is drawn it takes 8 bytes an entry. Shape: any, kept. Errors: ValueError or
    TypeError for p outside [0, 1) or an input that is no floating tensor.
    Source: Srivastava et al. 2014, "Dropout", section 10 (inverted scaling); mask issue: pytorch
    issue 121595.
    """

    def __init__(self, p, generator=None):
        super().__init__()
        self.p = check_dropout("p", p)
        if generator is not None and not isinstance(generator, torch.Generator):
            got = type(generator).__name__
            raise TypeError(f"generator must be a torch.Generator or None, got {got}")
        self.generator = generator

    def forward(self, x):
        check_tensor("x", x, ANY_RANK, "any")
        if not self.training or self.p == 0:
            return x
        device = self.generator.device if self.generator is not None else x.device
        if device.type == "mps":
            device = torch.device("cpu")
        draws = torch.rand(x.shape, dtype=torch.float64, device=device, generator=self.generator)
        keep = (draws < 1 - self.p).to(device=x.device, dtype=x.dtype)
        return x * keep.div_(1 - self.p)

    def extra_repr(self):
        return f"p={self.p}"
