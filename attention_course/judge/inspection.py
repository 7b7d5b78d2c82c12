"""Examine a layer that somebody else wrote, whatever it does: its attention maps, its influence, and our verdicts."""

import copy
from contextlib import suppress
from typing import NamedTuple

import torch
from torch.nn.parameter import is_lazy

from attention_helpers.state import keep_state

from . import course, leaks, measures, training
from .calling import Call, learners_code, seed_all, widen
from .case import Case
from .lines import failure
from .seen import record
from .verdicts import Verdict

MEASURES = {  # by topic, the weightiest first
    "returned": measures.on_returned_weights,
    "unregistered": measures.on_unregistered,
    "state": measures.on_state,
    "chance": measures.on_chance,
    "nan": measures.on_nan,
    "future": leaks.on_the_future,
    "training": training.on_training,
    "past": measures.on_the_past,
    "sums": measures.on_row_sums,
    "unused": measures.on_unused,
    "gradients": training.on_gradients,
    "course": course.on_the_course,
    "first": measures.on_tokens_first,
    "fewer": measures.on_fewer_tokens,
    "batch": measures.on_a_batch,
}


AT_OTHER_SIZES = "nan", "future", "past", "sums", "unused", "course"  # what depends on them


class LayerState(NamedTuple):
    """What the picture shows of one layer. The verdicts and the influence are of eval mode, unless they say so."""

    maps: torch.Tensor  # (num_maps, num_tokens, num_tokens), as softmax returned them
    shown: torch.Tensor  # (num_maps, num_tokens, num_tokens), as they average the values
    result: torch.Tensor  # (num_tokens, width), what the layer returned
    influence: torch.Tensor  # (num_tokens, num_tokens): how far row i moves when token j is perturbed
    unmeasured: str  # why there's no influence, which is then 0: the layer is random, or a row is NaN
    verdicts: dict  # of Verdict by topic, the weightiest first
    size: str  # the shapes of what goes in and out, and how many parameters, in words
    operations: str


class Elsewhere(NamedTuple):
    """What was found of the same class at other sizes."""

    where: str
    verdicts: dict
    like: tuple  # the rows of the list that explain it there


def look_at(layer, x, seed, training=False, tokens=(), twin=None, hint=None, elsewhere=None):
    """What the picture shows of a layer on one sentence (num_tokens, d_in), with all randomness drawn from the seed.

    tokens: the sentence's words, for the verdicts. twin: the same layer with dropout, if this one has none. hint: how
    many heads it was asked for. elsewhere: an Elsewhere, with which all verdicts must agree. Errors: ValueError for an
    error in the learner's code, with its line, and for rows that aren't one per token and real; Unsuited, which is a
    ValueError too, for a layer that we can't call or look into.
    """
    with learners_code():
        case, started, layer = case_of(layer, x, seed, tokens, twin, hint, elsewhere.like if elsewhere else ())
        call = case.call
        with keep_state(layer, training=False):
            verdicts = started | judge(case)
            shown = case.seen
            if training and call.parts:
                call.layer.train()
                seed_all(seed)
                shown = record(call, call.x)
    unmeasured = "it's random in eval mode" if call.random else "a row is NaN" * bool(call.rows.isnan().any())
    return LayerState(
        maps=shown.made.nan_to_num(0.0, 0.0, 0.0),  # a row that is hidden as a whole
        shown=shown.used.nan_to_num(0.0, 0.0, 0.0),
        result=widen(call.rows_of(shown.result)),
        influence=torch.zeros(call.moved.shape) if unmeasured else widen(call.moved),
        unmeasured=unmeasured,
        verdicts=agreed(verdicts, elsewhere) if elsewhere else verdicts,
        size=describe_size(call),
        operations=str(shown),
    )


def look_elsewhere(x, layer, twin=None, hint=None):
    """The same at sizes that nobody sees, as an Elsewhere; None if the layer doesn't run there."""
    with suppress(ValueError), learners_code():
        case, started, layer = case_of(layer, x, 0, (), twin, hint, ())
        with keep_state(layer, training=False):
            verdicts = started | judge(case, AT_OTHER_SIZES)
        sizes = f"{len(x)} tokens of width {x.shape[1]}" + (f" and {hint} heads" if hint else "")
        return Elsewhere(f"at {sizes}", verdicts, tuple(filter(None, [case.mistake])))


def case_of(layer, x, seed, tokens, trained, hint, like):
    """A Case; a Verdict if no token moved another's row until random numbers replaced the zeros that it starts with."""
    for each in (layer, trained):
        if isinstance(each, torch.nn.Module) and any(map(is_lazy, each.parameters())):
            Call(each, x)  # which gives it its shapes
            each.load_state_dict(layer.state_dict(), strict=False)  # both have drawn their own
    seed_all(seed)
    with keep_state(layer, training=False):
        call = Call(layer, x, tokens, seed)
    zeros = [name for name, each in call.parameters.items() if each.numel() and not each.any()]
    zeros = [name for name in zeros if not name.endswith("bias")]
    if not (call.alone and zeros and call.rows.isfinite().all()):
        return Case(call, trained, hint, like), {}, layer
    layer = copy.deepcopy(layer)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, each in layer.named_parameters():
            if name in zeros:
                each += torch.randn(each.shape, generator=generator).to(each) / 2
    with keep_state(layer, training=False):
        call = Call(layer, x, tokens, seed)
    words = f"{', '.join(zeros)} is 0, so no token moves another's row; we judged it with random numbers there"
    return Case(call, None, hint, like), {"started": Verdict("•", "It starts at 0", words)}, layer


def judge(case, topics=tuple(MEASURES)):
    """The Verdicts on a layer by topic, the weightiest first."""
    said = {}
    for topic in topics:
        try:
            said[topic] = MEASURES[topic](case)
        except Exception as error:
            said[topic] = Verdict("?", f"Couldn't measure it ({topic})", failure(error))
    same = said.get("course")
    if same and same.sign == "✓" and any(each and each.sign == "✗" for each in said.values()):
        del said["course"]
    return {topic: verdict for topic, verdict in said.items() if verdict}


def agreed(verdicts, elsewhere):
    """Verdicts at two sizes as one: what's worse counts, with the place where it was seen."""
    order = "✗?•✓"
    both = dict(verdicts)
    for topic, there in elsewhere.verdicts.items():
        here = both.get(topic)
        if topic == "unused" and there.sign == "✓":
            both[topic] = there  # at some sizes, such as one entry per head, nothing moves
        elif here is None or order.index(there.sign) < order.index(here.sign):
            both[topic] = there._replace(words=f"{elsewhere.where}: {there.words}")
    return {topic: both[topic] for topic in ["started", *MEASURES] if topic in both}


def describe_size(call):
    """What goes in and out, of several results the one that's judged, and how many parameters, in words."""
    given = call.x.transpose(0, 1) if call.tokens_first else call.x
    which = f" (result {call.place + 1} of {len(call.shapes)})" if len(call.shapes) > 1 else ""
    parameters = sum(each.numel() for each in call.parameters.values())
    return f"{tuple(given.shape)} in, {call.shapes[call.place]} out{which}, {parameters} parameters"
