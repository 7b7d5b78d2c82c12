"""The table of published models in notebook 12: each row, built from our classes where they can, keeps what it says."""

import math
import re

import pytest
import torch

from attention_helpers.modern import published
from attention_helpers.modern.positions import llama3_frequencies, yarn_frequencies

# Worked out by hand from each publisher's numbers, in KiB of 2-byte numbers: what a token adds for good, what it adds
# to windows as long as they fill, after how many tokens they're full, and the states
KEPT = {
    "GPT-2 124M": (36, 0, 0, 0), "Llama 2 7B": (512, 0, 0, 0), "Llama 3.1 8B": (128, 0, 0, 0),
    "DeepSeek-V3": (68.625, 0, 0, 0), "Gemma 3 27B": (80, 416, 1023, 0), "Qwen3 8B": (144, 0, 0, 0),
    "MiniMax-M1": (40, 0, 0, 143_360), "SmolLM3 3B": (72, 0, 0, 0), "gpt-oss 120B": (36, 36, 127, 0),
    "OLMo 3 7B": (128, 384, 4095, 0), "DeepSeek-V3.2": (83.875, 0, 0, 0), "MiMo-V2-Flash": (22.5, 195, 127, 0),
    "Qwen3.5 9B": (32, 0, 0, 24_576), "OLMo Hybrid 7B": (120, 0, 0, 25_920), "Gemma 4 31B": (80, 800, 1023, 0),
}  # fmt: skip


def kept_by_hand(name, num_tokens):
    """Bytes of all layers."""
    grows, slides, window, states = KEPT[name]
    return 1024 * (grows * num_tokens + slides * min(num_tokens, window) + states)


SCALES = {"Gemma 3 27B": (5376 / 32) ** -0.5, "Gemma 4 31B": 1}  # others take a head's width in place of width / heads
SAID = """
| model | layers | positions | heads / KV heads × width | also | KiB per token | GiB at 131,072 |
| GPT-2 124M | 12 full | learned, 1,024 | 12 / 12 × 64 | bias | 36.0 | — |
| Gemma 3 27B | 52 sliding (1,024) | base 10,000 | 32 / 16 × 128 | QK-norm per head | 80.0 | 10.4 |
| gpt-oss 120B | 18 sliding (128) | base 150,000, YaRN × 32 | 64 / 8 × 64 | sinks, bias | 36.0 | 4.5 |
| DeepSeek-V3.2 | 61 sparse latent (2,048) | base 10,000, YaRN × 40 | 128 / latent of 512 + 64 | — | 83.9 | 10.5 |
| MiMo-V2-Flash | 39 sliding (128) | base 10,000, 64 of 192 entries | 64 / 8 × 192 (values 128) | sinks | 22.5 | 2.8 |
| OLMo Hybrid 7B | 24 linear (delta rule) | — | 30 states of 96 × 192 | gate | 120.0 | 15.0 |
|  | 8 full | none | 30 / 30 × 128 | QK-norm over the width |  |  |
|  | 10 full | base 1,000,000, 128 of 512 entries | 32 / 4 × 512 | QK-norm per head, values from W_key |  |  |
""".strip()  # lines of the table, without links


def parameters_of(row, width):
    """The shapes of a ModernAttention's parameters, as a row of the table promises them."""
    heads, kv_heads, head_dim = (row[name] for name in ("heads", "kv_heads", "head_dim"))
    wide, of_keys = heads * head_dim, kv_heads * head_dim
    shapes = {"W_query": (wide, width), "out_proj": (width, wide)} | dict.fromkeys(
        ("W_key", "W_value"), (of_keys, width)
    )
    shapes |= {"W_gate": (wide, width)} if row.get("gate") else {}
    biased = [name for name in shapes if row.get("out_bias" if name == "out_proj" else "bias")]
    norms = {"head": (head_dim, head_dim), "width": (wide, of_keys)}.get(row.get("qk_norm"), ())
    found = {f"{name}.weight": shape for name, shape in shapes.items()}
    found |= {f"{name}.bias": shapes[name][:1] for name in biased} | ({"sinks": (heads,)} if row.get("sinks") else {})
    return found | {f"{name}_norm.weight": (size,) for name, size in zip(("query", "key"), norms, strict=False)}


