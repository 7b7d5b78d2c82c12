"""How lessons draw the course's layers, and how readers do: every number on the way, from one seed to the output."""

import itertools
from dataclasses import dataclass, replace

import torch

import attention_helpers
from attention_course.mistakes import Mistake, mistakes_of

from .drawing import AFTER_TRAINING, draw_before, draw_part, embeddings, make_layer, matrices_of, parts_in_order
from .steps import Steps, masked_by_hand, unscaled_masked

ORDER = "W_query", "W_key", "W_value", "out_proj"
USUAL_SEEDS = 123, 789, 0, 1, 42, 1234


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
            draw_before(name, self.sizes if name == self.layer else (3, 2))
        for name, part in parts_in_order(layer, self.order):
            if self.each and name != "out_proj":
                torch.default_generator.manual_seed(self.seed)
            draw_part(part, self.draw)
        return layer.train(self.p > 0)

    @torch.no_grad()
    def tables(self):
        """The numbers of the layer's matrices and of each step, by name; of a sentence twice, as the batch has it."""
        layer = self.drawn()
        with Steps() as steps:
            output = layer(self.sentence())
        if self.layer == "MultiHeadAttentionWrapper":  # its heads are causal layers
            return {"output": output}
        taken = steps.taken | {"output": output}
        if self.plain:
            taken |= masked_by_hand(taken)
            taken = {name: torch.stack((numbers, numbers)) for name, numbers in taken.items()}
        elif not self.mistake:
            taken["masked scores, not yet divided"] = unscaled_masked(taken["scores"])
        return matrices_of(layer) | taken


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
    yield recipe.with_change("with the seed set again before each matrix, so that the three are equal", each=True)
    for names in itertools.permutations(ORDER[:3]):
        if names != ORDER[:3]:
            words = f"with the matrices drawn in another order ({', '.join(names)})"
            yield recipe.with_change(words, order=(*names, "out_proj"))
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
