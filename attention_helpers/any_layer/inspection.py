"""Examine a layer that somebody else wrote, whatever it does: its attention maps, its influence, and our verdicts."""

import inspect
import io
from contextlib import contextmanager, redirect_stdout, suppress
from typing import NamedTuple

import torch

from ..operations import trace
from ..probes import eval_mode, perturbation_influence, rows
from ..seeded import DrawnFrom
from . import verdicts
from .maps import error_line, find_maps


class LayerState(NamedTuple):
    """What the picture shows of one layer. verdicts: sentences by name; judged: False if the layer is random."""

    maps: torch.Tensor  # (num_maps, num_tokens, num_tokens), as softmax returned them
    shown: torch.Tensor  # (num_maps, num_tokens, num_tokens), as they average the values
    context: torch.Tensor  # (num_tokens, width)
    influence: torch.Tensor  # (num_tokens, num_tokens): how far row i moves when token j is poked, in eval mode
    judged: bool
    verdicts: dict
    given: tuple  # the shape of what the layer was given
    found: tuple  # which operations made the maps, and where
    parameters: int
    operations: str


class Taking:
    """A layer as a function of one sentence (1, num_tokens, d_in), or (num_tokens, d_in) if it takes no batch.

    A forward with the three arguments q, k and v gets the sentence for each of them. An error in the learner's code
    becomes a ValueError that names the line.
    """

    def __init__(self, layer, x):
        self.layer = layer
        parameters = inspect.signature(getattr(layer, "forward", layer)).parameters.values()
        needed = [each.name[0] for each in parameters if each.default is each.empty and each.kind != each.VAR_KEYWORD]
        self.times = 3 if needed == ["q", "k", "v"] else 1
        self.x = x[None]  # (1, num_tokens, d_in)
        with learners_code(), eval_mode(layer):
            try:
                rows(self.context, self.x)
            except Exception:
                with suppress(Exception):  # if it takes neither, the learner sees what's wrong with the batch
                    rows(self.context, x)
                    self.x = x
                if self.x is not x:
                    raise

    def __call__(self, x):
        return self.layer(*[x] * self.times)

    def context(self, x):
        return verdicts.context_of(self(x))


@contextmanager
def learners_code():
    """Name the line of an error, hide prints, and restore torch's global random state."""
    random_state = torch.get_rng_state()
    try:
        with redirect_stdout(io.StringIO()):
            yield
    except Exception as error:
        line = error_line(error)
        where = f"your layer fails in {line}: " if line else ""
        what = "" if isinstance(error, ValueError) and not line else f"{type(error).__name__}: "
        raise ValueError(f"{where}{what}{verdicts.first_line(error)}") from error
    finally:
        if not torch.equal(torch.get_rng_state(), random_state):  # a torch.manual_seed in the learner's code
            torch.set_rng_state(random_state)


def try_out(layer, x, seed):
    """Call a layer once, as look_at does first. Errors: as in look_at."""
    with DrawnFrom(torch.Generator().manual_seed(seed)):
        Taking(layer, x)


def look_at(layer, x, seed, training=False, num_heads=None):
    """What the picture shows of a layer on one sentence (num_tokens, d_in), with all randomness drawn from the seed.

    num_heads: for a layer that doesn't have the attribute itself. Errors: ValueError with the line for an error in the
    learner's code, and for a layer that doesn't return one row of real numbers per token.
    """
    generator, num_tokens = torch.Generator().manual_seed(seed), len(x)
    with DrawnFrom(generator):
        call = Taking(layer, x)
        with learners_code(), eval_mode(layer):
            judged = find_maps(call, call.x)
            future = verdicts.on_the_future(call, call.x, judged.maps, generator)
            random, operations = future == verdicts.RANDOM, trace(call, call.x)
            said = {
                "reads the future?": future,
                "rows sum to 1?": verdicts.on_row_sums(judged.maps, num_tokens, random),
                "results nobody used": verdicts.on_unused(operations.rows, judged.operations),
                "as in the course?": verdicts.on_the_course(layer, call.x, call.context(call.x), num_heads),
                "takes fewer tokens?": verdicts.on_fewer_tokens(call, call.x),
            }
            moved = torch.zeros(num_tokens, num_tokens) if random else perturbation_influence(call.context, call.x, 1.0)
        generator.manual_seed(seed)
        with learners_code():
            shown = judged
            if training and isinstance(layer, torch.nn.Module):
                layer.train()
                shown = find_maps(call, call.x)
            context = rows(lambda _: verdicts.context_of(shown.result), call.x)
    empty = torch.zeros(0, num_tokens, num_tokens)
    return LayerState(
        torch.cat([empty, *(each.weights for each in shown.maps)]).nan_to_num(0.0),
        torch.cat([empty, *(each.used for each in shown.maps)]).nan_to_num(0.0),
        context.nan_to_num(0.0, 0.0, 0.0), moved.nan_to_num(0.0, 0.0, 0.0), not random, said, tuple(call.x.shape),
        tuple(f"{each.made_by}{' in ' * bool(each.line)}{each.line}" for each in shown.maps),
        sum(parameter.numel() for parameter in layer.parameters()) if isinstance(layer, torch.nn.Module) else 0,
        str(operations),
    )  # fmt: skip
