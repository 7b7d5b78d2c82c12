"""Exercises of notebook 15: fixes of suspects A, C and E."""

import torch
from torch.nn import functional as F

from attention_helpers.layers import causal_mask

from .base import Exercise, Progress, Seen, exercises_in, normal


def attend(queries, keys, values, future):
    """Context vectors of each head, (b, num_heads, n, head_dim)."""
    sees = ~future
    return F.scaled_dot_product_attention(queries, keys, values, sees)


def heads_and_masks(generator):
    """Queries, keys and values, and the mask of the future."""
    for shape in ((1, 2, 6, 4), (2, 1, 5, 3), (4, 3, 5, 2), (1, 1, 1, 2)):
        yield *normal(generator, shape, shape, shape), causal_mask(shape[2])


def by_hand(queries, keys, values, future):
    scores = queries @ keys.mT / keys.shape[-1] ** 0.5
    scores = scores.masked_fill(future, -torch.inf)
    weights = torch.softmax(scores, dim=-1)
    return weights @ values


turning_the_mask = Exercise(
    title="Fix suspect A",
    imports="from torch.nn import functional as F",
    prompt="Return the context vectors, so that no token sees a later one. `future`, (n, n), is True where the key "
    "comes after the query.",
    solution=attend,
    cases=heads_and_masks,
    forms=(by_hand,),
    mistakes={
        ("~future", "future"): "Your tokens still look at nothing but the future. For this function, does True mean "
        '"hide" or "keep"?',
        ("~future", "(~future).float()"): "A mask of numbers is added to the scores: yours only makes those that can "
        'be seen 1 higher than the rest. Which number hides a score, or which dtype means "keep"?',
        ("~future", "future.float()"): "A mask of numbers is added to the scores, so yours makes those of the future "
        '1 higher than the rest. Which number hides a score, or which dtype means "keep"?',
        ("~future", "future.mT"): "The transposed mask is True only below the diagonal, so no token sees itself. Is "
        "that right?",
        (", sees", ""): "Your result is that of attention without a mask. If you make one, does anything use it?",
    },
    heading="15#Suspect-A:-its-loss-is-too-good",
    hints={
        "scores": "What does True mean in `future`, and what in `attn_mask`?",
        "sees": "The mask to pass is `~future`.",
    },
    why="In a boolean `attn_mask`, True means that the key takes part. A reader found the bug in a book's public code: "
    "[rasbt/LLMs-from-scratch#1061](https://github.com/rasbt/LLMs-from-scratch/issues/1061).",
    moral="The map is causal now.",
)


