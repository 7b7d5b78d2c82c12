"""What to pass to a constructor that somebody else wrote, judged by the usual names of an attention layer's sizes."""

import inspect

from .calling import learners_code, signature_of

NAMES = {
    "d_in": "d_in in_dim input_dim dim_in in_features d_input input_size query_dim in_channels",
    "d_out": "d_out out_dim output_dim dim_out out_features d_output output_size d_attn attn_dim out_channels",
    "width": "d_model embed_dim n_embd emb_dim embedding_dim hidden_size hidden_dim model_dim dim width embed_size emb"
    " hid_dim num_hiddens n_hidden n_state dim_model embedding_size emb_size d_embed embed d_hidden units channels dims"
    " num_hidden hidden input_dims d_embedding n_units",
    "head_dim": "head_dim head_size d_head dim_head d_k d_v d_key d_value key_dim value_dim dim_per_head head_width",
    "num_heads": "num_heads n_heads n_head nhead heads num_attention_heads h num_head n_attn_heads head number_of_heads"
    " attention_heads nheads nb_heads",
    "num_groups": "num_kv_heads n_kv_heads num_kv_groups num_groups n_kv_head num_key_value_heads kv_heads n_groups",
    "dropout": "dropout p drop dropout_p dropout_rate attn_dropout attn_drop attn_pdrop resid_pdrop resid_dropout"
    " attention_dropout dropout_prob attention_probs_dropout_prob hidden_dropout_prob proj_drop residual_dropout rate",
    "flag": "qkv_bias bias use_bias attn_bias attention_bias add_bias",
    "context_length": "context_length block_size max_len max_length max_seq_len seq_len seq_length n_ctx max_tokens"
    " max_position_embeddings n_positions ctx_len context_size max_context_length sequence_length window_length",
}
KINDS = {name: kind for kind, names in NAMES.items() for name in names.split()}
CONFIGS = {"config", "cfg", "conf", "args", "hparams", "params", "hyperparameters"}
FIRST = {"num_groups": 1, "num_heads": 2, "head_dim": 2, "dropout": 0.0, "flag": False, "context_length": 8}


def kinds_of(attention, given):
    """The kind of each of a class's arguments, as name -> (kind, default).

    It leaves out the arguments in `given`, and those with a default whose kind we don't know; a list in `given` is of
    the kind "choice", with its first value as the default.
    Errors: TypeError for anything but a class or function that makes a layer, for a given argument that it doesn't
    take, and for a required one whose kind we don't know.
    """
    name = name_of(attention)
    if not callable(attention) or (hasattr(attention, "forward") and not inspect.isclass(attention)):
        hint = f": write {name}, without making a layer of it" if callable(attention) else ""
        raise TypeError(f"attention must be a class that makes a layer, got an object of class {name}{hint}")
    parameters = inspect.signature(attention).parameters.values()
    named = {each.name: each.default for each in parameters if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)}
    for extra in given.keys() - named.keys():
        if not any(each.kind == each.VAR_KEYWORD for each in parameters):
            raise TypeError(f"{name} takes {', '.join(named) or 'no arguments'}, got {extra}={given[extra]!r}")
    kinds = {key: (kind_of(key, default), default) for key, default in named.items() if key not in given}
    kinds = {key: (kind, default) for key, (kind, default) in kinds.items() if kind}
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

    The config has a size under each usual name, as an attribute or an item: the sentence's width, or as in FIRST.
    """
    parameters = signature_of(attention)
    if [each.name in CONFIGS and each.default is each.empty for each in parameters] != [True]:
        return attention

    class Config(dict):
        def __missing__(self, name):
            if name not in KINDS:
                raise AttributeError(f"LayerExplorer's config has no {name!r}: pass your own")
            self[name] = FIRST.get(KINDS[name], width)
            return self[name]

        __getattr__ = dict.__getitem__

    def make(**sizes):
        return attention(Config(sizes))

    config, make.__name__ = Config(), name_of(attention)
    with learners_code():
        attention(config)
    asked = {key: value for key, value in config.items() if KINDS[key] in FIRST}  # the widths are the sentence's
    parameters = [inspect.Parameter(key, 3, default=value) for key, value in asked.items()]
    make.__signature__ = inspect.Signature(parameters)
    return make


def name_of(attention):
    return getattr(getattr(attention, "func", attention), "__name__", type(attention).__name__)


def kind_of(name, default):
    """The kind of an argument; None for one that keeps its default, such as num_kv_heads=None."""
    if default is None or name in ("training", "seed"):
        return None
    return KINDS.get(name) or ("flag" if isinstance(default, bool) else None)
