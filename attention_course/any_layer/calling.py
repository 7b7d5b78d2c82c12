"""Call any layer with one sentence, whatever its `forward` calls it: x, or query, key and value, or more."""

import copy
import inspect
import io
import re
from contextlib import contextmanager, redirect_stdout, suppress

import torch

from attention_helpers.probes import perturbation_influence, rows
from attention_helpers.state import keep_state

from .lines import error_line, first_line
from .maps import find_maps
from .operations import compiled_by, tensors_in

# Arguments of `forward` that get the sentence: its queries, keys and values; or another text, which is the same here.
OURS = re.compile(r"(x|q|k|v|kv|qkv|quer(y|ies)|keys?|values?|inputs?|inp|hidden|tokens|embeddings?|tgt|target|src)")
OTHER = re.compile(r"context|ctx|mem(ory)?|cond|y|enc(oder)?|cross")
ENDS = re.compile(
    r"^(x_?|hidden_?|in_?)(?=[qkv])|(_?(input|state|tensor|layer|in|x|seq|hidden_states|output|outputs|out))s?$"
)


class Unsuited(ValueError):
    """A layer that isn't wrong, but that we can't examine."""


class Taking:
    """A layer as a function of one sentence (1, num_tokens, d_in), or (num_tokens, d_in) if it takes no batch.

    The sentence is passed as x, query, key, value, and so on, in the order of `forward`; a required mask gets a causal
    one, or None. If a layer returns several tensors, we judge the first with one row per token that isn't a table of
    weights. An error in the learner's code becomes a ValueError that names the line. `settle` decides where the tokens
    are: in (num_tokens, b, d_in), too.
    """

    def __init__(self, layer, x):
        self.layer = layer = getattr(layer, "_orig_mod", layer)  # of torch.compile
        module = layer if isinstance(layer, torch.nn.Module) else torch.nn.Module()
        self.parameters, self.buffers = [*module.named_parameters()], [*module.named_buffers()]
        kinds = [each.dtype for _, each in self.parameters + self.buffers if each.is_floating_point()]
        self.sentence = x if x.dtype in kinds or not kinds else x.to(kinds[0])
        self.tokens_first, self.given_mask = False, None
        self.read_signature()
        x = self.sentence.clone()  # the layer may write into it
        with learners_code(), keep_state(layer, training=False):
            try:
                self.first_call(x[None])
            except Exception as error:
                with suppress(Exception):
                    return self.first_call(x)
                raise error from None  # it takes neither, so the learner sees what's wrong with the batch

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
        self.switches = [name for name in options if "mask" not in name] + switches_of(self.layer)

    def first_call(self, x):
        """Watch a call, and find the output in what it returned. A required mask is the one that hides the most."""
        if "mask" in self.roles.values():
            self.given_mask = min(masks(x), key=lambda mask: self.future_weight(x, mask))
        self.watch(x)

    def future_weight(self, x, mask):
        """How much weight a layer's maps have after the diagonal with a mask; infinity if it fails with it."""
        self.given_mask = mask
        with suppress(Exception):
            seen = find_maps(self, x, again=False)
            if tensors_in(seen.result)[0].isfinite().all():
                return seen.used.triu(1).sum().item() if seen.maps else 1e9
        return torch.inf

    def watch(self, x):
        self.x, self.watched = x, find_maps(self, x)
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
        self.moved = perturbation_influence(self.output, self.x, 1.0)
        return not self.moved.clone().fill_diagonal_(0.0).any()

    def __call__(self, x):
        """The layer's result for a sentence or a batch; what it gets is prepared out of any watcher's sight."""
        with torch._C.DisableTorchFunction():
            n, mask = x.shape[-2], self.given_mask
            gets = {"ours": x, "other": self.sentence[:n].expand(*x.shape[:-1], -1)}
            if self.tokens_first:
                gets = {role: each.transpose(0, 1) for role, each in gets.items()}
            if mask is not None:
                mask = mask[..., :n, :n].expand(len(x), -1, -1) if mask.ndim == x.ndim == 3 else mask[..., :n, :n]
            gets |= {"none": None, "mask": mask}
        return self.layer(**{name: gets[role] for name, role in self.roles.items()}) if self.roles else self.layer(x)

    def output(self, x):
        return self.output_of(self(x))

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


def signature_of(function):
    """The parameters of a function or class; none of a builtin one."""
    with suppress(TypeError, ValueError):
        return [*inspect.signature(function).parameters.values()]
    return []


def switches_of(layer):
    """What may decide which parameters are used: attributes of its parts that are True or False, but torch's own."""
    parts = layer.modules() if isinstance(layer, torch.nn.Module) else []
    flags = [vars(each).items() for each in parts if not type(each).__module__.startswith("torch.")]
    return sorted({name for part in flags for name, value in part if isinstance(value, bool)} - {"training"})


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
