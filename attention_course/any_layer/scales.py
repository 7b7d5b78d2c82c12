"""By which number does a layer multiply queries @ keys.T? We compare the numbers before and after its operations."""

PRODUCTS = {"matmul", "mm", "bmm", "einsum", "baddbmm"}
FUSED = "scaled_dot_product_attention"


def scales_of(operations):
    """For each softmax: (factor of queries @ keys.T, width of the queries, number of tables), where we can tell.

    A factor begins with 1 after a projection, a norm or a rotation, which change the proportions of numbers.
    """
    found = []
    for end, softmax in enumerate(operations):
        if softmax.name not in ("softmax", FUSED):
            continue
        size, start = softmax.inputs[0].numel(), end
        if softmax.name != FUSED:  # perhaps with a key more than the product has
            products = (n for n in range(end) if operations[n].name in PRODUCTS)
            start = max((n for n in products if size / 2 < operations[n].made.numel() <= size), default=0)
        operands = operations[start].inputs[: 2 if start == end else None][-2:]
        if len(operands) < 2 or any(each.requires_grad or not each.is_floating_point() for each in operands):
            continue
        width = summed_over(operations[start], operands[0])
        factor = softmax.kwargs.get("scale") or width**-0.5
        if start < end:
            factor = next(filter(None, (ratio(operations[n].made, operations[start].made) for n in range(end)[::-1])))
        earlier = [tensor for each in operations[:start] for tensor in (*each.inputs, each.made)]
        earlier = [tensor for tensor in earlier if tensor.is_floating_point()]  # rotations can be complex
        for operand in operands:
            ratios = (ratio(operand.flatten().sort()[0], each.flatten().sort()[0]) for each in earlier)
            factor *= next(filter(None, ratios), 1.0)
        found.append((factor, width, softmax.made.shape[:-2].numel()))
    return found


def ratio(after, before):
    """By which number most entries of a tensor were multiplied; None if by several."""
    if after.numel() != before.numel() or not before.is_floating_point():
        return None
    ratios = (after.float().flatten() / before.float().flatten()).nan_to_num(0.0, 0.0, 0.0)
    usual = ratios.median()
    near = (ratios - usual).abs() <= 1e-3 * usual.abs()
    return usual.item() if usual and near.float().mean() > 0.5 else None


def summed_over(product, queries):
    """The size of the dimension over which a product of queries and keys sums."""
    if product.name != "einsum" or not isinstance(product.args[0], str):
        return queries.shape[-1]
    operands, _, given = product.args[0].replace(" ", "").partition("->")
    letters = operands.split(",")[0]
    return next((n for letter, n in zip(letters, queries.shape, strict=False) if letter not in given), 1)
