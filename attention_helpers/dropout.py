"""Dropout that gives the same mask on every CPU."""

import torch
from torch import nn


class Dropout(nn.Module):
    """In training, zero each entry with probability p and divide the others by 1 - p. In eval mode nothing changes.

    On Intel CPUs, some builds of torch draw nn.Dropout's mask from a separate generator, so the same seed gives
    different masks on different machines. Here the mask is a comparison of uniform float64 numbers, which always come
    from torch's own generator. If nn.Dropout uses that generator too, one seed gives both the same mask.

    p: in [0, 1), or ValueError. generator: a torch.Generator to draw from, or None for torch's global one. The mask is
    drawn on the generator's device (without one, on the input's; on the CPU for Apple's mps, which has no float64).
    Shape: any, kept. Source: Srivastava et al. 2014, "Dropout", section 10 (inverted scaling); pytorch issue 121595.
    """

    def __init__(self, p, generator=None):
        super().__init__()
        if not 0 <= p < 1:  # nn.Dropout takes 1, which leaves nothing
            raise ValueError(f"p must be at least 0 and below 1, got {p}")
        self.p = p
        self.generator = generator

    def forward(self, x):
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


def draw_dropout_from(model, generator=None):
    """Put a Dropout in the place of each nn.Dropout of a model, so that this generator draws its masks. Returns it."""
    for module in list(model.modules()):
        for name, part in module.named_children():
            if isinstance(part, (nn.Dropout, Dropout)):
                setattr(module, name, Dropout(part.p, generator).train(part.training))
    return model
