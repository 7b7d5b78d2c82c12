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

from .lines import error_line, first_line
from .recorder import record, tensors_in

# Arguments of `forward` that get the sentence: its queries, keys and values; or another text, which is the same here.
OURS = re.compile(r"(x|q|k|v|kv|qkv|quer(y|ies)|keys?|values?|inputs?|inp|hidden|tokens|embeddings?|tgt|target|src)")
OTHER = re.compile(r"context|ctx|mem(ory)?|cond|y|enc(oder)?|cross")
ENDS = re.compile(
    r"^(x_?|hidden_?|in_?)(?=[qkv])|(_?(input|state|tensor|layer|in|x|seq|hidden_states|output|outputs|out))s?$"
)
COMPILED = {  # folders of torch whose work happens where no recorder sees it
    "nn/attention/flex_attention": "flex_attention",
    "_dynamo": "torch.compile",
    "_functorch": "torch.vmap",
}


class Unsuited(ValueError):
    """A layer that isn't wrong, but that we can't examine."""


class Taking:
    """A layer as a function of one sentence (1, num_tokens, d_in), or (num_tokens, d_in) if it takes no batch.

    The sentence is passed as x, query, key, value, and so on, in the order of `forward`; a required mask gets a causal
    one, or None. If a layer returns several tensors, we judge the first with one row per token that isn't a table of
    weights. tokens: the sentence's words. Errors: Unsuited for what we can't call or look into.
    """

    def __init__(self, layer, x, tokens=()):
        self.layer = layer = getattr(layer, "_orig_mod", layer)  # of torch.compile
        self.tokens = tokens
        self.parts = [*layer.modules()] if isinstance(layer, torch.nn.Module) else []
        if any(isinstance(each, torch.jit.ScriptModule) for each in self.parts):
            raise Unsuited("LayerExplorer can't look inside a scripted or traced module; `find_leak` can")
        self.sentence = x
        self.given_mask = None
        self.gap = 0.0  # of the rows in training and in eval mode; see on_training
        self.tokens_first = self.isolated = self.writes = False
        self.read_signature()
        if self.parts and any(map(is_lazy, layer.parameters())):
            with torch.no_grad():
                self(x[None])  # which gives them their shapes
        module = layer if self.parts else torch.nn.Module()
        self.parameters = [*module.named_parameters()]
        self.buffers = [*module.named_buffers()]
        kinds = [each.dtype for _, each in self.parameters + self.buffers if each.is_floating_point()]
        if kinds and x.dtype not in kinds:
            self.sentence = x.to(kinds[0])

    def read_signature(self):
        """What each required argument of `forward` gets. Errors: Unsuited for one that we don't know."""
        parameters = signature_of(getattr(self.layer, "forward", self.layer))
        needed = [each for each in parameters if each.default is each.empty and each.kind not in (2, 4)]
        options = [each.name for each in parameters if each.default is not each.empty]
        self.roles = {each.name: role_of(each.name, first=not n) for n, each in enumerate(needed)}
        if unknown := ", ".join(name for name, role in self.roles.items() if not role):
            raise Unsuited(
                f"LayerExplorer calls `forward(x)`, but {type(self.layer).__name__}'s forward also needs {unknown}: "
                f"pass a subclass whose `forward(self, x)` returns `super().forward(x, {unknown})`"
            )
        self.other_name = next((name for name, role in self.roles.items() if role == "other"), "")
        self.mask = next(filter(is_mask, options), "")  # one that would hide the future, but isn't given
        self.switches = [name for name in options if "mask" not in name] + self.flags()

    def flags(self):
        """What may decide which parameters are used: attributes of its parts that are True or False, not torch's."""
        own = [vars(each).items() for each in self.parts if not type(each).__module__.startswith("torch.")]
        return sorted({name for part in own for name, value in part if isinstance(value, bool)} - {"training"})

    def start(self, seed):
        """Find out what it takes, record a call, and measure whether it draws random numbers, or keeps something."""
        self.with_a_batch(lambda x: self.first_call(x, seed))

    def with_a_batch(self, call):
        x = self.sentence.clone()  # the layer may write into it
        try:
            return call(x[None])
        except Exception as error:
            with suppress(Exception):
                return call(self.sentence.clone())
            raise error from None  # it takes neither, so the learner sees what's wrong with the batch

    def first_call(self, x, seed):
        """A required mask is the one that hides the most."""
        if "mask" in self.roles.values():
            self.given_mask = min(masks(x), key=lambda mask: self.future_weight(x, mask))
        self.repeat(x, seed)
        seed_all(seed)
        self.watch(x)

    def future_weight(self, x, mask):
        """How much weight a layer's maps have after the diagonal with a mask; infinity if it fails with it."""
        self.given_mask = mask
        with suppress(Exception):
            seen = record(self, x.clone())
            if tensors_in(seen.result)[0].isfinite().all():
                return seen.used.triu(1).sum().item() if seen.maps else 1e9
        return torch.inf

    @torch.no_grad()
    def repeat(self, x, seed):
        """Call a copy twice with the same seed, and if the results differ, fresh copies; then with another seed."""
        layer, given = self.layer, x.clone()
        self.layer = self.copied()
        first, _ = self.seeded_call(given, seed)
        second, state = self.seeded_call(x.clone(), seed)
        self.layer = layer
        self.writes = not same([given], [x])
        self.keeps = self.isolated = not same(first, second)
        if self.keeps:
            self.kept = self.changed_by_a_call(x.clone())
            second, state = self.seeded_call(x.clone(), seed)
        with keep_state(self.layer):
            other, end = self.seeded_call(x.clone(), seed + 1)
        drew = not torch.equal(end, torch.default_generator.manual_seed(seed + 1).get_state()) and not torch.equal(
            end, state
        )
        self.random = drew or not same(second, other)  # if both end in one state, it set a seed itself

    def seeded_call(self, x, seed):
        """The numbers of a call, and the state of torch's generator after it."""
        seed_all(seed)
        return [each.clone() for each in tensors_in(self(x))], torch.get_rng_state()

    def changed_by_a_call(self, x):
        """The names of what the layer's parts hold, besides parameters, and hold otherwise after a call."""

        def held():
            parts = self.layer.modules() if self.parts else []
            pairs = (pair for part in parts for pair in (vars(part) | part._buffers).items())
            return {name: repr(each) for name, each in pairs if name[0] != "_"}

        before, self.isolated = held(), False
        with keep_state(self.layer):
            self(x)
            after = held()
        self.isolated = True
        return [name for name, each in after.items() if before.get(name) != each]

    def copied(self):
        """A copy of the layer that shares its parameters; the layer itself if it can't be copied."""
        if self.parts:
            with suppress(Exception):
                return copy.deepcopy(self.layer, {id(each): each for each in self.layer.parameters()})
        return self.layer

    def watch(self, x):
        self.x = x
        self.watched = record(self, x.clone(), again=True)
        tensors, weights = tensors_in(self.watched.result), self.watched.weights
        fits = (n for n, each in enumerate(tensors) if each.shape[:-1].numel() == x.shape[-2] and not weights[n])
        self.place = next(fits, 0)
        self.returns_weights = bool(self.watched.maps and tensors) and weights[self.place]
        self.rows = self.rows_of(self.watched.result)  # which checks that there is one row per token

    def settle(self):
        """Turn to (num_tokens, b, d_in) if a row reads only itself as things are, and other tokens then."""
        turned = copy.copy(self)
        if self.reads_only_itself() and self.x.ndim == 3:
            with suppress(Exception):
                turned.tokens_first = True
                turned.watch(self.x)
                if not turned.reads_only_itself():
                    vars(self).update(vars(turned))

    def reads_only_itself(self):
        """Measure the influence of one small perturbation per token, (num_tokens, num_tokens)."""
        self.moved = perturbation_influence(lambda x: self.output(x.clone()), self.x, 1.0)
        return not self.moved.clone().fill_diagonal_(0.0).any()

    def __call__(self, x):
        """The layer's result for a sentence or a batch; what it gets is prepared out of any recorder's sight."""
        with torch._C.DisableTorchFunction():
            n, mask = x.shape[-2], self.given_mask
            gets = {"ours": x.clone() if self.writes else x, "other": self.sentence[:n].expand(*x.shape[:-1], -1)}
            if self.tokens_first:
                gets = {role: each.transpose(0, 1) for role, each in gets.items()}
            if mask is not None:
                mask = mask[..., :n, :n].expand(len(x), -1, -1) if mask.ndim == x.ndim == 3 else mask[..., :n, :n]
            gets |= {"none": None, "mask": mask}
            layer = self.copied() if self.isolated else self.layer
        return layer(**{name: gets[role] for name, role in self.roles.items()}) if self.roles else layer(x)

    def output(self, x):
        return self.output_of(self(x))

    def alone(self, x):
        """The output for one sentence. Errors: ValueError for a batch of several."""
        if x.ndim == 3 and len(x) > 1:
            raise ValueError("the sentences of a batch don't stay apart")
        return self.output(x)

    def output_of(self, result):
        tensors = tensors_in(result)
        output = tensors[self.place] if tensors else result
        return output.transpose(0, 1) if self.tokens_first and output.ndim == 3 else output

    def rows_of(self, result):
        """The output as (num_tokens, width). Errors: ValueError for one without a row per token."""
        if result is None:
            raise ValueError("your layer returns None: end `forward` with a `return`")
        output = self.output_of(result)
        if self.returns_weights and output.shape[:-1].numel() != self.x.shape[-2]:
            shape = tuple(output.shape)
            raise ValueError(f"your layer returns its attention weights, {shape}: return them times the values")
        return rows(lambda _: output, self.x)

    def said(self, what, places):
        """Rows or tokens, by number or several in a list: “journey” (token 1), or only token 1 without the words."""
        places = places if isinstance(places, list) else [places]
        numbers = f"{what}{'s' if len(places) > 1 else ''} {', '.join(map(str, places))}"
        words = ", ".join(f"“{self.tokens[place]}”" for place in places) if self.tokens else ""
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
    stem = ENDS.sub("", name.lower().strip("_"))
    if first or not stem or all(OURS.fullmatch(part) for part in stem.split("_") if part):
        return "ours"
    return "other" if OTHER.match(stem) and (len(stem) > 1 or stem == "y") else ""


