"""Exercises of notebook 10: one step with a KV cache, and a window in chunks."""

import torch
from torch.nn import functional as F

from .base import Exercise, Progress, exercises_in


def cached_step(queries, keys, values, cached_keys, cached_values):
    """The new token's context, all keys so far, and all values so far.

    Each is (b, num_heads, tokens, head_dim), the context with one token.
    """
    keys = torch.cat((cached_keys, keys), dim=2)
    values = torch.cat((cached_values, values), dim=2)
    context = F.scaled_dot_product_attention(queries, keys, values)
    return context, keys, values


def step_by_hand(queries, keys, values, cached_keys, cached_values):
    keys = torch.cat((cached_keys, keys), dim=2)
    values = torch.cat((cached_values, values), dim=2)
    scores = queries @ keys.mT / keys.shape[-1] ** 0.5
    weights = torch.softmax(scores, dim=-1)
    return weights @ values, keys, values


def new_token(generator):
    """The last token's queries, keys and values, and the other tokens' keys and values; one cache is empty."""
    for b, num_heads, num_tokens, head_dim in ((2, 3, 5, 4), (1, 2, 7, 3), (3, 1, 1, 2), (2, 3, 4, 1), (1, 4, 3, 5)):
        q, k, v = torch.randn(3, b, num_heads, num_tokens, head_dim, generator=generator)
        yield q[:, :, -1:], k[:, :, -1:], v[:, :, -1:], k[:, :, :-1].clone(), v[:, :, :-1].clone()


step_with_cache = Exercise(
    imports="from torch.nn import functional as F",
    title="One more token",
    prompt="A new token's queries, keys and values are (b, num_heads, 1, head_dim), those in the cache (b, num_heads, "
    "past, head_dim), where `past` can be 0. Without changing the cache, return the new token's context (the last row "
    "of causal attention over all tokens), all keys and all values.",
    solution=cached_step,
    forms=(step_by_hand,),
    parts="context keys values",
    cases=new_token,
    mistakes={
        ("(queries, keys, values)", "(queries, keys, values, is_causal=True)"): "Your query only sees key 0, as if it "
        "came from the first token. That's what `is_causal=True` does with a single query. But your token is the last "
        "one, so which keys should be hidden from it?",
        ("dim=2)", "dim=2)[:, :, :-1]"): "The new token only looks at the cache. Which token can it also look at?",
        ("return context, keys, values", "return context, cached_keys, cached_values"): "The context is right, but you "
        "return the old cache. How would the next token see this one?",
        ("dim=2)", "dim=2)[:, :, -1:]"): "The new token only sees itself. Where are the tokens before it?",
        ("dim=2)", "dim=2).roll(1, dims=2)"): "The context is right, because a sum doesn't depend on the order. But in "
        "your cache the new token comes before all others. Where does it belong?",
        ("(queries, keys, values)", "(queries / queries.shape[-1] ** 0.5, keys, values)"): "Your scores are divided by "
        "√d_k twice. What does `scaled_dot_product_attention` do to them by itself?",
        ("(queries, keys, values)", "(queries, values, keys)"): "The cache is right, but you score with the values and "
        "average the keys. Which comes second?",
        ("keys), dim=2", "values), dim=2"): "You append the new values to the keys. Which cache is it?",
        ("(queries, keys, values)", "(keys, keys, values, is_causal=True)"): "You compute a row for every token, with "
        "keys in the place of queries. Whose context is asked for?",
    },
    heading="10#What-does-each-step-repeat?",
    hints={
        "keys": "First make the cache longer by one token: `torch.cat((cached_keys, keys), dim=2)`.",
        "values": "`torch.cat((cached_values, values), dim=2)` is for the values what you need for the keys.",
        "context": "The new token's query meets all keys, and averages all values. It's the last token, so no key is "
        "in its future: what does that mean for the mask?",
    },
    why="In causal attention, a row depends on the keys and values up to itself, so the old ones can be kept, and the "
    "last row sees all of them without a mask.",
    moral="Each new token is projected once. For n tokens that's n rows instead of n * (n + 1) / 2.",
)


