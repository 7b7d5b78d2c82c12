"""By which number does a layer multiply queries @ keys.T? We compare the numbers before and after its operations."""

from .maps import FUSED, PRODUCTS


def scales_of(operations):
    """For each softmax: (factor of queries @ keys.T, width of the queries, number of tables), where we can tell.

    A factor begins with 1 after a projection, a norm or a rotation, which change the proportions of numbers.
    """
    found = []
    for end, softmax in enumerate(operations):
        product, before, size = softmax, operations[:end], softmax.made.numel()
        if softmax.name == "softmax":  # perhaps with a key more than the product has
            sizes = [each.made.numel() * (each.name in PRODUCTS) for each in before]
            before = before[: max((n for n, each in enumerate(sizes) if size / 2 < each <= size), default=0)]
            product = operations[len(before)]
        if softmax.name not in ("softmax", FUSED) or product.name not in (FUSED, *PRODUCTS):
            continue
        operands = product.inputs[:2] if product.name == FUSED else product.inputs[-2:]
        if any(each.requires_grad or not each.is_floating_point() for each in operands):
            continue
        width, later = operands[0].shape[-1], operations[len(before) : end][::-1]
        if product.name == FUSED:
            factor = product.options.get("scale") or width**-0.5
        else:
            factor = next(filter(None, (ratio(each.made, product.made) for each in later)), 1.0)
        for operand in operands:
            made = (ratio(operand, each, True) for op in before for each in (*op.inputs, op.made))
            factor *= next(filter(None, made), 1.0)
        found.append((factor, width, softmax.made.shape[:-2].numel()))
    return found


def ratio(after, before, in_any_order=False):
    """By which number most entries of a tensor were multiplied; None if by several."""
    if after.numel() != before.numel() or not before.is_floating_point():
        return None
    after, before = (each.float().flatten() for each in (after, before))
    if in_any_order:
        after, before = after.sort()[0], before.sort()[0]
    ratios = (after / before).nan_to_num(0.0, 0.0, 0.0)
    near = (ratios - ratios.median()).abs() <= 1e-3 * ratios.median().abs()
    return ratios.median().item() if near.float().mean() > 0.5 else None