def split_heads(x, num_heads):
    """Heads, (b, num_heads, n, head_dim), of x (b, n, num_heads * head_dim)."""
    b, n, d_out = x.shape
    by_token = x.view(b, n, num_heads, d_out // num_heads)
    return by_token.transpose(1, 2)


def wide_tokens(generator):
    for b, n, num_heads, head_dim in ((1, 6, 2, 4), (2, 4, 2, 3), (1, 3, 3, 3), (2, 5, 1, 4), (1, 4, 4, 1)):
        yield *normal(generator, (b, n, num_heads * head_dim)), num_heads


cutting_heads = Exercise(
    title="Fix suspect C",
    prompt="Head 1 should get the first head_dim entries of each token, head 2 the next ones, and so on.",
    solution=split_heads,
    cases=wide_tokens,
    mistakes={
        ("by_token.transpose(1, 2)", "x.view(b, num_heads, n, d_out // num_heads)"): "That's what suspect C does: head "
        "1 gets all entries of the first tokens. `view` never changes the order of the numbers. Which dimension is the "
        "one that it should cut?",
        (".transpose(1, 2)", ""): "Your cut is right, but the shape is (b, n, num_heads, head_dim). Which two change "
        "places?",
        (".transpose(1, 2)", ".transpose(2, 3).transpose(1, 2)"): "Your heads are (head_dim, n, num_heads). Which two "
        "change places?",
        ("by_token.transpose(1, 2)", "x.view(b, n, d_out // num_heads, num_heads).permute(0, 3, 1, 2)"): "Your head 1 "
        "gets every num_heads-th entry. Which entries of a token stand next to each other in a head?",
        ("x.view", "x.mT.reshape"): "You swap tokens and numbers before you cut, so a head mixes the numbers of "
        "several tokens. What should be cut?",
        ("transpose(1, 2)", "permute(2, 0, 1, 3)"): "Your heads come before the batch. Which dimension stays first?",
    },
    heading="15#Suspect-C:-it-forgets-the-beginning",
    hints={
        "by_token": "First (b, n, num_heads, head_dim): `x.view(b, n, num_heads, d_out // num_heads)`.",
        "result": "Then `.transpose(1, 2)` brings the heads to the front.",
    },
    why="`view` keeps the order of the numbers, so it must cut the last dimension; `transpose` then brings the heads "
    "to the front. A [library](https://github.com/reczoo/FuxiCTR/issues/30) cut its heads like C, and two tutorials "
    "joined well-cut heads like C, which leaks: "
    "[ajhalthor](https://github.com/ajhalthor/Transformer-Neural-Network/pull/4), "
    "[jsbaan](https://github.com/jsbaan/transformer-from-scratch/pull/6).",
    moral="Each head has a part of every token.",
)


def visible(num_new, num_keys):
    """What each new query sees: (num_new, num_keys), boolean."""
    positions = torch.arange(num_keys)
    return positions <= positions[-num_new:, None]


def weights_under(answer, num_new, num_keys):
    """The weights of equal scores under a mask, so that each kind of mask is right that `attn_mask` takes."""
    mask = answer(num_new, num_keys)
    if not torch.is_tensor(mask) or (type(mask) is torch.Tensor and mask.shape != (num_new, num_keys)):
        return mask
    if mask.dtype not in (torch.bool, torch.float32):
        return Seen(mask, f"`attn_mask` takes True and False, and yours is of dtype {mask.dtype}.")
    queries, keys, values = torch.zeros(num_new, num_keys), torch.zeros(num_keys, num_keys), torch.eye(num_keys)
    heads = (each[None, None] for each in (queries, keys, values))
    return {"the weights under your mask": F.scaled_dot_product_attention(*heads, attn_mask=mask)[0, 0]}


seeing_with_a_cache = Exercise(
    title="Fix suspect E",
    prompt="The last `num_new` of `num_keys` tokens are new, and only they have queries. Return a mask for "
    "`attn_mask`: True for each new token's own key and all before it.",
    solution=visible,
    cases=lambda g: [(1, 5), (3, 3), (2, 6), (1, 1), (4, 5)],
    call=weights_under,
    mistakes={
        ("positions[-num_new:, None]", "positions[:num_new, None]"): "That's the mask of `is_causal=True`: your first "
        "new token sees only the first key, as if there were no cache. Which position does it have in the text?",
        ("positions <= ", "positions > "): "Your mask is True for the future, and `attn_mask` keeps where it's True. "
        "Which way round should it be?",
        ("positions <= ", "positions < "): "No new token sees itself. Should its own key take part?",
        ("positions <= positions[-num_new:, None]", "positions >= 0 * positions[-num_new:, None]"): "All keys are "
        "visible. That's right for one new token, but of several, the first ones see the later ones. Which keys come "
        "after the first new token?",
        ("return ", "return 1.0 * (", "None]", "None])"): "A mask of numbers is added to the scores, and here it hides "
        'nothing. Which dtype means "keep or hide"?',
    },
    heading="15#Suspect-E:-it-trains-well,-and-writes-badly",
    hints={
        "positions": "Number the positions: `positions = torch.arange(num_keys)`. The new tokens have the last ones.",
        "result": "Compare `positions` with `positions[-num_new:, None]`.",
    },
    why="A query's position counts from the beginning of the text, not of the call, so the last query sees all keys. "
    "PyTorch calls this mask "
    "[`causal_lower_right`](https://docs.pytorch.org/docs/stable/nn.attention.bias.html). "
    "[#144858](https://github.com/pytorch/pytorch/issues/144858) asks for it, and "
    "[#108108](https://github.com/pytorch/pytorch/issues/108108) for another default of `is_causal`.",
    moral="With one new token, all keys are visible.",
)

EXERCISES = exercises_in(globals())
progress = Progress(EXERCISES)
