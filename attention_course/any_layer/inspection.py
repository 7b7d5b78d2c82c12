"""Examine a layer that somebody else wrote, whatever it does: its attention maps, its influence, and our verdicts."""

from contextlib import nullcontext
from typing import NamedTuple

import torch

from attention_helpers.state import keep_state

from . import findings
from .calling import Taking, learners_code
from .course import on_the_course
from .drawing import DrawnFrom
from .leaks import on_the_future, on_training
from .lines import memory
from .maps import find_maps, widened
from .operations import tensors_in, trace
from .verdicts import finding, worded

# Nobody misses what these make.
IDLE = {"clone", "detach", "contiguous", "to", "float", "cpu", "mean", "arange", "zeros", "ones", "empty", "type_as"}


class LayerState(NamedTuple):
    """What the picture shows of one layer. The verdicts and the influence are of eval mode."""

    maps: torch.Tensor  # (num_maps, num_tokens, num_tokens), as softmax returned them
    shown: torch.Tensor  # (num_maps, num_tokens, num_tokens), as they average the values
    result: torch.Tensor  # (num_tokens, width), what the layer returned
    influence: torch.Tensor  # (num_tokens, num_tokens): how far row i moves when token j is perturbed
    unmeasured: str  # why there's no influence, which is then 0: the layer is random, or a row is NaN
    verdicts: dict  # of Verdict, the weightiest first
    size: str  # the shapes of what goes in and out, and how many parameters, in words
    operations: str


def look_at(layer, x, seed, training=False, tokens=()):
    """What the picture shows of a layer on one sentence (num_tokens, d_in), with all randomness drawn from the seed.

    tokens: the sentence's words, for the verdicts.
    Errors: ValueError with the line for an error in the learner's code, and for a layer that doesn't return one row of
    real numbers per token; Unsuited, which is a ValueError too, for a layer that we can't call or look into.
    """
    generator = torch.Generator().manual_seed(seed)
    drawn = DrawnFrom(generator)
    with learners_code(), keep_state(layer, training=False):
        with drawn:
            before = generator.get_state()
            call = Taking(layer, x)
            random = not torch.equal(before, generator.get_state())
        with drawn if random else nullcontext():  # it slows each operation down
            call.settle()
            operations = trace(call, call.x)
            unmeasured = "it's random in eval mode" if random else "a row is NaN" * bool(call.rows.isnan().any())
            found = judge(call, operations.rows, random, seed)
        shown, result = call.watched, call.rows
        if training and isinstance(layer, torch.nn.Module):
            generator.manual_seed(seed)
            layer.train()
            with drawn:
                shown = find_maps(call, call.x, again=False)
            result = call.rows_of(shown.result)
    return LayerState(
        maps=shown.made.nan_to_num(0.0, 0.0, 0.0),  # a row that is hidden as a whole
        shown=shown.used.nan_to_num(0.0, 0.0, 0.0),
        result=widened(result),
        influence=torch.zeros(call.moved.shape) if unmeasured else widened(call.moved),
        unmeasured=unmeasured,
        verdicts={topic: worded(each, tokens) for topic, each in found.items()},
        size=sizes(call),
        operations=str(operations),
    )


def sizes(call):
    """What goes in and out, of several results the one that's judged, and how many parameters, in words."""
    given, results = call.x.transpose(0, 1) if call.tokens_first else call.x, tensors_in(call.watched.result)
    which = f" (result {call.place + 1} of {len(results)})" * (len(results) > 1)
    parameters = sum(parameter.numel() for _, parameter in call.parameters)
    return f"{tuple(given.shape)} in, {tuple(results[call.place].shape)} out{which}, {parameters} parameters"


def judge(call, operations, random, seed):
    """All Findings about a layer by topic, the weightiest first. operations: a Trace's rows; seed: see on_training."""
    watched = call.watched
    rows = operations if len(operations) == len(watched.operations) else []
    dead = [each for each, row in zip(watched.operations, rows, strict=False) if row.unused and each.name not in IDLE]
    mixing = findings.mixing_view(watched)
    sound = not random and not call.rows.isnan().any()
    future = on_the_future(call, dead, mixing) if sound else None
    unmasked = sound and future.kind in ("no mask", "no mask, by its name", "all, without maps")
    compares = sound and future.kind != "unjudged"  # else there's nothing to compare with
    summed = finding("summed", where=watched.summed[0].where, times=watched.summed[1]) if watched.summed else None
    said = {
        "returned": finding("returns weights", where=watched.maps[0].made.where) if call.returns_weights else None,
        "unregistered": on_unregistered(call, watched),
        "chance": findings.on_chance(watched) if random else None,
        "nan": None if random or sound else findings.on_nan(call),
        "future": future,
        "training": on_training(call, seed) if sound and future.kind in ("past only", "context") else None,
        "past": None,
        "summed": summed,
        "mixed": None,
        "sums": None if random else findings.on_row_sums(watched),
        "unused": findings.on_unused(call, dead),
        **dict.fromkeys(("course", "scale", "projections")),
        "first": finding("tokens first") if call.tokens_first else None,
        "fewer": findings.on_fewer_tokens(call, causal=not unmasked),
        "batch": findings.on_a_batch(call) if compares else None,
    }
    if compares and not call.returns_weights:
        said |= compared(call, unmasked, mixing)
    return {topic: found for topic, found in said.items() if found}


def compared(call, unmasked, mixing):
    """Findings about the past, and by comparison with the course's layers; a view that mixes rows."""
    course = on_the_course(call, mixing, unmasked)
    kind = course.kind if course else ""
    said = {"course": course, "past": None if call.other_name else findings.on_the_past(call, unmasked, mixing)}
    if unmasked and mixing and kind not in ("course", "changed"):
        said["mixed"] = finding("mixed rows", where=mixing.where)
    if kind in ("", "other numbers"):
        said["scale"] = findings.on_scale(call.watched)
        said["projections"] = findings.on_projections(call)
    return said


def on_unregistered(call, watched):
    """On trainable numbers that were read, but aren't parameters."""
    known = {memory(each) for _, each in call.parameters}
    leaves = (each for each in watched.read if each.numel() and each.is_leaf and each.requires_grad)
    loose = {memory(each): each for each in leaves if memory(each) not in known}
    numbers = sum(tensor.untyped_storage().nbytes() // tensor.element_size() for tensor in loose.values())
    return finding("unregistered", numbers=numbers) if numbers and isinstance(call.layer, torch.nn.Module) else None
