"""What to pass to a constructor that somebody else wrote, judged by the usual names of an attention layer's sizes."""

import inspect

NAMES = {
    "d_in": "d_in in_dim input_dim dim_in in_features d_input input_size",
    "d_out": "d_out out_dim output_dim dim_out out_features d_output output_size d_attn attn_dim",
    "width": "d_model embed_dim n_embd emb_dim embedding_dim hidden_size hidden_dim model_dim dim width",
    "head_dim": "head_dim head_size d_head dim_head d_k d_v d_key d_value key_dim value_dim",
    "num_heads": "num_heads n_heads n_head nhead heads num_attention_heads",
    "num_groups": "num_kv_heads n_kv_heads num_kv_groups num_groups n_kv_head num_key_value_heads",
    "dropout": "dropout p drop dropout_p dropout_rate attn_dropout attn_drop attn_pdrop",
    "flag": "qkv_bias bias use_bias attn_bias attention_bias",
    "context_length": "context_length block_size max_len max_length max_seq_len seq_len seq_length n_ctx max_tokens",
}
KINDS = {name: kind for kind, names in NAMES.items() for name in names.split()}


class Refused(TypeError):
    """Jupyter shows only its sentence, without our frames, because the fault is in the learner's cell."""

    def _render_traceback_(self):
        return [f"TypeError: {self}"]


def kinds_of(attention, given):
    """The kind of each of a class's arguments, as name -> (kind, default).

    It leaves out the arguments in `given`, and those with a default whose kind we don't know.
    Errors: TypeError for anything but a class or function that makes a layer, for a given argument that it doesn't
    take, and for a required one whose kind we don't know.
    """
    name = name_of(attention)
    if not callable(attention) or (hasattr(attention, "forward") and not inspect.isclass(attention)):
        hint = f": write {name}, without making a layer of it" if callable(attention) else ""
        raise Refused(f"attention must be a class that makes a layer, got an object of class {name}{hint}")
    parameters = inspect.signature(attention).parameters.values()
    named = {each.name: each.default for each in parameters if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)}
    for extra in given.keys() - named.keys():
        if not any(each.kind == each.VAR_KEYWORD for each in parameters):
            raise Refused(f"{name} takes {', '.join(named) or 'no arguments'}, got {extra}={given[extra]!r}")
    kinds = {key: (kind_of(key, default), default) for key, default in named.items() if key not in given}
    kinds = {key: (kind, default) for key, (kind, default) in kinds.items() if kind}
    missing = [key for key, value in named.items() if value is inspect.Parameter.empty and key not in {*kinds, *given}]
    if missing:
        wanted = ", ".join(f"{key}=..." for key in missing)
        raise Refused(f"{name} needs {', '.join(missing)}: write LayerExplorer({name}, sentence, {wanted})")
    width = "d_out" if "d_in" in {kind for kind, _ in kinds.values()} else "d_in"
    return {key: (width if kind == "width" else kind, default) for key, (kind, default) in kinds.items()}


def name_of(attention):
    return getattr(getattr(attention, "func", attention), "__name__", type(attention).__name__)


def kind_of(name, default):
    """The kind of an argument; None for one that keeps its default, such as num_kv_heads=None."""
    if default is None or name in ("training", "seed"):
        return None
    return KINDS.get(name) or ("flag" if isinstance(default, bool) else None)
