"""Dropout that gives the same mask on every CPU."""

import torch
from torch import nn

from .checks import ANY_RANK, check_dropout, check_tensor


class Dropout(nn.Module):
    """In training, zero each entry with probability p and divide the others by 1 - p.

    In eval mode nothing changes.

    On Intel CPUs, some builds of torch draw nn.Dropout's mask from a separate generator, so the
    same seed gives different masks on different machines. Here the mask is a comparison of uniform
    float64 numbers, which always come from torch's own generator. If nn.Dropout uses that generator
    too, one seed gives both the same mask for a contiguous input; for any other memory layout, the
    mask here is drawn in index order.

    p: in [0, 1). generator: a torch.Generator to draw from, or None for torch's global one. At
    p = 0 or in eval mode, nothing is drawn. The mask is drawn on the generator's device (without
    one, on the input's; on the CPU if that has no float64, like Apple's mps) and then moved.
    Drawing it takes 8 bytes per entry. Shape: any, kept. Errors: ValueError or TypeError for p
    outside [0, 1) or an input that isn't a floating-point tensor.
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
