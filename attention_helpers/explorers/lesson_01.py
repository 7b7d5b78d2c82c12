"""Notebook 01: one query, its scores and weights, and the resulting context vector."""

from typing import NamedTuple

import torch

from ..core import attention_scores, attention_weights, context_vectors
from .base import SentenceExplorer, stops
from .ink import WEIGHTS
from .svg import bars, beside
from .svg_maps import colour_bar, heatmap
from .words import entropy_in_bits, listed, shares

TEMPERATURES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 100)


class ScoresState(NamedTuple):
    """What the picture shows, for all tokens; `query` is the chosen row."""

    query: int
    scores: torch.Tensor  # (num_tokens, num_tokens)
    weights: torch.Tensor  # (num_tokens, num_tokens)
    context: torch.Tensor  # (num_tokens, d_in)


def attend(embeddings, query, temperature):
    """From control values to arrays: softmax(scores / temperature) for all tokens of (num_tokens, d_in)."""
    scores = attention_scores(embeddings, embeddings)  # (num_tokens, num_tokens)
    weights = attention_weights(scores, scale=1 / temperature)  # (num_tokens, num_tokens)
    return ScoresState(query, scores, weights, context_vectors(weights, embeddings))


class ScoresExplorer(SentenceExplorer):
    """Choose the query token, and a temperature that divides the scores before softmax.

    sentence: a Sentence of up to 8 tokens. Arrays: a ScoresState. Errors: as in Explorer.
    """

    def make_controls(self):
        queries = [(f"{n} {token}", n) for n, token in enumerate(self.tokens)]
        temperatures = [(f"{value:g}", value) for value in TEMPERATURES]
        return {
            "query": stops("query", queries, min(1, len(queries) - 1), "The token that asks"),
            "temperature": stops("temperature", temperatures, 1, "What scores are divided by"),
        }

    def compute(self, query, temperature):
        return attend(self.embeddings, query, temperature)

    def picture(self, state):
        entries = [f"entry {n}" for n in range(self.embeddings.shape[1])]
        query, span = state.query, (min(0.0, float(state.scores.min())), max(0.1, float(state.scores.max())))
        vectors = {"embedding": self.embeddings[query], "context": state.context[query]}
        reach = (min(0.0, float(self.embeddings.min())), max(0.1, float(self.embeddings.max())))
        table = heatmap(state.weights, self.tokens, self.tokens, "weights, all queries", row=query)
        scores = bars({"score": state.scores[query]}, self.tokens, "scores of the query", span, width=190)
        weights = bars({"weight": state.weights[query]}, self.tokens, "weights of the query", width=190)
        context = bars(vectors, entries, "vectors of the query", reach, width=170)
        return [[beside(table, colour_bar(shade=WEIGHTS)), scores, weights, context]]

    def headline(self, state):
        return ""

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
