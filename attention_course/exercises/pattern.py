"""How a wrong result differs from the right one: in words that are true of every input on which it does."""

from functools import partial
from itertools import permutations

import torch

from .compare import close, difference


def common_pattern(given, expected, tolerance):
    """The most telling sentence that's true of every result that's wrong, or ""."""
    common = None
    for got, right in zip(given, expected, strict=True):
        if got.error is not None and right.error is None:
            return ""
        if got.error is None and right.error is None and difference(right.value, got.value, tolerance):
            true = patterns(right.value, got.value, tolerance)
            common = true if common is None else [each for each in common if each in true]
    return next(iter(common or []), "")


def patterns(expected, got, tolerance):
    """All sentences that are true of a wrong result, or of its first part that's wrong, from telling to vague."""
    if isinstance(expected, dict) and isinstance(got, dict):
        wrong = next(key for key, part in expected.items() if difference(part, got[key], tolerance))
        said = patterns(expected[wrong], got[wrong], tolerance)
        return [f"In `{wrong}`: {each[0].lower()}{each[1:]}" for each in said]
    if isinstance(expected, float) and isinstance(got, float):
        expected, got = torch.tensor(expected), torch.tensor(got)
    tensors = isinstance(expected, torch.Tensor) and isinstance(got, torch.Tensor)
    if not tensors or not got.numel() or got.is_complex() or got.isnan().any():
        return []
    right, yours = expected.detach().double(), got.detach().double()
    same = partial(close, tolerance=tolerance)
    if right.shape != yours.shape:
        return [said for said, true in of_shapes(right, yours, same) if true]
    far = ~torch.isclose(yours, right, rtol=tolerance, atol=tolerance, equal_nan=True)
    if not far.any():
        return ["Only its type isn't right: the numbers are right."]
    found = *of_all(right, yours, same), *of_places(far)
    return [said for said, true in found if true] + ["Wherever yours is wrong, it's 0."] * (not yours[far].any())


def of_shapes(right, yours, same):
    """What may be true of a tensor of another shape."""
    if yours.numel() == right.numel():
        orders = permutations(range(yours.dim())) if yours.dim() < 5 else []
        turned = any(same(yours.permute(order), right) for order in orders)
        kept = same(yours.flatten(), right.flatten())
        yield "Only its shape isn't right: the numbers and their order are right.", kept
        yield "These are the right numbers, with their dimensions in another order.", turned
    unlike = [n for n in range(yours.dim()) if yours.dim() == right.dim() and yours.shape[n] != right.shape[n]]
    for dim in unlike if len(unlike) == 1 else []:
        less, more = sorted((yours, right), key=torch.numel)
        size, where = less.shape[dim], f"along dimension {dim}"
        begins, ends = same(more.narrow(dim, 0, size), less), same(more.narrow(dim, more.shape[dim] - size, size), less)
        if less is yours:
            yield f"What's there is right, but {where} the last part is missing.", begins
            yield f"What's there is right, but {where} the first part is missing.", ends
        else:
            yield f"The right result is there, but {where} there's more after it.", begins
            yield f"The right result is there, but {where} there's more before it.", ends


def of_all(right, yours, same):
    """What may be true of all entries of a tensor of the same shape."""
    biggest = right.abs().argmax()
    one, other = yours.flatten()[biggest].item(), right.flatten()[biggest].item()
    yield "Every entry of yours is 0.", not yours.any()
    yield "All your entries are equal.", yours.numel() > 1 and same(yours, yours.flatten()[0].expand_as(yours))
    yield "Yours is upside down: it's 1 where ours is 0, and 0 where ours is 1.", same(yours, 1 - right)
    yield "Only the sign differs.", same(yours, -right)
    if other and one:
        scaled, size = same(yours, one / other * right), "large" if one > other else "small"
        yield f"All of yours is {one / other:.4g} times as large as it should be.", scaled
        yield "All of yours is the right result times one number, which isn't the same on each input.", scaled
        yield f"All of yours is {abs(one - other):.4g} too {size}.", same(yours, right + one - other)
    if right.dim() > 1 and right.shape[-1] > 1:
        yield "It's transposed: your rows are our columns.", same(yours.mT, right)
        by_row = same(yours, (yours / right)[..., :1] * right)
        yield "Each row of yours is the right one times a number of its own.", by_row
    for dim in range(right.dim()):
        parts = {right.dim() - 1: "columns" if dim else "entries", right.dim() - 2: "rows"}.get(dim, f"parts ({dim})")
        yield f"The right {parts} are there, but in another order.", is_reordered(right, yours, dim, same)
    yield "The right numbers are there, but in other places.", same(*(t.flatten().sort()[0] for t in (yours, right)))


def is_reordered(right, yours, dim, same):
    """Whether the parts along a dimension are there, each once, in another order."""
    left = [*yours.unbind(dim)]
    for part in right.unbind(dim) if 2 <= len(left) <= 12 else ():
        found = [n for n, each in enumerate(left) if same(each, part)]
        if not found:
            return False
        del left[found[0]]
    return not left


def of_places(far):
    """Where a tensor may be wrong. far: True there."""
    if far.dim() > 1 and far.shape[-1] == far.shape[-2] > 1:
        yield "Only entries above the diagonal are wrong.", not far.tril().any()
        yield "Only entries below the diagonal are wrong.", not far.triu().any()
        yield "Only the diagonal is wrong.", not (far.triu(1) | far.tril(-1)).any()
    for dim in reversed(range(far.dim())):
        part = {far.dim() - 1: "column" if far.dim() > 1 else "entry", far.dim() - 2: "row"}.get(dim, f"part ({dim})")
        wrong = far.movedim(dim, 0).reshape(far.shape[dim], -1).any(dim=1)
        yield f"Only the last {part} is wrong.", len(wrong) > 1 and not wrong[:-1].any()
        yield f"Only the first {part} is wrong.", len(wrong) > 1 and not wrong[1:].any()
