"""What to pass to a constructor that somebody else wrote, judged by the usual names of an attention layer's sizes."""

import inspect
import re

from .calling import learners_code, signature_of

KINDS = {  # each argument's kind is the first whose pattern fits its whole name
    "dropout": "p|rate|.*drop.*",
    "flag": ".*bias",
    "num_groups": "n(um)?_(kv_|key_value_)(heads?|groups)|kv_heads|n(um)?_groups",
    "head_dim": "heads?_(dim|size|width)|d_(head|k|v|key|value)|(key|value)_dim|dim_(per_)?head",
    "num_heads": "h|(.*_)?n?heads?",
    "d_in": "d_in|(in|input|query)_(dim|size|features|channels)|(dim|d)_in(put)?|in_(dim|channels)",
    "d_out": "d_(out(put)?|attn)|(out|output|attn)_(dim|size|features|channels)|dim_out",
    "width": "(num_|n_|d_|dim_)?(model|emb.*|hid.*|state|units|channels|width|dims?|input)(_?(dims?|size|units))?",
    "context_length": "(max_.*)?(context|ctx|seq|sequence|block|window)_?(len|length|size)|n_(ctx|positions)"
    "|max_(.*_)?(len|length|tokens|embeddings|positions)",
}
CONFIGS = {"config", "cfg", "conf", "args", "hparams", "params", "hyperparameters"}
FIRST = {"num_groups": 1, "num_heads": 2, "head_dim": 2, "dropout": 0.0, "flag": False, "context_length": 8}


def kinds_of(attention, given):
    """The kind of each of a class's arguments, as name -> (kind, default); a list in `given` is of the kind "choice".

    Errors: TypeError for anything but a class or function that makes a layer, for a given argument that it doesn't
    take, and for a required one whose kind we don't know.
    """
    name = name_of(attention)
    if not callable(attention) or (hasattr(attention, "forward") and not inspect.isclass(attention)):
        raise TypeError(f"attention must be a class that makes a layer, got an object of class {name}: write its class")
    parameters = inspect.signature(attention).parameters.values()
    named = {each.name: each.default for each in parameters if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)}
    extra = given.keys() - named.keys()
    if extra and not any(each.kind == each.VAR_KEYWORD for each in parameters):
        raise TypeError(f"{name} takes {', '.join(named) or 'no arguments'}, got {', '.join(extra)}")
    kinds = {key: (kind, each) for key, each in named.items() if key not in given and (kind := kind_of(key, each))}
    kinds |= {key: ("choice", values[0]) for key, values in given.items() if isinstance(values, list) and values}
    missing = [key for key, value in named.items() if value is inspect.Parameter.empty and key not in {*kinds, *given}]
    if missing:
        call = f"LayerExplorer({name}, sentence, {', '.join(f'{key}=4' for key in missing)})"
        more = f"with values that fit, or {missing[-1]}=[1, 2, 4] for a slider"
        raise TypeError(f"{name} needs {', '.join(missing)}, which we can't guess: write {call}, {more}")
    width = "d_out" if "d_in" in {kind for kind, _ in kinds.values()} else "d_in"
    return {key: (width if kind == "width" else kind, default) for key, (kind, default) in kinds.items()}


def with_sizes(attention, width):
    """A function of the sizes that a class asks of its only argument, a config; or else the class itself.

    The config holds a size under each usual name, as an attribute or an item: the sentence's width, or as in FIRST.
    """
    if [each.name in CONFIGS and each.default is each.empty for each in signature_of(attention)] != [True]:
        return attention
    first = FIRST | {"num_heads": next((n for n in (2, 3, 5, 7) if width % n == 0), 1)}

    class Config(dict):
        def __missing__(self, name):
            if not (kind := kind_of(name, "")):
                raise AttributeError(f"LayerExplorer's config has no {name!r}: pass your own")
            self[name] = first.get(kind, width)
            return self[name]

        __getattr__ = dict.__getitem__

    def make(**sizes):
        return attention(Config(sizes))

    asked = Config()
    try:
        with learners_code():
            attention(asked)
    except ValueError as error:
        if "LayerExplorer's config" in str(error):
            raise
    sizes = {key: value for key, value in asked.items() if kind_of(key, value) in FIRST}  # the widths are x's
    make.__name__ = name_of(attention)
    make.__signature__ = inspect.Signature([inspect.Parameter(key, 3, default=value) for key, value in sizes.items()])
    return make


def name_of(attention):
    return getattr(getattr(attention, "func", attention), "__name__", type(attention).__name__)


def kind_of(name, default):
    """The kind of an argument; None for one that keeps its default, such as num_kv_heads=None."""
    if default is None or name in ("training", "seed"):
        return None
    if isinstance(default, bool):
        return "flag"
    return next((kind for kind, pattern in KINDS.items() if re.fullmatch(pattern, name)), None)
