"""Call any layer with one sentence, whatever its `forward` calls it: x, or query, key and value, or more."""

import copy
import inspect
import io
import random
import re
import sys
import traceback
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import is_dataclass

import torch
from torch.nn.parameter import is_lazy

from attention_helpers.probes import perturbation_influence, rounding, rows
from attention_helpers.state import keep_state

from .lines import error_line, failure, first_line

# Arguments of `forward`, besides the first, that get the sentence; or another text, which is the same here.
OURS = re.compile(r"(\w+_)?(x|q|k|v|kv|quer(y|ies)|keys?|values?)(_|$)", re.IGNORECASE)
OTHER_INPUTS = re.compile(r"context|ctx|mem|cond|enc|cross|y$", re.IGNORECASE)


class Unsuited(ValueError):
    """A layer that isn't wrong, but that we can't examine."""


class Call:
    """A layer as a function of one sentence (1, num_tokens, d_in), or (num_tokens, d_in) if it takes no batch.

    Of several tensors that it returns, we judge the first with one row per token that isn't a table of weights.
    It's made in eval mode, and finds out how the layer is called, and whether it draws, keeps or writes something.
    tokens: the sentence's words. Errors: Unsuited for what we can't call; what the layer raises.
    """

    def __init__(self, layer, x, tokens=(), seed=0):
        self.layer = layer = getattr(layer, "_orig_mod", layer)  # of torch.compile
        self.tokens, self.given_mask, self.seed = tokens, None, seed
        self.parts = [*layer.modules()] if isinstance(layer, torch.nn.Module) else []
        if any(isinstance(each, torch.jit.ScriptModule) for each in self.parts):
            raise Unsuited("LayerExplorer can't look inside a scripted or traced module; `find_leak` can")
        self.tokens_first = self.isolated = False
        self.place = 0  # of the output among the tensors that it returns
        self.sentence = x
        self.read_signature()
        if self.parts and any(map(is_lazy, layer.parameters())):
            with torch.no_grad():
                self(x[None])  # which gives them their shapes
        module = layer if self.parts else torch.nn.Module()
        self.parameters = dict(module.named_parameters())
        kinds = [each.dtype for each in (*self.parameters.values(), *module.buffers()) if each.is_floating_point()]
        if kinds and x.dtype not in kinds:
            self.sentence = x.to(kinds[0])
        try:
            self.start(self.sentence[None])
        except Exception as error:
            with suppress(Exception):
                return self.start(self.sentence)
            raise error from None  # it takes neither, so the learner sees what's wrong with the batch

    def read_signature(self):
        """What each required argument of `forward` gets. Errors: Unsuited for one that we don't know."""
        parameters = signature_of(getattr(self.layer, "forward", self.layer))
        needed = [each.name for each in parameters if each.default is each.empty and each.kind not in (2, 4)]
        self.options = {each.name: each.default for each in parameters if each.default is not each.empty}
        self.roles = {name: role_of(name, first=not n) for n, name in enumerate(needed)}
        if unknown := ", ".join(name for name, role in self.roles.items() if not role):
            raise Unsuited(
                f"LayerExplorer calls `forward(x)`, but {type(self.layer).__name__}'s forward also needs {unknown}: "
                f"pass a subclass whose `forward(self, x)` returns `super().forward(x, {unknown})`"
            )
        self.other_name = next((name for name, role in self.roles.items() if role == "other"), "")
        self.mask = next(filter(is_mask, self.options), "")  # one that would hide the future, but isn't given

    def start(self, x):
        self.x = x
        if "mask" in self.roles.values():
            self.given_mask = min(masks(x), key=self.future_with)
        self.repeat(x)
        self.find_place()
        if not self.tokens_first and self.alone and x.ndim == 3:
            self.turn()

    def future_with(self, mask):
        """How far a row moves with later tokens if it gets a mask; infinity if it fails, or a row isn't finite."""
        self.given_mask = mask
        with suppress(Exception):
            moved = perturbation_influence(self.output, self.x, 1.0)
            if self.output(self.x).isfinite().all():
                return moved.triu(1).max().item()
        return torch.inf

    @torch.no_grad()
    def repeat(self, x):
        """Call a copy twice with the same seed, and if the results differ, fresh copies; then with another seed."""
        layer, given = self.layer, x.clone()
        self.layer = self.copy_layer()
        first = self.seeded_call(given, self.seed)
        second = self.seeded_call(x.clone(), self.seed)
        self.writes = not same([given], [x])
        self.kept = []
        isolated = not same(first, second)
        if isolated:
            before = self.held()
            self(x.clone())
            self.kept = [name for name, value in self.held().items() if before.get(name) != value]
        self.layer, self.isolated = layer, isolated
        second = self.seeded_call(x.clone(), self.seed) if isolated else second
        with keep_state(self.layer):
            self.random = not same(second, self.seeded_call(x.clone(), self.seed + 1))

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

    def find_place(self):
        """Which result is the output, its rows (num_tokens, width), and how far each token moves each of them."""
        n = self.x.shape[-2]
        seed_all(self.seed)
        with torch.no_grad():
            result = self(self.x.clone())
        tensors = tensors_in(result)
        self.shapes = [tuple(each.shape) for each in tensors]
        fits = [place for place, each in enumerate(tensors) if each.shape[:-1].numel() == n]
        fits.sort(key=lambda place: holds_weights(tensors[place], n))
        self.place = [*fits, 0][0]
        self.rows = self.rows_of(result)  # which checks that there is one row per token
        self.near = rounding(self.rows[None].float()).item()
        self.moved = perturbation_influence(self.output, self.x, 1.0)
        others = self.moved.clone().fill_diagonal_(0.0)
        self.alone = not (others > self.near).any()  # each row reads at most its own token

    def turn(self):
        """Turn to (num_tokens, b, d_in) if a row reads only itself as things are, and other tokens then."""
        turned = copy.copy(self)
        turned.tokens_first = True
        with suppress(Exception):
            turned.find_place()
            if not turned.alone:
                vars(self).update(vars(turned))

    def __call__(self, x, **options):
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
        named = {name: gets[role] for name, role in self.roles.items()} | options
        return layer(**named) if self.roles else layer(x, **options)

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

    def rows_for(self, x):
        """The rows of another sentence of this layout, (num_tokens, width)."""
        return widen(rows(self.output, x))

    def say(self, what, *places):
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


def holds_weights(tensor, n):
    """Whether a result is a table of attention weights, (..., n, n), whose rows sum to 1."""
    if tensor.ndim < 2 or tensor.shape[-2:] != (n, n) or not tensor.is_floating_point():
        return False
    return bool((tensor >= 0).all() and ((tensor.float().sum(dim=-1) - 1).abs() < 1e-3).all())


def widen(tensor):
    """Half precision as float32."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def tensors_in(tree):
    """All tensors in nested tuples, lists, dicts, slices and dataclasses."""
    if isinstance(tree, torch.Tensor):
        return [tree]
    if isinstance(tree, slice):
        tree = tree.start, tree.stop, tree.step
    elif isinstance(tree, dict) or is_dataclass(tree):
        tree = [*(tree if isinstance(tree, dict) else vars(tree)).values()]
    return [each for part in tree for each in tensors_in(part)] if isinstance(tree, (tuple, list)) else []


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