def windowed_step(queries, keys, values, cached_keys, cached_values, window):
    """Context of the new tokens (new, head_dim).

    And the keys and values that the next token may see.
    """
    keys = torch.cat((cached_keys, keys))  # (past + new, head_dim)
    values = torch.cat((cached_values, values))
    positions = torch.arange(len(keys))
    distances = positions[len(cached_keys) :, None] - positions  # (new, past + new)
    scores = queries @ keys.T / keys.shape[1] ** 0.5
    hidden = (distances < 0) | (distances >= window)
    scores = scores.masked_fill(hidden, -torch.inf)
    context = torch.softmax(scores, dim=-1) @ values
    start = max(0, len(keys) - (window - 1))
    return context, keys[start:], values[start:]


def chunks(generator):
    """New tokens after a cache: one, several, more than the window; a window of one, an empty cache."""
    sizes = [(4, 2, 3, 4), (1, 2, 3, 2), (5, 0, 3, 2), (2, 3, 4, 1), (3, 0, 1, 2), (2, 1, 5, 4), (2, 6, 4, 3)]
    for new, past, window, head_dim in sizes:
        q, k, v = torch.randn(3, past + new, head_dim, generator=generator)
        yield q[past:], k[past:], v[past:], k[:past].clone(), v[:past].clone(), window


mended_window = Exercise(
    title="Fix the window in chunks",
    prompt="When several tokens arrive at once, as in chunks of a long prompt, it's easy to forget too early. This "
    "step of one head is right for one new token, but wrong for several. Fix it. Return the context, and the keys and "
    "values that the next token can still see.",
    solution=windowed_step,
    parts="context keys values",
    cases=chunks,
    stub='''
def windowed_step(queries, keys, values, cached_keys, cached_values, window):
    """Context of the new tokens (new, head_dim).

    And the keys and values that the next token may see.
    """
    keys = torch.cat((cached_keys, keys))[-window:]
    values = torch.cat((cached_values, values))[-window:]
    positions = torch.arange(len(keys))
    distances = positions[len(keys) - len(queries) :, None] - positions
    scores = queries @ keys.T / keys.shape[1] ** 0.5
    hidden = (distances < 0) | (distances >= window)
    scores = scores.masked_fill(hidden, -torch.inf)
    start = max(0, len(keys) - (window - 1))
    return torch.softmax(scores, dim=-1) @ values, keys[start:], values[start:]
''',
    mistakes={
        (
            "distances = positions[len(cached_keys) :, None] - positions",
            "distances = (positions[len(cached_keys) :, None] - positions)[:, -window:]\n"
            "    keys, values = keys[-window:], values[-window:]",
        ): "You still trim before you attend. How far back does the first of "
        "several new tokens see, and are those keys still there?",
        (" | (distances >= window)", ""): "Now nothing is lost, but the last of your new tokens see too much. What "
        "should the mask hide besides the future?",
        ("distances >= window", "distances > window"): "Your tokens see one too many. With a window of 1, which should "
        "a token see?",
        ("max(0, len(keys) - (window - 1))", "-(window - 1)"): "Right, except for a window of 1, where the cache "
        "should be empty. What does `keys[-0:]` return?",
        ("max(0, len(keys) - (window - 1))", "0"): "The context is right, but you keep every token. Which can the next "
        "one see?",
        ("(window - 1)", "window"): "The context is right, but your cache keeps one token too many. Does the next "
        "token count itself in its window?",
        ("max(0, len(keys) - (window - 1))", "max(0, len(cached_keys) - (window - 1))"): "The context is right, but "
        "you keep window - 1 tokens of the old cache, and all new ones besides. Which can the next token still see?",
        ("(distances < 0) | ", ""): "Your mask hides what's too far back, but the first of several new tokens sees the "
        "later ones. What else should it hide?",
        ("max(0, len(keys) - (window - 1))", "1"): "The context is right, but you drop the first token each time. What "
        "if the window isn't full yet?",
    },
    heading="10#How-much-can-a-layer-forget?",
    hints={
        "context": "Take two new tokens and a window of 3: which tokens does the first of the two see? Join the cache "
        "and the new tokens, attend with the mask, and forget only afterwards.",
        "keys": "Remove `[-window:]` from the first two lines. The next token sees itself and window - 1 others, and "
        "the last two lines forget the rest.",
        "values": "What's kept of the values belongs to the keys that are kept.",
    },
    why="The first of several new tokens sees furthest back, so nothing can be dropped before all of them have "
    "attended.",
    moral="First attend, then forget. Token by token both orders agree, and that's what hides the bug.",
)


EXERCISES = exercises_in(globals())
progress = Progress(EXERCISES)
