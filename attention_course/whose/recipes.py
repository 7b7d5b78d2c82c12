"""How lessons draw the course's layers, and how readers do: every number on the way, from one seed to the output."""

import itertools
from dataclasses import dataclass, replace
from functools import cache

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

import attention_helpers
from attention_course.mistakes import Mistake, mistakes_of, with_mistake
from attention_helpers import CausalAttention, Dropout, causal_mask, load_sentence
from attention_helpers.dropout import draw_dropout_from

ORDER = "W_query", "W_key", "W_value", "out_proj"
USUAL_SEEDS = 123, 789, 0, 1, 42, 1234
AFTER_TRAINING = "CausalAttention in training"  # whose dropout draws, too


@dataclass(frozen=True)
class Recipe:
    """A layer as the chapter makes it, but for `changes`, in words, and for a mistake in its class.

    layer: a class of attention_helpers. before: what is drawn from the seed before the layer. order: of its matrices.
    each: whether the seed is set again before each of them. draw: "rand" or "randn", where it isn't the class's own
    way. p: of dropout, in training.
    """

    layer: str
    seed: int
    d_in: int = 3
    d_out: int = 2
    num_heads: int = 2
    changes: tuple = ()
    mistake: Mistake | None = None
    before: tuple = ()
    order: tuple = ORDER
    each: bool = False
    draw: str = ""
    qkv_bias: bool = False
    dtype: torch.dtype = torch.float32
    p: float = 0.0

    @property
    def effort(self):
        """How far this is from the chapter's way."""
        return len(self.changes) + (self.mistake is not None)

    @property
    def plain(self):
        """Whether it's one of the two classes without mask, batch and dropout."""
        return self.layer.startswith("SelfAttention")

    @property
    def sizes(self):
        widths = self.d_in, self.d_out
        if self.plain:
            return widths
        heads = () if self.layer == "CausalAttention" else (self.num_heads,)
        return *widths, 6, self.p, *heads

    def with_change(self, words, **changes):
        return replace(self, changes=(*self.changes, words), **changes)

    def sentence(self):
        """The chapter's sentence, (num_tokens, d_in), or a batch that holds it twice."""
        x = embeddings("cat" if self.d_in == 6 else "journey").to(self.dtype)
        return x if self.plain else torch.stack((x, x))

    def drawn(self):
        """The layer, drawn from torch's own generator."""
        layer = make_layer(self.layer, self.sizes, self.qkv_bias, self.mistake, self.dtype)
        torch.default_generator.manual_seed(self.seed)
        for name in self.before:
            draw_before(name)
        for name, part in parts_in_order(layer, self.order):
            if self.each and name != "out_proj":
                torch.default_generator.manual_seed(self.seed)
            draw_part(part, self.draw)
        return layer.train(self.p > 0)

    @torch.no_grad()
    def tables(self):
        """(step, numbers) for the layer's matrices, and for what its steps return."""
        layer = self.drawn()
        with Steps() as steps:
            output = layer(self.sentence())
        if self.layer == "MultiHeadAttentionWrapper":  # its heads are causal layers
            return [("output", output)]
        # copies, since the layer will be drawn again
        matrices = [(name.removesuffix(".weight"), part.detach().clone()) for name, part in layer.named_parameters()]
        by_hand = masked_by_hand(dict(steps.taken)) if self.plain else []
        return [*matrices, *steps.taken, ("output", output), *by_hand]


@cache
def embeddings(name):
    return load_sentence(name).embeddings


@cache
def make_layer(name, sizes, qkv_bias, mistake, dtype):
    """A layer that each recipe of its kind draws again."""
    made = getattr(attention_helpers, name)
    if mistake:
        made = with_mistake(made, mistake)
    options = {"qkv_bias": True} if qkv_bias else {}
    return draw_dropout_from(made(*sizes, **options).to(dtype))


def parts_in_order(layer, order):
    """(name, part) for each matrix, in the order in which they're drawn, head after head."""
    plain = layer.named_parameters(recurse=False)
    parts = [(*name.rpartition("."), part) for name, part in (*plain, *layer.named_modules())]
    chosen = [(head, order.index(name), name, part) for head, _, name, part in parts if name in order]
    return [(name, part) for _, _, name, part in sorted(chosen, key=lambda found: found[:2])]


def draw_part(part, draw):
    """Draw a matrix, and its bias if it has one, again."""
    if isinstance(part, nn.Linear) and not draw:
        part.reset_parameters()
        return
    function = torch.randn if draw == "randn" else torch.rand
    if isinstance(part, nn.Linear):
        part.weight.data.copy_(function(part.weight.shape[::-1], dtype=part.weight.dtype).mT)
    else:
        part.data.copy_(function(part.shape, dtype=part.dtype))


def draw_before(name):
    """What was drawn from the same seed before: a layer, which may have been called in training, too."""
    if name != AFTER_TRAINING:
        sizes = (3, 2) if name.startswith("SelfAttention") else (3, 2, 6, 0.0)
        sizes += (2,) if name.startswith("MultiHead") else ()
        getattr(attention_helpers, name)(*sizes)
        return
    x = embeddings("journey")
    draw_dropout_from(CausalAttention(3, 2, 6, 0.5))(torch.stack((x, x)))


class Steps(TorchFunctionMode):
    """While active, write down what the steps of a layer return."""

    PRODUCTS = "queries", "keys", "values", "scores", "context vectors", "output"
    OTHERS = {  # noqa: RUF012
        "div": "scaled scores",
        "masked_fill": "masked scores",
        "softmax": "weights",
        "mul": "weights after dropout",
    }

    def __init__(self):
        super().__init__()
        self.taken = []
        self.products = iter(self.PRODUCTS)

    def __torch_function__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if function.__name__ in ("linear", "matmul"):
            self.taken.append((next(self.products, "output"), result))
        elif function.__name__ in self.OTHERS:
            self.taken.append((self.OTHERS[function.__name__], result))
        return result


