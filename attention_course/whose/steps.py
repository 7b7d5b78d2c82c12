"""What a layer computes on the way, by name, and what section 3.3 and 3.5 compute by hand."""

import torch
from torch.overrides import TorchFunctionMode

from attention_helpers import Dropout, causal_mask

from .drawing import embeddings

# What the products of a layer are, in the order in which it computes them, and its other steps
PRODUCTS = "queries", "keys", "values", "scores", "context vectors", "output"
OTHERS = {
    "div": "divided scores",
    "masked_fill": "masked scores",
    "softmax": "weights",
    "mul": "weights after dropout",
}


class Steps(TorchFunctionMode):
    """While active, write down what the steps of a layer return."""

    def __init__(self):
        super().__init__()
        self.taken = {}
        self.products = iter(PRODUCTS)

    def __torch_function__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        name = OTHERS.get(function.__name__)
        if function.__name__ in ("linear", "matmul"):
            name = next(self.products, "output")
        if name == "masked scores" and "weights" in self.taken:
            name = "masked weights"
        if name:
            self.taken[name] = result
        return result


def unscaled_masked(scores):
    """The scores with the mask on, before they're divided: the chapter masks first, our classes divide first."""
    return scores.masked_fill(causal_mask(scores.shape[-1]), -torch.inf)


def masked_by_hand(steps):
    """What section 3.5 makes of scores and weights, before it has a class that does."""
    kept = steps["weights"].tril()
    renormalized = kept / kept.sum(dim=-1, keepdim=True)
    made = {
        "masked scores, not yet divided": unscaled_masked(steps["scores"]),
        "weights with zeros above the diagonal, not yet renormalized": kept,
        "causal weights": renormalized,
    }
    return made | dropped_by_hand(renormalized)


def dropped_by_hand(weights):
    """Dropout of 0.5 from seed 123, drawn for these weights first, and after a matrix of ones."""
    dropout = Dropout(0.5)
    torch.default_generator.manual_seed(123)
    first, second = dropout(weights), dropout(weights)
    return {"causal weights after dropout": first, "causal weights after a second draw of dropout": second}


OVER_QUERIES = "but softmax ran over the queries (dim=0), or the weights were transposed"
DIVIDED = "but the scores were divided by √3, which the chapter does only from section 3.4 on"


def tables_without_matrices():
    """(step, numbers, what's unusual) of section 3.3."""
    x = embeddings("journey")
    scores = x @ x.T
    weights = torch.softmax(scores, dim=-1)
    turned = torch.softmax(scores, dim=0)
    divided = torch.softmax(scores / x.shape[-1] ** 0.5, dim=-1)
    yield "embeddings", x, ""
    yield "scores", scores, ""
    yield "scores divided by their sum", scores / scores.sum(dim=-1, keepdim=True), ""
    yield "weights", weights, ""
    yield "context vectors", weights @ x, ""
    for wrong, words in (turned, OVER_QUERIES), (divided, DIVIDED):
        yield "weights", wrong, words
        yield "context vectors", wrong @ x, words
