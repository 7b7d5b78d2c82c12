"""Call any layer with one sentence, whatever its `forward` calls it: x, or query, key and value, or more."""

import inspect
import io
import re
from contextlib import contextmanager, redirect_stdout

import torch

from attention_helpers.operations import compiled_by, tensors_in
from attention_helpers.probes import perturbation_influence, rows
from attention_helpers.seeded import undisturbed

from .lines import error_line, first_line
from .maps import find_maps

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
    one, or None. A layer that takes the tokens first, (num_tokens, b, d_in), gets them so. If a layer returns several
    tensors, we judge the output: the first with one row per token that isn't a table of weights. An error in the
    learner's code becomes a ValueError that names the line. `settle` decides where the tokens are.
    """

    def __init__(self, layer, x):
        self.layer = layer = getattr(layer, "_orig_mod", layer)  # of torch.compile
        numbers = [each for each in tensors_of(layer) if each.is_floating_point()]
        if numbers and all(each.dtype != x.dtype for each in numbers):
            x = x.to(numbers[0].dtype)
        self.sentence, x = x, x.clone()  # the layer may write into it
        self.tokens_first, self.given_mask = False, None
        self.read_signature()
        with learners_code() as printed, undisturbed(layer, training=False):
            try:
                self.first_call(x[None])
            except Exception as error:
                end = printed.tell()
                try:
                    self.first_call(x)
                except Exception:
                    printed.truncate(end)
                    raise error from None  # it takes neither, so the learner sees what's wrong with the batch

    def read_signature(self):
        """What each required argument of `forward` gets. Errors: Unsuited for one that we don't know."""
        try:
            parameters = inspect.signature(getattr(self.layer, "forward", self.layer)).parameters.values()
        except (TypeError, ValueError):  # a builtin function has none
            parameters = []
        needed = [each for each in parameters if each.default is each.empty and each.kind not in (2, 4)]
        self.roles = [(each.name, role_of(each.name, first=not n), each.kind == 3) for n, each in enumerate(needed)]
        unknown = [name for name, role, _ in self.roles if not role]
        if unknown:
            name, names = type(self.layer).__name__, ", ".join(unknown)
            raise Unsuited(
                f"LayerExplorer calls `forward(x)`, but {name}'s forward also needs {names}: pass a subclass whose "
                f"`forward(self, x)` returns `super().forward(x, {names})`"
            )
        self.other_name = next((name for name, role, _ in self.roles if role == "other"), "")
        self.others = bool(self.other_name)
        self.takes_mask = any(role == "mask" for _, role, _ in self.roles)
        optional = [each.name for each in parameters if is_mask(each.name) and each.default is not each.empty]
        self.mask = next(iter(optional), "")  # one that would hide the future, but isn't given

    def first_call(self, x):
        """Watch a call, and find the output in what it returned. A required mask is the one that hides the most."""
        if self.takes_mask:
            found = [(hidden_share(self, x, mask), n, mask) for n, mask in enumerate(masks(x))]
            self.given_mask = min(found, key=lambda each: each[:2])[2]
        self.watch(x)

    def watch(self, x):
        watched = find_maps(self, x)
        tensors, num_tokens = tensors_in(watched.result), x.shape[-2]
        others = ((n, each) for n, each in enumerate(tensors) if not watched.weights[n])
        possible = (n for n, each in others if each.shape[:-1].numel() == num_tokens)
        self.x, self.watched, self.place = x, watched, next(possible, 0)
        self.returns_weights = bool(watched.maps) and bool(tensors) and watched.weights[self.place]
        self.rows = self.rows_of(watched.result)  # which checks that there is one row per token

    def settle(self):
        """Turn to (num_tokens, b, d_in) if a row reads only itself as things are, and other tokens then."""
        before = self.measure()
        if self.x.ndim < 3 or not self.reads_only_itself():
            return
        try:
            self.tokens_first = True
            self.watch(self.x)
            self.measure()
            self.tokens_first = not self.reads_only_itself()
        except Exception:
            self.tokens_first = False
        if not self.tokens_first:
            self.watched, self.rows, self.moved = before

    def measure(self):
        """The influence of one small perturbation per token, (num_tokens, num_tokens)."""
        self.moved = perturbation_influence(self.output, self.x, 1.0)
        return self.watched, self.rows, self.moved

    def reads_only_itself(self):
        return not self.moved.clone().fill_diagonal_(0.0).any()

    def __call__(self, x):
        positional, named = self.arguments(x)
        return self.layer(*positional, **named)

    def arguments(self, x):
        """What `forward` gets for a sentence or a batch, out of any watcher's sight."""
        with torch._C.DisableTorchFunction():
            num_tokens, mask, other = x.shape[-2], self.given_mask, self.sentence
            gets = {"ours": x, "other": other[:num_tokens].expand(*x.shape[:-2], num_tokens, x.shape[-1])}
            if self.tokens_first:
                gets = {role: each.transpose(0, 1) for role, each in gets.items()}
            gets["none"] = None
            gets["mask"] = mask if mask is None else mask[..., :num_tokens, :num_tokens]
            if mask is not None and mask.ndim == x.ndim == 3:
                gets["mask"] = gets["mask"].expand(len(x), -1, -1)
        roles = self.roles or [("", "ours", False)]
        positional = [gets[role] for _, role, only_named in roles if not only_named]
        return positional, {name: gets[role] for name, role, only_named in roles if only_named}

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


def tensors_of(layer):
    return [*layer.parameters(), *layer.buffers()] if isinstance(layer, torch.nn.Module) else []


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
    added = torch.zeros(keep.shape, dtype=x.dtype).masked_fill(~keep, -torch.inf)
    plain = [keep, ~keep, added, keep.to(x.dtype)]
    return [*plain, *(mask[None] for mask in plain), None]


def hidden_share(call, x, mask):
    """How much weight a layer's maps have after the diagonal with a mask; infinity if it fails with it."""
    call.given_mask = mask
    try:
        maps, result = (seen := find_maps(call, x, again=False)).maps, tensors_in(seen.result)
        after = sum(each.used.triu(1).sum().item() for each in maps) if maps else 1e9
        return after if result and result[0].isfinite().all() else torch.inf
    except Exception:
        return torch.inf


@contextmanager
def learners_code():
    """Name the line of an error, collect what is printed, and leave the notebook's random numbers alone."""
    printed = io.StringIO()
    try:
        with redirect_stdout(printed), undisturbed(None):  # a learner may call torch.manual_seed
            yield printed
    except Unsuited:
        raise
    except Exception as error:
        if compiled := compiled_by(error):
            raise Unsuited(f"LayerExplorer can't look inside {compiled}; `find_leak` can") from error
        line = error_line(error)
        where = f"your layer fails in {line}: " if line else ""
        what = "" if isinstance(error, ValueError) and not line else f"{type(error).__name__}: "
        said = " / ".join(printed.getvalue()[:300].splitlines())
        raise ValueError(f"{where}{what}{first_line(error)}{'; it printed: ' * bool(said)}{said}") from error
