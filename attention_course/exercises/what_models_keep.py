"""Exercises of notebook 12: absorbed matrices, and a step of the delta rule."""

import torch

from .base import Exercise, Progress, Seen, exercises_in, normal
from .seen import Watch


def absorbed_step(queries, latents, W_key, W_value):
    """queries (num_heads, d_key), latents (num_tokens, d_latent),
    W_key (num_heads, d_key, d_latent), W_value (num_heads, d_value, d_latent);
    returns (num_heads, d_latent) and (num_heads, d_value)."""
    absorbed = torch.einsum("hk,hkc->hc", queries, W_key)
    scores = absorbed @ latents.T / queries.shape[1] ** 0.5
    weights = torch.softmax(scores, dim=1)  # (num_heads, num_tokens)
    mixed = weights @ latents  # (num_heads, d_latent)
    return absorbed, torch.einsum("hvc,hc->hv", W_value, mixed)


def without_keys(answer, queries, latents, W_key, W_value):
    """The two results; a fault is that the code made a key for each latent."""
    with Watch(without_keys) as watch:
        results = answer(queries, latents, W_key, W_value)
    keys = torch.einsum("hkc,nc->hnk", W_key, latents)
    made = next((line for tensor, line in watch.made if len(latents) > 1 and same_numbers(tensor, keys)), "")
    if isinstance(results, tuple) and len(results) == 2:
        results = dict(zip(("absorbed", "context"), results, strict=True))
    return Seen(results, f"Your code makes a key for each latent and head, in {made}.", "absorbed") if made else results


def same_numbers(tensor, other):
    """Whether two tensors have the same numbers, in any order."""
    pair = (each.flatten().sort()[0] for each in (tensor, other))
    return tensor.numel() == other.numel() and torch.allclose(*pair, atol=1e-5)


absorbed_matrices = Exercise(
    title="MLA without a key",
    prompt="One token attends to all `latents`. Each head has a query, a `W_key` that "
    "makes keys from latents, and a `W_value`. Return the queries with `W_key` absorbed, and the context. Divide "
    "scores by √d_key.",
    solution=absorbed_step,
    call=without_keys,
    cases=lambda g: [
        normal(g, (h, k), (n, c), (h, k, c), (h, v, c))
        for h, n, k, v, c in ((2, 4, 3, 3, 5), (3, 1, 2, 2, 4), (1, 6, 4, 2, 3), (4, 5, 3, 5, 3))
    ],
    mistakes={
        ("queries.shape[1] ** 0.5", "latents.shape[1] ** 0.5"): "The absorbed queries are right, but you scale by "
        "√d_latent, since that's how wide they are now. Which width did the keys have?",
        (" / queries.shape[1] ** 0.5", ""): "The absorbed queries are right, but the scores aren't scaled. By what?",
        ("return absorbed", "return queries"): "The context is right, but your queries are as they came. Which meet "
        "the latents?",
        ("dim=1", "dim=0"): "Your softmax runs over the heads. Which sums should be 1?",
        ('torch.einsum("hvc,hc->hv", W_value, mixed)', "mixed"): "You return mixed latents. What makes values of them?",
        ('torch.einsum("hvc,hc->hv", W_value, mixed)', 'torch.einsum("hkc,hc->hk", W_key, mixed)'): "The absorbed "
        "queries are right, but you make the context with `W_key`. Which matrix turns a latent into a value?",
        ("hk,hkc->hc", "hk,gkc->hc"): "Each of your queries absorbs the sum of all heads' `W_key`. Which letter of "
        "your einsum says that head h meets only its own?",
        ("return absorbed", "return absorbed / queries.shape[1] ** 0.5"): "The context is right, but you return "
        "queries that are scaled already. What should be divided by √d_key?",
        ('hv", W_value, mixed)', 'v", W_value, mixed).expand(len(queries), -1)'): "The absorbed queries are right, but "
        "your context is the sum over all heads. Which letter of your einsum is missing on the right?",
    },
    heading="12#Can-all-heads-share-one-small-vector?",
    hints={
        "absorbed": "A key is `W_key[h] @ c`, with a latent c. Move the bracket: `torch.einsum('hk,hkc->hc', queries, "
        "W_key)` absorbs for all heads.",
        "scores": "Score the absorbed queries with the latents, and divide by √d_key.",
        "weights": "Take the softmax over the tokens.",
        "context": "Average the latents with the weights, `mixed = weights @ latents`. The context is "
        "`torch.einsum('hvc,hc->hv', W_value, mixed)`.",
    },
    why="Moving the brackets changes neither a score nor an average.",
    moral="Each step reads only the latents, which all heads share.",
)


def delta_step(state, key, value, rate, decay):
    """The new state (d_k, d_v); key (d_k,), value (d_v,), and two numbers."""
    faded = decay * state
    returned = key @ faded  # (d_v,)
    missing = value - returned
    return faded + rate * key[:, None] * missing


def pairs_of(generator):
    """States of several shapes, and a key of length 1."""
    for d_k, d_v, rate, decay in ((3, 3, 1.0, 0.7), (4, 2, 0.5, 0.9), (2, 5, 0.8, 1.0), (5, 4, 0.25, 0.5)):
        state, key, value = normal(generator, (d_k, d_v), d_k, d_v)
        yield state, key / key.norm(), value, rate, decay


overwriting = Exercise(
    title="A step of the delta rule",
    prompt="Return the state after one more token, whose key has length 1. First multiply the state by `decay`. Then "
    "move what the key returns towards the value: `rate` says which part of the difference is added. Don't change "
    "`state` itself.",
    solution=delta_step,
    cases=pairs_of,
    mistakes={
        ("value - returned", "value"): "You add the value, whatever the key returns already. What if a key comes "
        "twice?",
        ("key @ faded", "key @ state"): "You query the state before it has decayed. Which state should be read?",
        ("returned = key @ faded", "returned = key @ state", "rate * key", "decay * rate * key"): "In your state, the "
        "new pair has decayed, too. Which part is older?",
        ("rate * key", "key"): "You always add the complete difference. Which part of it does `rate` ask for?",
        ("key[:, None] * missing", "key * missing[:, None]"): "Your outer product has a row per entry of the value. "
        "Whose entries are the rows of `state`?",
        ("faded + rate * key[:, None] * missing", "(1 - rate) * faded + rate * key[:, None] * value"): "You multiply "
        "the complete state by 1 - rate, so it forgets under every key. Under which key should something be replaced?",
        ("rate * key", "rate * decay * key"): "You multiply the new pair's part by `decay`, too. Which part is older?",
        ("value - returned", "returned - value"): "You move away from the value. Which difference leads from what the "
        "key returns to what it should?",
        ("decay * state", "state + 0 * decay"): "Your state doesn't decay. What happens to it before it's queried?",
        ("decay * state", "rate * state", "faded + rate", "faded + decay"): "You let the state decay by `rate`, and "
        "add `decay` times the difference. Which is which?",
    },
    heading="12#Can-a-state-change-its-mind?",
    hints={
        "faded": "First multiply the state by `decay`.",
        "returned": "What does the state return for this key? It's `key @ state`, with the state that has decayed.",
        "missing": "What's missing is the value minus what the key returns.",
        "result": "Add an outer product of the key and what's missing: `key[:, None] * missing` has a row for each "
        "entry of the key.",
    },
    why="A key of length 1 returns what is added under it unchanged, so the rate sets how far its answer moves.",
    moral="A state can change its mind.",
)


EXERCISES = exercises_in(globals())
progress = Progress(EXERCISES)
