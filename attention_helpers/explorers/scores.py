"""Notebook 01: one query, its scores and weights, and the context vector they lead to."""

from typing import NamedTuple

import ipywidgets as widgets
import torch

from .. import frames
from ..core import attention_scores, attention_weights, context_vectors
from .base import Explorer
from .words import entropy_in_bits, listed, shares

TEMPERATURES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 100)


class ScoresState(NamedTuple):
    """What the picture shows: all tokens at once; `query` is the row that asks."""

    query: int
    scores: torch.Tensor  # (num_tokens, num_tokens)
    weights: torch.Tensor  # (num_tokens, num_tokens)
    context: torch.Tensor  # (num_tokens, d_in)


def attend(embeddings, query, temperature):
    """From control values to arrays: softmax(scores / temperature) for all tokens of (num_tokens, d_in)."""
    scores = attention_scores(embeddings, embeddings)  # (num_tokens, num_tokens)
    weights = attention_weights(scores, scale=1 / temperature)  # (num_tokens, num_tokens)
    return ScoresState(query, scores, weights, context_vectors(weights, embeddings))


class ScoresExplorer(Explorer):
    """Pick the token that asks, and a temperature by which its scores are divided before softmax.

    sentence: a Sentence of up to 8 tokens. Arrays: a ScoresState. Errors: see Explorer.
    """

    def __init__(self, sentence):
        self.tokens, self.embeddings = sentence
        super().__init__()

    def make_controls(self):
        queries = [(f"{n} {token}", n) for n, token in enumerate(self.tokens)]
        temperatures = [(f"{value:g}", value) for value in TEMPERATURES]
        return {
            "query": widgets.SelectionSlider(options=queries, value=min(1, len(queries) - 1), description="query"),
            "temperature": widgets.SelectionSlider(options=temperatures, value=1, description="temperature"),
        }

    def compute(self, query, temperature):
        return attend(self.embeddings, query, temperature)

    def make_figure(self, state):
        figure, axes = frames.row_figure((1.9, 1.1, 1.1, 0.9), width=11.6, height=3.5)
        shape, entries = state.weights.shape, [f"entry {n}" for n in range(self.embeddings.shape[1])]
        frames.frame_cells(axes[0], self.tokens, self.tokens, shape, "weights, all queries", legend=(0, 1))
        frames.frame_bars(axes[1], self.tokens, frames.span(state.scores), "scores of the query")
        frames.frame_bars(axes[2], self.tokens, (0, 1.18), "weights of the query")
        limits, names = frames.span(self.embeddings, room=0.4), ("embedding", "context")
        frames.frame_bars(axes[3], entries, limits, "vectors of the query", series=names)
        return figure

    def paint(self, canvas, state):
        canvas.update_heatmap(0, state.weights)
        canvas.mark(0, state.weights.shape, row=state.query)
        canvas.update_bars(1, [state.scores[state.query]])
        canvas.update_bars(2, [state.weights[state.query]])
        canvas.update_bars(3, [self.embeddings[state.query], state.context[state.query]])

    def readouts(self, state):
        weights = state.weights[state.query]
        return {
            "weights": shares(self.tokens, weights),
            "row sum": f"{weights.sum():.4f}",
            "entropy": f"{entropy_in_bits(weights):.2f} bits of at most {torch.tensor(len(weights)).log2():.2f}",
            "context": listed(state.context[state.query], 4),
        }

    def in_words(self, state):
        return (
            f"Query {self.tokens[state.query]}. Scores: {shares(self.tokens, state.scores[state.query])}. "
            f"Weights: {shares(self.tokens, state.weights[state.query])}. "
            f"Context vector: {listed(state.context[state.query])}."
        )