def masked_by_hand(steps):
    """What section 3.5 makes of scores and weights, before it has a class that does."""
    future = causal_mask(len(steps["scores"]))
    kept = steps["weights"].tril()
    renormalized = kept / kept.sum(dim=-1, keepdim=True)
    yield "masked scores", steps["scores"].masked_fill(future, -torch.inf)
    yield "weights, zero above the diagonal", kept
    yield "causal weights", renormalized
    yield from dropped_by_hand(renormalized)


def dropped_by_hand(weights):
    """Dropout of 0.5 from seed 123, drawn for these weights first, and after a matrix of ones."""
    dropout = Dropout(0.5)
    torch.default_generator.manual_seed(123)
    yield "causal weights after dropout", dropout(weights)
    yield "causal weights after a second draw of dropout", dropout(weights)


OVER_QUERIES = "but softmax ran over the queries (dim=0), not over the keys (dim=-1)"
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
    yield "scores, divided by their sum", scores / scores.sum(dim=-1, keepdim=True), ""
    yield "weights", weights, ""
    yield "context vectors", weights @ x, ""
    for wrong, words in (turned, OVER_QUERIES), (divided, DIVIDED):
        yield "weights", wrong, words
        yield "context vectors", wrong @ x, words


def chapters_recipes():
    """The layers of the chapter."""
    yield Recipe("SelfAttention_v1", 123)
    yield Recipe("SelfAttention_v2", 789)
    yield Recipe("CausalAttention", 123)
    yield Recipe("MultiHeadAttentionWrapper", 123)
    yield Recipe("MultiHeadAttention", 123)
    yield Recipe("MultiHeadAttention", 123, d_in=6, d_out=6)


def drawn_otherwise(recipe):
    """The recipe with each change that lessons and readers make to how a layer is drawn."""
    for seed in USUAL_SEEDS:
        if seed != recipe.seed:
            yield recipe.with_change(f"where the chapter has seed {recipe.seed}", seed=seed)
    yield recipe.with_change("set again before each matrix", each=True)
    for first, second, third in itertools.permutations(ORDER[:3]):
        if (first, second, third) != ORDER[:3]:
            words = f"with the matrices drawn in another order ({first}, {second}, {third})"
            yield recipe.with_change(words, order=(first, second, third, "out_proj"))
    yield recipe.with_change("drawn a second time without setting the seed again", before=(recipe.layer,))
    yield recipe.with_change("computed in float64, which draws other numbers", dtype=torch.float64)
    yield recipe.with_change("drawn by `torch.randn`", draw="randn")
    if recipe.layer != "SelfAttention_v1":
        yield recipe.with_change("drawn by `torch.rand`, not by `nn.Linear`", draw="rand")
        yield recipe.with_change("with `qkv_bias=True`", qkv_bias=True)
        yield recipe.with_change("drawn right after `SelfAttention_v1`", before=("SelfAttention_v1",))


def sized_otherwise(recipe):
    """The recipe with other usual sizes."""
    for d_out in {1, 2, 3, 4, 6} - {recipe.d_out}:
        if recipe.layer != "MultiHeadAttention" or d_out % recipe.num_heads == 0:
            yield recipe.with_change(f"with `d_out={d_out}`, not {recipe.d_out}", d_out=d_out)
    for num_heads in {1, 2, 3, 4} - {recipe.num_heads}:
        stacked = recipe.layer == "MultiHeadAttentionWrapper"
        split = recipe.layer == "MultiHeadAttention" and recipe.d_out % num_heads == 0
        if stacked or split:
            yield recipe.with_change(f"with `num_heads={num_heads}`, not {recipe.num_heads}", num_heads=num_heads)


def mistaken(recipe):
    """The recipe with each mistake that its class can have."""
    for mistake in mistakes_of(getattr(attention_helpers, recipe.layer)):
        yield replace(recipe, mistake=mistake)


def with_dropout(recipe):
    if not recipe.plain:
        yield recipe.with_change("in training", p=0.5)


def one_step_away():
    """The chapter's recipes, those of single lessons, and all that differ in one thing."""
    bases = list(chapters_recipes())
    yield from bases
    [thrown] = [row for row in mistaken(bases[2]) if row.mistake.name == "throws the masked copy away"]
    yield from with_dropout(thrown)
    yield Recipe("SelfAttention_v2", 123).with_change(
        "drawn right after `SelfAttention_v1`", before=("SelfAttention_v1",)
    )
    [both] = [row for row in mistaken(bases[3]) if row.mistake == thrown.mistake]
    yield both.with_change("drawn right after `CausalAttention` was called in training", before=(AFTER_TRAINING,))
    for base in bases:
        for vary in drawn_otherwise, sized_otherwise, mistaken, with_dropout:
            yield from vary(base)


def two_steps_away():
    """What differs in two things: how a layer is drawn, its sizes, or a mistake."""
    for base in chapters_recipes():
        sized = list(sized_otherwise(base))
        drawn = list(drawn_otherwise(base))
        for changed in (*drawn, *sized):
            if changed.order == ORDER:
                yield from mistaken(changed)
        for changed in sized:
            yield from drawn_otherwise(changed)
            yield from sized_otherwise(changed)
        for changed in drawn:
            if changed.seed == base.seed:
                yield from (twice for twice in drawn_otherwise(changed) if twice.seed != base.seed)