def rotation_of(row, truncate):
    """How fast a row's pairs rotate, by the formulas' own words, and their factor. Only gpt-oss doesn't truncate."""
    rotated = row.get("rotated") or row.get("d_rope") or row["head_dim"]
    wide, (kind, factor, original) = row.get("rope_dim", rotated), (None, 1, None)
    plain = torch.tensor(
        [row["base"] ** (-2 * n / wide) for n in range(rotated // 2)], dtype=torch.float64, device="cpu"
    )
    if "scaling" in row:
        kind, factor, original = (row["scaling"].get(name) for name in ("kind", "factor", "original"))
    if kind == "YaRN":
        return yarn_frequencies(plain, factor, original, row["base"], truncate=truncate)[0], 0.1 * math.log(factor) + 1
    return llama3_frequencies(plain, factor, original) if kind == "Llama 3" else plain / factor, 1.0


def check_numbers(layer, row, width, name):
    frequencies, factor = (None, 1.0) if row["base"] is None else rotation_of(row, name != "gpt-oss 120B")
    assert (layer.frequencies is None) == (frequencies is None)
    if frequencies is not None:
        assert layer.frequencies.tolist() == pytest.approx(frequencies.tolist(), rel=1e-9)
    assert (layer.d_in, layer.d_out, layer.num_heads) == (width, width, row["heads"])
    if "d_latent" in row:
        assert all(getattr(layer, name) == row[name] for name in ("d_latent", "d_key", "d_value", "d_rope"))
        assert layer.W_query[0].out_features == row["d_query_latent"]
        assert (layer.factor, layer.scale) == (1.0, pytest.approx((128 + 64) ** -0.5 * factor**2))
    else:
        assert {name: tuple(part.shape) for name, part in layer.named_parameters()} == parameters_of(row, width)
        assert (layer.num_kv_heads, layer.window) == (row["kv_heads"], row.get("window"))
        assert (layer.factor, layer.scale) == pytest.approx((factor, SCALES.get(name, row["head_dim"] ** -0.5)))


@pytest.mark.parametrize("model", published.published_models(), ids=lambda model: model["name"])
def test_each_row_keeps_what_it_says_and_has_a_source(model):
    for num_tokens in (0, 100, 1024, 9001) if model["name"] in KEPT else ():
        assert published.model_cache_bytes(model, num_tokens) == kept_by_hand(model["name"], num_tokens)
    assert model["source"]
    for row in model["layers"]:
        with torch.device("meta"):
            layer = published.build_layer(row, model["width"])
            if layer is None:
                assert row["kind"] == "linear" or "value_dim" in row
                continue
            check_numbers(layer, row, model["width"], model["name"])
            out, cache = layer.step(torch.empty(1, 300, model["width"]))
        assert out.shape == (1, 300, model["width"])
        kept = sum(part.numel() for part in cache if isinstance(part, torch.Tensor))
        assert kept == published.cached_numbers(row, 300) - 300 * row.get("index_dim", 0)


def test_the_table_says_what_each_kind_of_layer_has_and_what_its_cache_takes():
    models = published.published_models()
    lines = published.models_table(models).splitlines()
    assert lines[2].startswith(f'| [GPT-2 124M]({models[0]["link"]} "openai/gpt-2, src/model.py") | 12 full |')
    assert set(SAID.splitlines()) <= {re.sub(r"\[(.*?)\]\(.*?\)", r"\1", line) for line in lines}
    few = published.models_table(models[:1], ("KiB per token", "model", "GiB at 131,072")).splitlines()
    assert (few[1], few[2][:22]) == ("| --: | --- | --: |", "| 36.0 | [GPT-2 124M](")
