"""Input checks that functions and layers share. Each error names the argument, its value and the rule."""

import math
import operator

import torch

ANY_RANK = range(65)  # torch allows at most 64 dimensions


def check_size(name, value, minimum=1):
    """Return `value` as an int of at least `minimum`; TypeError if it isn't a whole number, ValueError if too small."""
    if isinstance(value, bool):
        raise TypeError(f"{name} must be a whole number, got {value!r}")
    try:
        size = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be a whole number, got {value!r}") from None
    if size < minimum:
        raise ValueError(f"{name} must be at least {minimum}, got {size}")
    return size


def check_number(name, value):
    """Return `value` as a float; TypeError if it isn't a real number."""
    if isinstance(value, (bool, str)):
        raise TypeError(f"{name} must be a number, got {value!r}")
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError):  # torch raises the last for a tensor of several numbers
        raise TypeError(f"{name} must be a number, got {value!r}") from None


def check_dropout(name, value):
    """Return a dropout probability as a float in [0, 1)."""
    p = check_number(name, value)
    if not 0 <= p < 1:  # also false for NaN
        raise ValueError(f"{name} must be at least 0 and below 1, got {value!r}")
    return p


def check_flag(name, value):
    """Return `value`, which must be True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return value


def check_heads(d_out, num_heads):
    """ValueError unless num_heads divides d_out; the message lists the nearest numbers of heads that do."""
    if d_out % num_heads:
        small = [n for n in range(1, math.isqrt(d_out) + 1) if d_out % n == 0]  # a width of billions takes no time
        near = sorted({*small, *(d_out // n for n in small)}, key=lambda n: abs(n - num_heads))[:8]
        got, possible = f"num_heads={num_heads}, d_out={d_out}", ", ".join(map(str, sorted(near)))
        raise ValueError(f"num_heads must divide d_out: got {got}; possible here: {possible}")


def check_plain(name, value):
    """TypeError unless `value` is a tensor that's neither sparse nor nested."""
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, got {type(value).__name__}")
    if value.layout is not torch.strided or value.is_nested:
        kind = "a nested one" if value.is_nested else value.layout
        raise TypeError(f"{name} must be a plain tensor, got {kind}")


def check_tensor(name, value, ranks=None, layout="(..., num_tokens, d_in)"):
    """TypeError unless `value` is a plain floating-point tensor, ValueError unless its rank is one of `ranks`.

    ranks: without it, any rank from 2. layout: the shape that the error asks for. We refuse float8, because torch
    stores it but can't calculate with it.
    """
    check_plain(name, value)
    if not value.is_floating_point() or value.itemsize < 2:
        raise TypeError(f"{name} must hold floating-point numbers of at least 16 bits, got {value.dtype}")
    allowed = value.ndim >= 2 if ranks is None else value.ndim in ranks
    if not allowed:
        raise ValueError(f"{name} must have the shape {layout}, got {tuple(value.shape)}")


def check_cached(cache, new, kept):
    """Check that the keys and values of `kept` tokens in a cache fit the `new` keys, (b, heads, num_new, head_dim)."""
    for name, part in {"keys": cache.keys, "values": cache.values}.items():
        check_tensor(f"cache.{name}", part, ranks=(4,), layout="(b, num_kv_heads, kept, head_dim)")
        expected = *new.shape[:2], kept, new.shape[3]
        if part.shape != expected:
            raise ValueError(f"cache must hold {name} of shape {expected}, got {tuple(part.shape)}")
        if (part.dtype, part.device) != (new.dtype, new.device):
            wanted, got = (f"{each.dtype} on {each.device}" for each in (new, part))
            raise ValueError(f"cache must hold {name} like those of x, {wanted}, got {got}")


