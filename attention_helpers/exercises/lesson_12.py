"""Exercises of notebook 12: absorbed matrices."""

import torch

from .base import Exercise, Progress


def absorbed_step(queries, latents, W_key, W_value):
    """queries (num_heads, d_key), latents (num_tokens, d_latent), W_key (num_heads, d_key, d_latent), W_value
    (num_heads, d_value, d_latent); returns (num_heads, d_latent) and (num_heads, d_value)."""
    absorbed = torch.einsum("hk,hkc->hc", queries, W_key)  # (num_heads, d_latent)
    weights = torch.softmax(absorbed @ latents.T / queries.shape[1] ** 0.5, dim=1)  # (num_heads, num_tokens)
    mixed = weights @ latents  # (num_heads, d_latent)
    return absorbed, torch.einsum("hvc,hc->hv", W_value, mixed)


def latents_of(generator):
    sizes = [(2, 4, 3, 3, 5), (3, 1, 2, 2, 4), (1, 6, 4, 2, 3), (4, 5, 3, 5, 3)]
    return [
        tuple(torch.randn(shape, generator=generator) for shape in ((h, k), (n, c), (h, k, c), (h, v, c)))
        for h, n, k, v, c in sizes
    ]


absorbed_matrices = Exercise(
    name="absorbed_matrices",
    title="MLA without a key",
    prompt="One token attends to `latents`, without a mask or rotary keys. Each head has a query, a `W_key` that "
    "makes keys from latents, and a `W_value`. Return the queries with `W_key` absorbed, and the context. Divide "
    "scores by √d_key.",
    solution=absorbed_step,
    cases=latents_of,
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
        "For head h, absorb with `queries[h] @ W_key[h]`; `torch.einsum('hk,hkc->hc', queries, W_key)` does all "
        "heads. Then score the latents, and average the latents themselves.",
        "With `mixed = weights @ latents`, the context is `torch.einsum('hvc,hc->hv', W_value, mixed)`.",
    ],
    why="A matrix product may be bracketed as you like: q · (W c) = (qᵀ W) · c. And an average of W_value's outputs is "
    "W_value's output for the average. So no key or value has to be made, and the scores are those of the made keys.",
    moral="Each step reads only the latents, which all heads share.",
)


EXERCISES = [absorbed_matrices]
progress = Progress(EXERCISES)
