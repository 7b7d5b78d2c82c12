"""Examine a layer that somebody else wrote, whatever it does: its attention maps, its influence, and our verdicts."""

from typing import NamedTuple

import torch

from attention_helpers.state import keep_state

from . import findings
from .calling import Call, learners_code, seed_all
from .course import UNLIKE_OURS, on_the_course
from .leaks import on_the_future
from .maps import widen
from .recorder import record, tensors_in
from .training import gap_in_training, in_training, measure_gradients, on_gradients, on_nan, on_training

# Nobody misses what these make.
IDLE = {"clone", "detach", "contiguous", "to", "float", "cpu", "mean", "arange", "zeros", "ones", "empty", "type_as"}
IDLE |= {"getitem"}  # as of a cache that a wrapper drops


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


def look_at(layer, x, seed, training=False, tokens=(), twin=None):
    """What the picture shows of a layer on one sentence (num_tokens, d_in), with all randomness drawn from the seed.

    tokens: the sentence's words, for the verdicts. twin: the same layer with dropout, if this one has none. Errors:
    ValueError for an error in the learner's code, with its line, and for rows that aren't one per token and real;
    Unsuited, which is a ValueError too, for a layer that we can't call or look into.
    """
    with learners_code():
        seed_all(seed)
        call = Call(layer, x, tokens)
        with keep_state(layer, training=False):
            call.start(seed)
            seed_all(seed)
            call.twin = Call(twin, x).layer if twin else call.layer
            unmeasured = "it's random in eval mode" if call.random else "a row is NaN" * bool(call.rows.isnan().any())
            verdicts = judge(call)
            shown = call.watched
            if training and call.parts:
                call.layer.train()
                seed_all(seed)
                shown = record(call, call.x)
    return LayerState(
        maps=shown.made.nan_to_num(0.0, 0.0, 0.0),  # a row that is hidden as a whole
        shown=shown.used.nan_to_num(0.0, 0.0, 0.0),
        result=widen(call.rows_of(shown.result)),
        influence=torch.zeros(call.moved.shape) if unmeasured else widen(call.moved),
        unmeasured=unmeasured,
        verdicts=verdicts,
        size=describe_size(call),
        operations=str(call.watched),
    )


def describe_size(call):
    """What goes in and out, of several results the one that's judged, and how many parameters, in words."""
    given, results = call.x.transpose(0, 1) if call.tokens_first else call.x, tensors_in(call.watched.result)
    which = f" (result {call.place + 1} of {len(results)})" if len(results) > 1 else ""
    parameters = sum(each.numel() for each in call.parameters.values())
    return f"{tuple(given.shape)} in, {tuple(results[call.place].shape)} out{which}, {parameters} parameters"


def judge(call):
    """All Verdicts on a layer by topic, the weightiest first."""
    call.dead = [each for each in call.watched.operations if each.unused and each.name not in IDLE]
    call.mixing = findings.mixing_view(call.watched)
    call.dropped = in_training(call, 0.2)
    sound = not call.random and bool(call.rows.isfinite().all())
    said = {
        "returned": findings.on_returned_weights(call),
        "unregistered": findings.on_unregistered(call),
        "state": findings.on_state(call),
        "chance": findings.on_chance(call),
        "nan": None if call.random else on_nan(call, call.watched),
        "twice": findings.on_second_softmax(call),
    }
    future = on_the_future(call) if sound else None
    call.unmasked = sound and future.sign == "•"
    call.gap = gap_in_training(call) if sound and future.sign != "✗" else 0.0
    call.grads = measure_gradients(call) if sound and call.parts else {}
    said |= {
        "future": future,
        "training": on_training(call, future.sign == "✓") if sound and future.sign != "✗" else None,
        "past": findings.on_the_past(call) if sound else None,
        "summed": findings.on_summed_heads(call),
        "sums": None if call.random else findings.on_row_sums(call),
        "unused": findings.on_unused(call),
        "gradients": on_gradients(call) if sound else None,
    }
    if sound and not call.returns_weights:
        if not said["training"] and not said["gradients"]:
            course = on_the_course(call)
            said["course"] = None if course and course.sign == "✓" and future.sign == "✗" else course
        if not said.get("course") or said["course"].claim == UNLIKE_OURS:
            said["mixed"] = findings.on_mixed_rows(call)
            said["projections"] = None if said["gradients"] else findings.on_projections(call)
    said["first"] = findings.on_tokens_first(call)
    said["fewer"] = findings.on_fewer_tokens(call)
    said["batch"] = findings.on_a_batch(call) if sound else None
    return {topic: verdict for topic, verdict in said.items() if verdict}
