"""Examine a layer that somebody else wrote, whatever it does: its attention maps, its influence, and our verdicts."""

import io
from contextlib import nullcontext, redirect_stdout
from typing import NamedTuple

import torch

from attention_helpers.operations import tensors_in, trace
from attention_helpers.seeded import DrawnFrom, undisturbed

from . import findings
from .calling import Taking, learners_code
from .course import on_the_course, parameters_of
from .lines import memory, with_line
from .maps import find_maps, widened
from .verdicts import Finding, worded


class LayerState(NamedTuple):
    """What the picture shows of one layer. The verdicts and the influence are of eval mode."""

    maps: torch.Tensor  # (num_maps, num_tokens, num_tokens), as softmax returned them
    shown: torch.Tensor  # (num_maps, num_tokens, num_tokens), as they average the values
    result: torch.Tensor  # (num_tokens, width), what the layer returned
    context: torch.Tensor  # (num_tokens, sum of the heads' widths), what the weights averaged; width 0 if not found
    owners: list  # for each entry of a context vector, the index of its map
    influence: torch.Tensor  # (num_tokens, num_tokens): how far row i moves when token j is perturbed
    random: bool  # whether the layer is, in eval mode: then its influence is 0
    verdicts: dict  # of Verdict, the weightiest first
    given: tuple  # the shape of what the layer was given
    returned: tuple  # the shape of the result
    ignored: str  # what else was returned
    found: tuple  # which operations made the maps, and where
    parameters: int
    operations: str
    printed: str  # by one call of the layer; LayerExplorer puts in front what the constructor printed


def try_out(layer, x, seed):
    """Call a layer once, as look_at does first. Errors: as in look_at."""
    with DrawnFrom(torch.Generator().manual_seed(seed)):
        Taking(layer, x)


def look_at(layer, x, seed, training=False):
    """What the picture shows of a layer on one sentence (num_tokens, d_in), with all randomness drawn from the seed.

    Errors: ValueError with the line for an error in the learner's code, and for a layer that doesn't return one row of
    real numbers per token; Unsuited, which is a ValueError too, for a layer that we can't call or look into.
    """
    generator = torch.Generator().manual_seed(seed)
    drawn = DrawnFrom(generator)
    with learners_code(), undisturbed(layer, training=False):
        with drawn:
            before = generator.get_state()
            call = Taking(layer, x)
            random = not torch.equal(before, generator.get_state())
        with drawn if random else nullcontext():  # it slows each operation down
            call.settle()
            with redirect_stdout(io.StringIO()) as printed:  # of this call only: there are hundreds more
                operations = trace(call, call.x)
            found = judge(call, operations.rows, random, seed)
        shown, result = call.watched, call.rows
        if training and isinstance(layer, torch.nn.Module):
            generator.manual_seed(seed)
            layer.train()
            with drawn:
                shown = find_maps(call, call.x, again=False)
            result = call.rows_of(shown.result)
    return state_of(call, shown, result, random, found, operations, printed.getvalue())


def state_of(call, shown, result, random, found, operations, printed):
    """A LayerState. shown, result: what a call in the mode that's asked for showed."""
    num_tokens = call.x.shape[-2]
    none = [torch.zeros(0, num_tokens, num_tokens)]
    maps, used = (torch.cat(none + [getattr(each, name) for each in shown.maps]) for name in ("weights", "used"))
    context, owners = side_by_side(shown.maps, num_tokens)
    return LayerState(
        maps=maps.nan_to_num(0.0, 0.0, 0.0),  # a row that is hidden as a whole
        shown=used.nan_to_num(0.0, 0.0, 0.0),
        result=widened(result),
        context=context,
        owners=owners,
        influence=torch.zeros(num_tokens, num_tokens) if random else widened(call.moved),
        random=random,
        verdicts={topic: worded(each) for topic, each in found.items()},
        given=tuple(call.x.transpose(0, 1).shape if call.tokens_first else call.x.shape),
        returned=tuple(tensors_in(call.watched.result)[call.place].shape),
        ignored=call.ignored(),
        found=tuple(with_line(each.made_by, each.line, code=True) for each in shown.maps),
        parameters=sum(parameter.numel() for _, parameter in parameters_of(call.layer)),
        operations=str(operations),
        printed=printed,
    )


