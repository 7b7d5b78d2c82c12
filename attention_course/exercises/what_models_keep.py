"""Exercises of notebook 12: absorbed matrices, and a step of the delta rule."""
# After a change: make exercises, then make refresh NOTEBOOK="12 help"

import torch

from .base import Exercise, Progress, normal


def absorbed_step(queries, latents, W_key, W_value):
    """queries (num_heads, d_key), latents (num_tokens, d_latent),
    W_key (num_heads, d_key, d_latent), W_value (num_heads, d_value, d_latent);
    returns (num_heads, d_latent) and (num_heads, d_value)."""
    absorbed = torch.einsum("hk,hkc->hc", queries, W_key)
    scores = absorbed @ latents.T / queries.shape[1] ** 0.5
    weights = torch.softmax(scores, dim=1)  # (num_heads, num_tokens)
    mixed = weights @ latents  # (num_heads, d_latent)
    return absorbed, torch.einsum("hvc,hc->hv", W_value, mixed)


absorbed_matrices = Exercise(
    name="absorbed_matrices",
    title="MLA without a key",
    prompt="One token attends to all `latents`. Each head has a query, a `W_key` that "
    "makes keys from latents, and a `W_value`. Return the queries with `W_key` absorbed, and the context. Divide "
    "scores by √d_key.",
    solution=absorbed_step,
    cases=lambda g: [
        normal(g, (h, k), (n, c), (h, k, c), (h, v, c))
        for h, n, k, v, c in ((2, 4, 3, 3, 5), (3, 1, 2, 2, 4), (1, 6, 4, 2, 3), (4, 5, 3, 5, 3))
    ],
    mistakes={
        ("scales by the latent's width", "queries.shape[1] ** 0.5", "latents.shape[1] ** 0.5"): """
            The absorbed queries are right, but you scale by √d_latent, since that's how wide they are now. Absorbing
            mustn't change a score: which width did the keys have?""",
        ("doesn't scale", " / queries.shape[1] ** 0.5", ""): """
            The absorbed queries are right, but the scores aren't scaled. What are they divided by?""",
        ("returns the queries as they were", "return absorbed", "return queries"): """
            The context is right, but your queries are as they came. Which ones meet the latents?""",
        ("takes the softmax over the heads", "dim=1", "dim=0"): """
            Your softmax runs over the heads. Which sums should be 1: those of each head, or those of each token?""",
        ("returns mixed latents", 'torch.einsum("hvc,hc->hv", W_value, mixed)', "mixed"): """
            You return an average of the latents. Which matrix turns a latent into a value?""",
    },
    hints=[
        "A key is `W_key[h] @ c`, with a latent c. Write the score of one head and one latent, and move the bracket.",
        "`torch.einsum('hk,hkc->hc', queries, W_key)` absorbs for all heads. Then score and average the latents.",
        "With `mixed = weights @ latents`, the context is `torch.einsum('hvc,hc->hv', W_value, mixed)`.",
    ],
    why="Moving the brackets changes neither a score nor an average.",
    moral="Each step reads only the latents, which all heads share.",
)


def delta_step(state, key, value, rate, decay):
    """The new state (d_k, d_v); key (d_k,), value (d_v,), and two numbers."""
    faded = decay * state
    missing = value - key @ faded  # (d_v,), not returned yet
    return faded + rate * key[:, None] * missing


def pairs_of(generator):
    """States of several shapes, and a key of length 1."""
    for d_k, d_v, rate, decay in ((3, 3, 1.0, 1.0), (4, 2, 0.5, 0.9), (2, 5, 0.9, 1.0), (5, 4, 0.25, 0.5)):
        state, key, value = normal(generator, (d_k, d_v), d_k, d_v)
        yield state, key / key.norm(), value, rate, decay


overwriting = Exercise(
    name="overwriting",
    title="A step of the delta rule",
    prompt="Return the state after one more token, whose key has length 1. First multiply the state by `decay`. Then "
    "move what the key returns towards the value: `rate` says which part of the difference is added. Don't change "
    "`state` itself.",
    solution=delta_step,
    cases=pairs_of,
    mistakes={
        ("adds the value", "value - key @ faded", "value"): """
            You add the value, whatever the key returns already. If a key comes twice, what does it return then?""",
        ("reads before the decay", "key @ faded", "key @ state"): """
            You query the state before it has decayed. From which state should the old value be subtracted?""",
        (
            "lets the new pair decay",
            "return faded + rate * key[:, None] * missing",
            "return decay * (state + rate * key[:, None] * (value - key @ state))",
        ): """
            In your state, the new pair has decayed, too. Which part of the sum is older than this token?""",
        ("always overwrites", "rate * key", "key"): """
            You always add the complete difference. Which part of it does `rate` ask for?""",
        ("turns the state round", "key[:, None] * missing", "key * missing[:, None]"): """
            Your outer product has a row per entry of the value. Whose entries are the rows of `state`?""",
    },
    hints=[
        "What does the state return for this key? It's `key @ state`, with the state that has decayed.",
        "Add an outer product of the key and what's missing: the value minus what the key returns.",
        "`key[:, None] * missing` has a row for each entry of the key.",
    ],
    why="A key of length 1 returns what is added under it unchanged, so the rate sets how far its answer moves.",
    moral="A state can change its mind.",
)


EXERCISES = [absorbed_matrices, overwriting]
progress = Progress(EXERCISES)
