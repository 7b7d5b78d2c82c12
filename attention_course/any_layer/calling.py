"""Call any layer with one sentence, whatever its `forward` calls it: x, or query, key and value, or more."""

import copy
import inspect
import io
import random
import re
import sys
import traceback
from contextlib import contextmanager, redirect_stdout, suppress

import torch
from torch.nn.parameter import is_lazy

from attention_helpers.probes import perturbation_influence, rows
from attention_helpers.state import keep_state

from .lines import error_line, failure, first_line
from .recorder import record, tensors_in

# Arguments of `forward`, besides the first, that get the sentence; or another text, which is the same here.
OURS = re.compile(r"(\w+_)?(x|q|k|v|kv|quer(y|ies)|keys?|values?)(_|$)", re.IGNORECASE)
OTHER_INPUTS = re.compile(r"context|ctx|mem|cond|enc|cross|y$", re.IGNORECASE)


class Unsuited(ValueError):
    """A layer that isn't wrong, but that we can't examine."""


class Call:
    """A layer as a function of one sentence (1, num_tokens, d_in), or (num_tokens, d_in) if it takes no batch.

    Of several tensors that it returns, we judge the first with one row per token that isn't a table of weights.
    tokens: the sentence's words. Errors: Unsuited for what we can't call or look into.
    """

    def __init__(self, layer, x, tokens=()):
        self.layer = layer = getattr(layer, "_orig_mod", layer)  # of torch.compile
        self.sentence, self.tokens, self.given_mask = x, tokens, None
        self.parts = [*layer.modules()] if isinstance(layer, torch.nn.Module) else []
        if any(isinstance(each, torch.jit.ScriptModule) for each in self.parts):
            raise Unsuited("LayerExplorer can't look inside a scripted or traced module; `find_leak` can")
        self.tokens_first = self.isolated = False
        self.read_signature()
        if self.parts and any(map(is_lazy, layer.parameters())):
            with torch.no_grad():
                self(x[None])  # which gives them their shapes
        module = layer if self.parts else torch.nn.Module()
        self.parameters = dict(module.named_parameters())
        kinds = [each.dtype for each in (*self.parameters.values(), *module.buffers()) if each.is_floating_point()]
        if kinds and x.dtype not in kinds:
            self.sentence = x.to(kinds[0])

    def read_signature(self):
        """What each required argument of `forward` gets. Errors: Unsuited for one that we don't know."""
        parameters = signature_of(getattr(self.layer, "forward", self.layer))
        needed = [each.name for each in parameters if each.default is each.empty and each.kind not in (2, 4)]
        options = [each.name for each in parameters if each.default is not each.empty]
        self.roles = {name: role_of(name, first=not n) for n, name in enumerate(needed)}
        if unknown := ", ".join(name for name, role in self.roles.items() if not role):
            raise Unsuited(
                f"LayerExplorer calls `forward(x)`, but {type(self.layer).__name__}'s forward also needs {unknown}: "
                f"pass a subclass whose `forward(self, x)` returns `super().forward(x, {unknown})`"
            )
        self.other_name = next((name for name, role in self.roles.items() if role == "other"), "")
        self.mask = next(filter(is_mask, options), "")  # one that would hide the future, but isn't given
        self.switches = [name for name in options if "mask" not in name]  # they may decide what's used

    def start(self, seed):
        """Find out what it takes, record a call, and measure whether it draws random numbers, or keeps something."""
        try:
            self.begin(self.sentence[None], seed)
        except Exception as error:
            with suppress(Exception):
                return self.begin(self.sentence, seed)
            raise error from None  # it takes neither, so the learner sees what's wrong with the batch
        if self.alone:
            self.settle()

    def begin(self, x, seed):
        if "mask" in self.roles.values():
            self.given_mask = min(masks(x), key=lambda mask: self.future_weight(x, mask))
        self.repeat(x, seed)
        seed_all(seed)
        self.watch(x)
        self.random |= self.watched.first(lambda each: each.drew) is not None

    def future_weight(self, x, mask):
        """How much weight a layer's maps have after the diagonal with a mask; infinity if it fails with it."""
        self.given_mask = mask
        with suppress(Exception):
            seen = record(self, x)
            if tensors_in(seen.result)[0].isfinite().all():
                return seen.used.triu(1).sum().item() if seen.maps else 1e9
        return torch.inf

    @torch.no_grad()
    def repeat(self, x, seed):
        """Call a copy twice with the same seed, and if the results differ, fresh copies; then with another seed."""
        layer, given = self.layer, x.clone()
        self.layer = self.copy_layer()
        first, second = self.seeded_call(given, seed), self.seeded_call(x.clone(), seed)
        self.writes, isolated = not same([given], [x]), not same(first, second)
        if isolated:
            before = self.held()
            self(x.clone())
            self.kept = [name for name, value in self.held().items() if before.get(name) != value]
        self.layer, self.isolated = layer, isolated
        second = self.seeded_call(x.clone(), seed) if isolated else second
        with keep_state(self.layer):
            self.random = not same(second, self.seeded_call(x.clone(), seed + 1))

    def seeded_call(self, x, seed):
        """The numbers of a call."""
        seed_all(seed)
        return [each.clone() for each in tensors_in(self(x))]

    def held(self):
        """All that the layer's parts hold, besides parameters, as text."""
        parts = [vars(each) | each._buffers for each in self.layer.modules()] if self.parts else []
        return {name: repr(each) for part in parts for name, each in part.items() if name[0] != "_"}

    def copy_layer(self):
        """A copy of the layer that shares its parameters; the layer itself if it can't be copied."""
        if self.parts:
            with suppress(Exception):
                return copy.deepcopy(self.layer, {id(each): each for each in self.layer.parameters()})
        return self.layer

    def watch(self, x):
        """Record a call, and measure the influence of one small perturbation per token, (num_tokens, num_tokens)."""
        self.x = x
        self.watched = record(self, x, again=True)
        tensors, weights = tensors_in(self.watched.result), self.watched.weights
        fits = [n for n, each in enumerate(tensors) if each.shape[:-1].numel() == x.shape[-2] and not weights[n]]
        self.place = [*fits, 0][0]
        self.returns_weights = bool(self.watched.maps and tensors) and weights[self.place]
        self.rows = self.rows_of(self.watched.result)  # which checks that there is one row per token
        self.moved = perturbation_influence(self.output, x, 1.0)
        self.alone = not self.moved.clone().fill_diagonal_(0.0).any()  # each row reads only its own token

    def settle(self):
        """Turn to (num_tokens, b, d_in) if a row reads only itself as things are, and other tokens then."""
        turned = copy.copy(self)
        turned.tokens_first = True
        with suppress(Exception):
            turned.watch(self.x)
            if not turned.alone:
                vars(self).update(vars(turned))

    def __call__(self, x):
        """The layer's result for a sentence or a batch; what it gets is prepared out of any recorder's sight."""
        with torch._C.DisableTorchFunction():
            n, mask = x.shape[-2], self.given_mask
            gets = {"ours": x, "other": self.sentence[:n].expand(*x.shape[:-1], -1)}
            if self.tokens_first:
                gets = {role: each.transpose(0, 1) for role, each in gets.items()}
            if mask is not None:
                mask = mask[..., :n, :n].expand(*x.shape[: mask.ndim - 2], -1, -1)
            gets |= {"none": None, "mask": mask}
            layer = self.copy_layer() if self.isolated else self.layer
        return layer(**{name: gets[role] for name, role in self.roles.items()}) if self.roles else layer(x)

    def output(self, x):
        """The rows of a sentence or batch, in its layout."""
        return self.output_of(self(x.clone()))  # it may write into it

    def output_of(self, result):
        tensors = tensors_in(result)
        output = tensors[self.place] if tensors else result
        return output.transpose(0, 1) if self.tokens_first and output.ndim == 3 else output

    def rows_of(self, result):
        """The output as (num_tokens, width). Errors: ValueError for one without a row per token."""
        if result is None:
            raise ValueError("your layer returns None: end `forward` with a `return`")
        return rows(lambda _: self.output_of(result), self.x)

    def said(self, what, *places):
        """Rows or tokens, by number and, if there are words, by word: “journey” (token 1)."""
        numbers = f"{what}{'s' * (len(places) > 1)} {', '.join(map(str, places))}"
        words = ", ".join(f"“{self.tokens[place]}”" for place in places if self.tokens)
        return f"{words} ({numbers})" if words else numbers