def masks(x):
    """Causal masks, in the forms that are usual, then None. True keeps, or hides; or what is added to the scores."""
    keep = torch.ones(x.shape[-2], x.shape[-2], dtype=torch.bool).tril()
    plain = [keep, ~keep, torch.zeros_like(keep, dtype=x.dtype).masked_fill(~keep, -torch.inf), keep.to(x.dtype)]
    return [*plain, *(mask[None] for mask in plain), None]


def same(ones, others):
    """Whether two lists hold equal tensors; NaN is like NaN."""
    pairs = zip(ones, others, strict=False)
    return len(ones) == len(others) and all(
        one.shape == other.shape and torch.equal(one.nan_to_num(), other.nan_to_num()) for one, other in pairs
    )


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
        if compiled := compiled_by(error):
            raise Unsuited(f"LayerExplorer can't look inside {compiled}; `find_leak` can") from error
        if line := error_line(error):
            raise ValueError(f"your layer fails in {line}: {type(error).__name__}: {first_line(error)}") from error
        if isinstance(error, ValueError):
            raise ValueError(first_line(error)) from error
        raise Unsuited(f"{type(error).__name__}: {first_line(error)}") from error


def compiled_by(error):
    """Which function that torch compiles an error comes from, as far as we can tell; "" if none."""
    passed = " ".join(traceback.format_exception(error))
    return next((said for name, said in COMPILED.items() if f"torch/{name}" in passed.replace("\\", "/")), "")
