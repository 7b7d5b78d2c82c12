"""By which number does a layer multiply queries @ keys.T? We follow the plain numbers that its code multiplies with."""

import torch

from .lines import memory

TIMES = {"mul", "rmul", "imul", "multiply"}
OVER = {"div", "truediv", "itruediv", "divide", "true_divide"}
COPIES = {"contiguous", "reshape", "to", "float", "type", "type_as", "clone", "flatten", "repeat_interleave"}
PRODUCTS = {"matmul", "mm", "bmm", "einsum", "baddbmm"}
FUSED = "scaled_dot_product_attention"


class Scales:
    """For each tensor: by which number its queries or keys were multiplied, and once they're scores, their width.

    Where numbers change in another way (a norm, a rotation), queries and keys begin again with 1. A factor that's a
    tensor, such as a learned temperature, makes it unknown: None.
    """

    def __init__(self):
        self.found = {}  # id -> (factor, width)
        self.fused = None, None  # of the last scaled_dot_product_attention

    def of(self, tensor):
        return self.found.get(id(tensor), (1.0, None))

    def follow(self, name, args, kwargs, inputs, outputs):
        name = name.rstrip("_")
        if name == FUSED:
            self.fused = self.product(args[:2] or (kwargs["query"], kwargs["key"]), kwargs.get("scale"))
        elif name in PRODUCTS and len(inputs) > 1 and not any(each.requires_grad for each in inputs):
            self.multiply(name, args, kwargs, inputs, outputs[0])
        elif name in TIMES | OVER and len(args) > 1:
            self.times(args, name in OVER, outputs[0])
        else:
            known = [self.of(each) for each in inputs if id(each) in self.found]
            for output in outputs:
                if known and (known[0][1] or name in COPIES or (inputs and memory(inputs[0]) == memory(output))):
                    self.found[id(output)] = known[0]

    def product(self, operands, scale=None):
        (first, width), (second, other) = map(self.of, operands)
        if width or other:
            return None, None
        width = operands[0].shape[-1]
        factors = first, second, width**-0.5 if scale is None else scale
        return (None if None in factors else first * second * factors[2]), width

    def multiply(self, name, args, kwargs, inputs, output):
        """Queries times keys: their widths are what is summed over."""
        operands = inputs[-2:]
        factor, width = self.product(operands, kwargs.get("alpha", 1.0))
        if name == "einsum" and isinstance(args[0], str):
            letters, _, given = args[0].replace(" ", "").partition("->")
            first = letters.split(",")[0]
            summed = [n for letter, n in zip(first[::-1], operands[0].shape[::-1], strict=False) if letter not in given]
            width = summed[0] if len(summed) == 1 else None
        if width:
            self.found[id(output)] = factor, width

    def times(self, args, over, output):
        """A tensor times a number, or divided by it; what isn't a plain number leaves the factor unknown."""
        tensor, number = args[:2] if isinstance(args[0], torch.Tensor) and args[0].ndim else args[1::-1]
        factor, width = self.of(tensor)
        plain = number if isinstance(number, (int, float)) else None
        if isinstance(number, torch.Tensor) and number.numel() == 1 and not number.requires_grad:
            plain = number.item()
        known = factor is not None and plain and not (over and number is args[0])
        self.found[id(output)] = (factor / plain if over else factor * plain) if known else None, width