def check_input(x, d_in, ranks, into, context_length=None):
    """Check a layer's input x: its rank, width d_in, number of tokens, device and dtype.

    into: the matrix or nn.Linear that multiplies x. context_length: the most tokens that x can hold.
    """
    layout = f"(b, num_tokens, {d_in})" + (f" or (num_tokens, {d_in})" if 2 in ranks else "")
    check_tensor("x", x, ranks, layout)
    if x.shape[-1] != d_in:
        raise ValueError(f"x must have width d_in={d_in} in its last dimension, got {tuple(x.shape)}")
    if context_length is not None and x.shape[-2] > context_length:
        got = f"{x.shape[-2]} in {tuple(x.shape)}"
        raise ValueError(f"x must hold at most context_length={context_length} tokens, got {got}")
    weight = getattr(into, "weight", into)
    if x.device != weight.device:
        raise ValueError(f"x must be on the layer's device {weight.device}, got {x.device}")
    if x.dtype != weight.dtype and not autocast_is_on(x.device):
        numpy = " (numpy makes float64)" if x.dtype == torch.float64 else ""
        fix = f"write x.to({weight.dtype}), or layer.to({x.dtype})"
        raise TypeError(f"x must be of the layer's dtype {weight.dtype}, got {x.dtype}{numpy}: {fix}")


def check_alike(**tensors):
    """TypeError unless two tensors have the same dtype, ValueError unless they're on the same device.

    Under autocast, dtypes can differ, because torch converts them itself.
    """
    (first, a), (second, b) = tensors.items()
    if a.device != b.device:
        raise ValueError(f"{first} and {second} must be on one device, got {a.device} and {b.device}")
    if a.dtype != b.dtype and not autocast_is_on(a.device):
        fix = f"write {second}.to({first}.dtype), or the other way round"
        raise TypeError(f"{first} and {second} must have one dtype, got {a.dtype} and {b.dtype}: {fix}")


def autocast_is_on(device):
    """Whether torch may convert dtypes by itself, so that it's up to torch to say what it can't."""
    return device.type != "meta" and torch.is_autocast_enabled(device.type)  # autocast doesn't know "meta"


def check_token_ids(name, value, vocab_size, longest=math.inf, symbols=()):
    """Check an embedding's input: token ids (b, num_tokens, *symbols), whole numbers from 0 to vocab_size - 1.

    longest: the most tokens. symbols: further dimensions, if each token consists of several symbols.
    """
    check_plain(name, value)
    if value.dtype not in (torch.int64, torch.int32):
        raise TypeError(f"{name} must hold whole numbers, torch.int64 or torch.int32, got {value.dtype}")
    if value.ndim != 2 + len(symbols) or value.shape[2:] != symbols:
        layout = ", ".join(map(str, ("b", "num_tokens", *symbols)))
        raise ValueError(f"{name} must have the shape ({layout}), got {tuple(value.shape)}")
    if value.shape[1] > longest:
        raise ValueError(f"{name} must hold at most {longest} tokens, got {value.shape[1]} in {tuple(value.shape)}")
    wrong = [] if value.is_meta else value[(value < 0) | (value >= vocab_size)].tolist()
    if wrong:
        raise ValueError(f"{name} must hold token ids from 0 to {vocab_size - 1}, got {wrong[0]}")


def check_mask(mask, scores):
    """TypeError for a mask that isn't boolean (would a 1 hide or show?), ValueError for one that doesn't fit scores."""
    if not isinstance(mask, torch.Tensor) or mask.dtype != torch.bool:
        kind = mask.dtype if isinstance(mask, torch.Tensor) else type(mask).__name__
        raise TypeError(f"mask must be a boolean tensor, True where a key is hidden, got {kind}")
    sizes = zip(reversed(mask.shape), reversed(scores.shape), strict=False)
    if mask.ndim > scores.ndim or any(m not in (1, s) for m, s in sizes):
        raise ValueError(f"mask must broadcast to scores {tuple(scores.shape)}, got {tuple(mask.shape)}")
    if mask.device != scores.device:
        raise ValueError(f"mask must be on the device of scores, {scores.device}, got {mask.device}")


def check_finite(name, value):
    """Return `value` as a finite float."""
    number = check_number(name, value)
    if not math.isfinite(number):
        raise ValueError(f"{name} must be finite, got {value!r}")
    return number