def judge(call, operations, random, seed):
    """All Findings about a layer by topic, the weightiest first. operations: a Trace's rows; seed: see on_training."""
    watched, num_tokens = call.watched, call.x.shape[-2]
    lines = [line for *_, line in watched.operations]
    lines = lines if len(lines) == len(operations) else [""] * len(operations)
    dead = [(row.operation, row.output, line) for row, line in zip(operations, lines, strict=True) if row.unused]
    mixing = findings.mixing_view(watched.views, num_tokens)
    unread, loose = registered(call.layer, watched.read)
    said, maps = {}, watched.maps
    if call.returns_weights:
        said["returned"] = Finding("returns weights", {"made_by": with_line(maps[0].made_by, maps[0].line)})
    if loose:
        said["unregistered"] = Finding("unregistered", {"numbers": loose})
    sound = not random and not call.rows.isnan().any()
    if random:
        said["chance"] = findings.on_chance(watched.drew)
    elif not sound:
        said["nan"] = findings.on_nan(call)
    else:
        said["future"] = findings.on_the_future(call, dead, mixing, hints(call, num_tokens))
    future = said["future"].kind if sound else ""
    sound = sound and future != "unjudged"  # else there's nothing to compare with
    unmasked = future in ("no mask", "no mask, by its name", "all, without maps")
    if future in ("past only", "context"):
        said["training"] = findings.on_training(call, seed)
    if sound and not call.returns_weights:
        if not call.others:
            said["past"] = findings.on_the_past(call, unmasked, mixing)
        said["course"] = on_the_course(call.layer, call.x, call.rows, watched)
        if unmasked and call.mask and said["course"] and said["course"].data.get("without"):
            said["course"].data["without"] += f": `forward` got no `{call.mask}`"
        if unmasked and mixing and (not said["course"] or said["course"].kind != "course"):
            said["mixed"] = mixed_rows(said, mixing)
        if not said["course"] or said["course"].kind in ("other numbers", "same weights"):
            said["scale"] = findings.on_scale(watched.scaled, num_tokens)
            said["projections"] = findings.on_projections(call, parameters_of(call.layer))
    if call.tokens_first:
        said["first"] = Finding("tokens first")
    if watched.early:
        said["early"] = Finding("early dropout", {"where": watched.early})
    if watched.summed:
        where, letter, size = watched.summed
        said["summed"] = Finding("summed", {"where": where, "letter": letter, "size": size})
    said["sums"] = findings.on_row_sums(watched, num_tokens, random)
    said["unused"] = findings.on_unused(dead, unread)
    said["fewer"] = findings.on_fewer_tokens(call, causal=not unmasked)
    if sound:
        said["batch"] = findings.on_a_batch(call)
    return {topic: said[topic] for topic in ORDER if said.get(topic)}


ORDER = [
    *("returned", "unregistered", "chance", "nan", "future", "training", "past", "summed", "mixed", "early", "sums"),
    *("unused", "course", "scale", "projections", "first", "fewer", "batch"),
]


def mixed_rows(said, mixing):
    """A view that mixes rows: by its line, if the course's layer confirms it, or else as an open question."""
    where, before, after = mixing
    if said["course"] and said["course"].kind == "scrambled":
        said["course"] = said["course"]._replace(data=said["course"].data | {"where": f"; it's {where}"})
        return None
    return Finding("mixed rows", {"where": where, "before": before, "after": after})


def registered(layer, read):
    """The names of parameters that no operation read, and how many trainable numbers were read that aren't parameters.

    A view of a parameter, such as W.T, is another tensor with the same memory.
    """
    known = {memory(parameter): name for name, parameter in parameters_of(layer) if parameter.numel()}
    seen = {memory(tensor): tensor for tensor in read if tensor.numel() and tensor.is_leaf}
    unread = [name for key, name in known.items() if key not in {memory(tensor) for tensor in read if tensor.numel()}]
    loose = {key: tensor for key, tensor in seen.items() if tensor.requires_grad and key not in known}
    numbers = sum(tensor.untyped_storage().nbytes() // tensor.element_size() for tensor in loose.values())
    return unread, numbers if isinstance(layer, torch.nn.Module) else 0


def hints(call, num_tokens):
    """What speaks for a mask: the name of the layer's class, and what makes a triangle, in a buffer or in a call."""
    buffers = call.layer.named_buffers() if isinstance(call.layer, torch.nn.Module) else []
    tables = [
        (f"its `{name}`", each.detach()[..., :num_tokens, :num_tokens]) for name, each in buffers if each.ndim > 1
    ]
    made = [name for name, each in tables if each.shape[-2:] == (num_tokens, num_tokens) and is_triangle(each)]
    return type(call.layer).__name__, next(iter(made), call.watched.triangle)


def is_triangle(table):
    """Whether a mask's lower triangle holds one number, and the rest another."""
    keep = torch.ones(table.shape[-2:], dtype=torch.bool).tril()
    lower, upper = (table.float()[..., part].unique() for part in (keep, ~keep))
    return len(lower) == len(upper) == 1 and lower != upper


def side_by_side(maps, num_tokens):
    """The heads' context vectors (num_tokens, sum of widths), and each entry's map; width 0 if one isn't found."""
    heads = [head for each in maps if each.context is not None for head in each.context]
    if not heads or len(heads) != sum(len(each.weights) for each in maps):
        return torch.zeros(num_tokens, 0), []
    return torch.cat(heads, dim=-1), [n for n, head in enumerate(heads) for _ in range(head.shape[-1])]
