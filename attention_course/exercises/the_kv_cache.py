"""Exercises of notebook 10: one step with a KV cache, and a window in chunks."""
# After a change: make exercises, then make refresh NOTEBOOK="10 help"

import torch
from torch.nn import functional as F

from .base import Exercise, Progress


def cached_step(queries, keys, values, cached_keys, cached_values):
    """The new token's context, all keys so far, and all values so far.

    Each is (b, num_heads, tokens, head_dim), the context with one token.
    """
    keys = torch.cat((cached_keys, keys), dim=2)
    values = torch.cat((cached_values, values), dim=2)
    context = F.scaled_dot_product_attention(queries, keys, values)
    return context, keys, values


def new_token(generator):
    """The last token's queries, keys and values, and the other tokens' keys and values; one cache is empty."""
    for b, num_heads, num_tokens, head_dim in ((2, 3, 5, 4), (1, 2, 7, 3), (3, 1, 1, 2), (2, 2, 4, 1), (1, 4, 3, 5)):
        q, k, v = torch.randn(3, b, num_heads, num_tokens, head_dim, generator=generator)
        yield q[:, :, -1:], k[:, :, -1:], v[:, :, -1:], k[:, :, :-1].clone(), v[:, :, :-1].clone()


step_with_cache = Exercise(
    name="step_with_cache",
    imports="from torch.nn import functional as F",
    title="One more token",
    prompt="A new token's queries, keys and values are (b, num_heads, 1, head_dim), those in the cache (b, num_heads, "
    "past, head_dim), where `past` can be 0. Without changing the cache, return the new token's context (the last row "
    "of causal attention over all tokens), all keys and all values.",
    solution=cached_step,
    cases=new_token,
    mistakes={
        ("sets is_causal", "(queries, keys, values)", "(queries, keys, values, is_causal=True)"): """
            Your query only sees key 0, as if it came from the first token. That's what `is_causal=True` does with a
            single query. But your token is the last one, so which keys should be hidden from it?""",
        # The cache is left without the new token.
        ("forgets the new token", "dim=2)", "dim=2)[:, :, :-1]"): """
            The new token only looks at the cache. Which token can it also look at?""",
        ("returns the old cache", "return context, keys, values", "return context, cached_keys, cached_values"): """
            The context is right, but you return the old cache. How would the next token see this one?""",
        # The new token is left without the cache.
        ("forgets the cache", "dim=2)", "dim=2)[:, :, -1:]"): """
            The new token only sees itself, so its context is its own value. Where are the tokens before it?""",
        ("appends along the heads", "dim=2", "dim=1"): """
            You append along dimension 1, which counts the heads. Which dimension counts the tokens?""",
        ("puts the new token first", "dim=2)", "dim=2).roll(1, dims=2)"): """
            The context is right, because a sum doesn't depend on the order. But in your cache the new token comes
            before all others. Where does it belong?""",
        ("doesn't scale", "(queries, keys, values)", "(queries, keys, values, scale=1.0)"): """
            Your scores go into softmax as they are. What are they divided by first?""",
        ("scales twice", "(queries, keys, values)", "(queries / queries.shape[-1] ** 0.5, keys, values)"): """
            You scale the scores twice. What does `scaled_dot_product_attention` do to them by itself?""",
    },
    hints=[
        "First make the cache longer by one token. Which of the four dimensions counts tokens?",
        "The new token is the last one, so no key is in its future. What does that mean for the mask?",
        "`torch.cat((cached_keys, keys), dim=2)`, the same for the values, then "
        "`F.scaled_dot_product_attention(queries, keys, values)` without a mask.",
    ],
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
    sizes = [(4, 2, 3, 4), (1, 2, 3, 2), (5, 0, 3, 3), (2, 3, 4, 1), (3, 0, 1, 2), (2, 1, 5, 4)]
    for new, past, window, head_dim in sizes:
        q, k, v = torch.randn(3, past + new, head_dim, generator=generator)
        yield q[past:], k[past:], v[past:], k[:past].clone(), v[:past].clone(), window


mended_window = Exercise(
    name="mended_window",
    title="Fix the window in chunks",
    prompt="When several tokens arrive at once, as in chunks of a long prompt, it's easy to forget too early. This "
    "step of one head is right for one new token, but wrong for several. Fix it. Return the context, and the keys and "
    "values that the next token can still see.",
    solution=windowed_step,
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
            "trims before it attends",
            "distances = positions[len(cached_keys) :, None] - positions",
            "distances = (positions[len(cached_keys) :, None] - positions)[:, -window:]\n"
            "    keys, values = keys[-window:], values[-window:]",
        ): """
            You still trim before you attend. How far back does the first of several new tokens see, and are those keys
            still there?""",
        ("forgets the window in the mask", " | (distances >= window)", ""): """
            Now nothing is lost, but the last of your new tokens see too much. What should the mask hide besides the
            future?""",
        ("sees one token too many", "distances >= window", "distances > window"): """
            Your tokens see one too many. With a window of 1, which tokens should a token see?""",
        ("slices from minus zero", "max(0, len(keys) - (window - 1))", "-(window - 1)"): """
            Right, except for a window of 1, where the cache should be empty. What does `keys[-0:]` return?""",
        ("keeps all", "max(0, len(keys) - (window - 1))", "0"): """
            The context is right, but your cache grows for ever. Which of its tokens can the next one still see?""",
        ("keeps one too many", "(window - 1)", "window"): """
            The context is right, but your cache keeps one token too many. Does the next token count itself in its
            window?""",
    },
    hints=[
        "Take two new tokens and a window of 3: which tokens does the first of the two see?",
        "Join the cache and the new tokens, and attend with the mask. Forget only afterwards.",
        "Remove `[-window:]` from the first two lines. The mask hides what's too far back, and the last two lines "
        "forget it.",
    ],
    why="The first of several new tokens sees furthest back, so nothing can be dropped before all of them have "
    "attended.",
    moral="First attend, then forget. Token by token both orders agree, and that's what hides the bug.",
)


EXERCISES = [step_with_cache, mended_window]
progress = Progress(EXERCISES)
