"""Examine a layer that somebody else wrote, whatever it does: its attention maps, its influence, and our verdicts."""

import inspect
import io
from contextlib import contextmanager, redirect_stdout
from typing import NamedTuple

import torch

from ..operations import tensors_in, trace
from ..probes import eval_mode, perturbation_influence, rows
from ..seeded import DrawnFrom
from . import verdicts
from .course import on_the_course, parameters_of
from .lines import error_line, first_line, with_line
from .maps import find_maps
from .verdicts import Verdict


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


class Taking:
    """A layer as a function of one sentence (1, num_tokens, d_in), or (num_tokens, d_in) if it takes no batch.

    A forward with the three arguments q, k and v gets the sentence for each of them. If a layer returns several
    tensors, we judge the output: the first with one row per token that isn't a table of weights. An error in the
    learner's code becomes a ValueError that names the line.
    """

    def __init__(self, layer, x):
        self.layer, x = layer, x.clone()  # the layer may write into it
        parameters = inspect.signature(getattr(layer, "forward", layer)).parameters.values()
        needed = [each.name[0] for each in parameters if each.default is each.empty and each.kind != each.VAR_KEYWORD]
        self.mask = next((each.name for each in parameters if "mask" in each.name), "")
        self.times = 3 if needed == ["q", "k", "v"] else 1
        with learners_code() as printed, eval_mode(layer):
            try:
                self.first_call(x[None])
            except Exception as error:
                end = printed.tell()
                try:
                    self.first_call(x)
                except Exception:
                    printed.truncate(end)
                    raise error from None  # it takes neither, so the learner sees what's wrong with the batch

    def first_call(self, x):
        """Watch a call, and find the output in what it returned."""
        watched = find_maps(self, x)
        tensors, num_tokens = tensors_in(watched.result), x.shape[-2]
        others = ((n, each) for n, each in enumerate(tensors) if not watched.weights[n])
        possible = (n for n, each in others if each.shape[:-1].numel() == num_tokens)
        self.x, self.watched, self.place = x, watched, next(possible, 0)
        self.returns_weights = bool(watched.maps) and bool(tensors) and watched.weights[self.place]
        self.rows = self.rows_of(watched.result)  # which checks that there is one row per token

    def __call__(self, x):
        return self.layer(*[x] * self.times)

    def output(self, x):
        return self.output_of(self(x))

    def output_of(self, result):
        tensors = tensors_in(result)
        return tensors[self.place] if tensors else result

    def rows_of(self, result):
        """The output as (num_tokens, width). Errors: ValueError for one without a row per token."""
        if result is None:
            raise ValueError("your layer returns None: end `forward` with a `return`")
        if self.returns_weights and self.output_of(result).shape[:-1].numel() != self.x.shape[-2]:
            shape = tuple(self.output_of(result).shape)
            raise ValueError(f"your layer returns its attention weights, {shape}: return them times the values")
        return rows(lambda _: self.output_of(result), self.x)

    def ignored(self):
        """What the layer returned next to the output, "" if nothing."""
        tensors = zip(tensors_in(self.watched.result), self.watched.weights, strict=True)
        kinds = [f"{tuple(tensor.shape)}{', attention weights' * weights}" for tensor, weights in tensors]
        others = "; ".join(kinds[: self.place] + kinds[self.place + 1 :])
        return f"judged by result {self.place + 1} of {len(kinds)}, ignored: {others}" if others else ""


@contextmanager
def learners_code():
    """Name the line of an error, collect what is printed, and restore torch's global random state."""
    printed = io.StringIO()
    try:
        with redirect_stdout(printed), torch.random.fork_rng(devices=[]):  # a learner may call torch.manual_seed
            yield printed
    except Exception as error:
        line = error_line(error)
        where = f"your layer fails in {line}: " if line else ""
        what = "" if isinstance(error, ValueError) and not line else f"{type(error).__name__}: "
        said = " / ".join(printed.getvalue()[:300].splitlines())
        raise ValueError(f"{where}{what}{first_line(error)}{'; it printed: ' * bool(said)}{said}") from error


def try_out(layer, x, seed):
    """Call a layer once, as look_at does first. Errors: as in look_at."""
    with DrawnFrom(torch.Generator().manual_seed(seed)):
        Taking(layer, x)