def signature_of(function):
    """The parameters of a function or class; none of a builtin one."""
    with suppress(TypeError, ValueError):
        return [*inspect.signature(function).parameters.values()]
    return []


def is_mask(name):
    """Whether an argument takes a mask that hides some keys from some queries, not padding from all."""
    return bool(re.search("mask|bias", name)) and not re.search("pad|key_mask|use_|is_", name)


def role_of(name, first):
    """What an argument of `forward` gets: our sentence, another text (the same sentence), or a mask; "" if unknown."""
    if "mask" in name:
        return "mask" if is_mask(name) else "none"
    return "ours" if first or OURS.match(name) else "other" if OTHER_INPUTS.match(name) else ""


def masks(x):
    """Causal masks, in the forms that are usual, then None. True keeps, or hides; or what is added to the scores."""
    keep = torch.ones(x.shape[-2], x.shape[-2], dtype=torch.bool).tril()
    plain = [keep, ~keep, torch.zeros_like(keep, dtype=x.dtype).masked_fill(~keep, -torch.inf)]
    return [*plain, *(mask[None] for mask in plain), None]


def same(ones, others):
    """Whether two lists hold equal tensors; NaN is like NaN."""
    pairs = zip(ones, others, strict=False)
    return len(ones) == len(others) and all(torch.equal(one.nan_to_num(), other.nan_to_num()) for one, other in pairs)


def seed_all(seed):
    """Seed whatever a layer may draw from; keep_state takes it back."""
    torch.default_generator.manual_seed(seed)
    random.seed(seed)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(seed % 2**32)


@contextmanager
def learners_code():
    """Name the line of an error, print nothing (there are hundreds of calls), and leave random numbers alone.

    An error without such a line, unless it's a ValueError of ours, isn't the learner's fault: it becomes Unsuited.
    """
    try:
        with redirect_stdout(io.StringIO()), keep_state(None):  # a learner may call torch.manual_seed
            yield
    except Unsuited:
        raise
    except Exception as error:
        passed = " ".join(traceback.format_exception(error)).replace("\\", "/")
        if re.search("torch/(_dynamo|_functorch|nn/attention/flex_attention)", passed):
            words = "LayerExplorer can't look inside flex_attention, torch.compile or vmap; `find_leak` can"
            raise Unsuited(words) from error
        if error_line(error):
            raise ValueError(f"your layer fails in {failure(error)}") from error
        raise (ValueError(first_line(error)) if isinstance(error, ValueError) else Unsuited(failure(error))) from error
