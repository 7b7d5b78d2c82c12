"""How published models build their attention: the rows of data/models.json, as bytes of cache and as a table."""

import json

from attention_helpers._data import data_file

COLUMNS = "model", "layers", "positions", "heads / KV heads × width", "also", "KiB per token", "GiB at 131,072"
KEYS = {  # of a kind of layer, which `about` in data/models.json explains
    *("kind", "count", "heads", "kv_heads", "head_dim", "value_dim", "window", "best", "index_heads", "index_dim"),
    *("base", "rotated", "rope_dim", "scaling", "scale", "bias", "out_bias", "qk_norm", "sinks", "gate", "delta"),
    *("d_latent", "d_key", "d_value", "d_rope", "d_query_latent", "key_dim", "values_from_keys"),
}


def published_models():
    """The rows of data/models.json: dicts with a name, a year, a width, kinds of layers and a source.

    Errors: ValueError for a layer with an unknown key, which would be left out without a word.
    """
    models = json.loads(data_file("models.json").read_text(encoding="utf-8"))["models"]
    for model in models:
        for layer in model["layers"]:
            if unknown := layer.keys() - KEYS:
                raise ValueError(f"{model['name']} in data/models.json has unknown keys: {', '.join(unknown)}")
    return models


def model_cache_bytes(model, num_tokens, bytes_per_number=2):
    """Bytes that all layers of a row keep after num_tokens tokens."""
    return bytes_per_number * sum(layer["count"] * cached_numbers(layer, num_tokens) for layer in model["layers"])


def cached_numbers(layer, num_tokens):
    """How many numbers one layer keeps: a state of fixed size, a latent per token, or keys and values per token."""
    if layer["kind"] == "linear":
        return layer["heads"] * layer["key_dim"] * layer["value_dim"]
    if "d_latent" in layer:
        return num_tokens * (layer["d_latent"] + layer["d_rope"] + layer.get("index_dim", 0))
    kept = min(num_tokens, layer["window"] - 1) if "window" in layer else num_tokens
    return kept * layer["kv_heads"] * (layer["head_dim"] + layer.get("value_dim", layer["head_dim"]))


def models_table(models, columns=COLUMNS):
    """The rows as a table in Markdown, as text: a line for each kind of layer, totals in a model's first line.

    columns: some of COLUMNS. A model's name links to its numbers' source, and names it as a tooltip.
    """
    lines = [columns, ["--:" if "iB" in name else "---" for name in columns]]
    for model in models:
        many = model_cache_bytes(model, 2**17)
        grows = model_cache_bytes(model, 2**17 + 1) - many
        largest = "—" if "learned_positions" in model else f"{many / 2**30:.1f}"
        totals = [f'[{model["name"]}]({model["link"]} "{model["source"]}")', f"{grows / 2**10:.1f}", largest]
        for layer in model["layers"]:
            cells = dict(zip(COLUMNS, [totals[0], *describe_layer(layer, model), *totals[1:]], strict=True))
            lines.append([cells[name] for name in columns])
            totals = ["", "", ""]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def describe_layer(layer, model):
    """What a kind of layer has, in words, for four columns of the table."""
    special = layer.get("window") or layer.get("best")
    special = f" ({special:,})" if special else " (delta rule)" * layer.get("delta", False)
    positions = "—" if "base" not in layer else "none" if layer["base"] is None else f"base {layer['base']:,}"
    if "learned_positions" in model:
        positions = f"learned, {model['learned_positions']:,}"
    if "rotated" in layer:
        positions += f", {layer['rotated']} of {layer['head_dim']} entries"
    if "scaling" in layer:
        positions += f", {layer['scaling']['kind']} × {layer['scaling']['factor']}"
    if layer["kind"] == "linear":
        heads = f"{layer['heads']} states of {layer['key_dim']} × {layer['value_dim']}"
    elif "d_latent" in layer:
        heads = f"{layer['heads']} / latent of {layer['d_latent']} + {layer['d_rope']}"
    else:
        narrower = f" (values {layer['value_dim']})" if "value_dim" in layer else ""
        heads = f"{layer['heads']} / {layer['kv_heads']} × {layer['head_dim']}{narrower}"
    norm = {"head": "QK-norm per head", "width": "QK-norm over the width", None: ""}[layer.get("qk_norm")]
    shared = "values from W_key" if layer.get("values_from_keys") else ""
    also = ", ".join(filter(None, [norm, shared, *(name for name in ("sinks", "gate", "bias") if layer.get(name))]))
    return f"{layer['count']} {layer['kind']}{special}", positions, heads, also or "—"