def look_at(layer, x, seed, training=False):
    """What the picture shows of a layer on one sentence (num_tokens, d_in), with all randomness drawn from the seed.

    Errors: ValueError with the line for an error in the learner's code, and for a layer that doesn't return one row of
    real numbers per token.
    """
    generator = torch.Generator().manual_seed(seed)
    with DrawnFrom(generator):
        before = generator.get_state()
        call = Taking(layer, x)
        random = not torch.equal(before, generator.get_state())
        with learners_code(), eval_mode(layer):
            with redirect_stdout(io.StringIO()) as printed:  # of this call only: there are hundreds more
                operations = trace(call, call.x)
            moved = torch.zeros(len(x), len(x)) if random else perturbation_influence(call.output, call.x, 1.0)
            said = judge(layer, call, operations.rows, moved, random)
        generator.manual_seed(seed)
        shown, result = call.watched, call.rows
        if training and isinstance(layer, torch.nn.Module):
            with learners_code():
                layer.train()
                shown = find_maps(call, call.x)
                result = call.rows_of(shown.result)
    none = [torch.zeros(0, len(x), len(x))]
    maps = torch.cat(none + [each.weights for each in shown.maps])
    used = torch.cat(none + [each.used for each in shown.maps])
    context, owners = side_by_side(shown.maps, len(x))
    maps, used = maps.nan_to_num(0.0, 0.0, 0.0), used.nan_to_num(0.0, 0.0, 0.0)  # a row that is hidden as a whole
    found = tuple(with_line(each.made_by, each.line, code=True) for each in shown.maps)
    returned = tuple(tensors_in(call.watched.result)[call.place].shape)
    parameters = sum(parameter.numel() for _, parameter in parameters_of(layer))
    return LayerState(
        maps, used, result, context, owners, moved, random, said, tuple(call.x.shape), returned, call.ignored(),
        found, parameters, str(operations), printed.getvalue(),
    )  # fmt: skip


def judge(layer, call, operations, moved, random):
    """All verdicts on a layer, the weightiest first. operations: a Trace's rows; moved: its influence."""
    x, output, watched, num_tokens = call.x, call.output, call.watched, call.x.shape[-2]
    lines = [line for *_, line in watched.operations]
    lines = lines if len(lines) == len(operations) else [""] * len(operations)
    dead, mixing = verdicts.unused_operations(operations, lines), verdicts.mixing_view(operations, lines, num_tokens)
    parameters = {id(parameter): name for name, parameter in parameters_of(layer)}
    unread = [name for key, name in parameters.items() if key not in watched.read]
    loose = [tensor for key, tensor in watched.read.items() if tensor.requires_grad and key not in parameters]
    said = {"returned": verdicts.on_returned_weights(watched.maps)} if call.returns_weights else {}
    if loose and isinstance(layer, torch.nn.Module):
        said["unregistered"] = verdicts.on_unregistered(sum(tensor.numel() for tensor in loose))
    if random:
        said["chance"] = verdicts.on_chance(watched.drew)
    elif call.rows.isnan().any():
        said["nan"] = verdicts.on_nan(call.rows, watched.nan)
    else:
        said["future"] = verdicts.on_the_future(output, x, watched, dead, mixing, call.mask)
    sound = "future" in said and said["future"].sign != "?"  # else there's nothing to compare with
    if sound and not call.returns_weights:
        said["past"] = verdicts.on_the_past(output, x, call.rows, moved, watched.maps, mixing)
    for name, shape, line in watched.operations:
        if name == "batch_norm" and shape[1] != num_tokens:  # else it has a mean for each token
            cause = f"{with_line(name, line)} averages all tokens"
            said["norm"] = Verdict("✗", "In training, it reads the future", cause)
    if watched.early:
        said["early"] = Verdict("✗", "Dropout comes before softmax", f"{watched.early} drops scores, not weights")
    said["sums"] = verdicts.on_row_sums(watched, num_tokens, random)
    said["unused"] = verdicts.on_unused(dead, unread)
    if sound and not call.returns_weights:
        said["course"] = on_the_course(layer, x, call.rows, watched.maps)
    said["fewer"] = verdicts.on_fewer_tokens(watched.fewer, num_tokens)
    if sound:
        said["batch"] = verdicts.on_a_batch(output, x, call.rows)
    return said


def side_by_side(maps, num_tokens):
    """The heads' context vectors (num_tokens, sum of widths), and each entry's map; width 0 if one isn't found."""
    heads = [head for each in maps if each.context is not None for head in each.context]
    if not heads or len(heads) != sum(len(each.weights) for each in maps):
        return torch.zeros(num_tokens, 0), []
    return torch.cat(heads, dim=-1), [n for n, head in enumerate(heads) for _ in range(head.shape[-1])]
