"""ModernAttention, LatentAttention and delta_rule compute what transformers' layers do: see tools/reference."""

import json
import math
from pathlib import Path

import pytest
import torch

from attention_helpers import max_difference
from attention_helpers.modern.latent import LatentAttention
from attention_helpers.modern.layers import ModernAttention
from attention_helpers.modern.linear import delta_rule
from attention_helpers.modern.positions import llama3_frequencies, rope_frequencies, yarn_frequencies
from tools.reference import layers_by_transformers

CASES = json.loads((Path(__file__).parent / "modern_layers.json").read_text(encoding="utf-8"))
LAYERS = [case for case in CASES if case["family"] != "delta_rule"]
RULES = [case for case in CASES if case["family"] == "delta_rule"]
EXACT = 2e-6  # relative, in float32
FACTORS = "low_freq_factor", "high_freq_factor"
OPTIONS = {
    "llama3": {},
    "qwen3": {"qk_norm": "head"},
    "olmo2": {"qk_norm": "width"},
    "gemma3": {"qk_norm": "head", "scale": 7**-0.5, "window": 3},
    "gpt_oss": {"bias": True, "out_bias": True, "sinks": True, "window": 3},
    "phi": {"bias": True, "out_bias": True},
    "qwen3_next": {"qk_norm": "head", "gate": True},
}


def drawn(case, *more):
    """Tensors of the case's shapes and of `more`, as tools/reference drew them."""
    shapes = [*case["shapes"].values(), *more]
    return [torch.from_numpy(array) for array in layers_by_transformers.drawn(case["seed"], shapes)]


def case_named(case):
    return f"{case['family']}-{case['seed']}"


def frequencies_of(rope, width):
    """Our frequencies, and the factor of queries and keys, for a `rope_parameters` of a configuration."""
    base, kind = rope["rope_theta"], rope["rope_type"]
    frequencies = rope_frequencies(int(width * rope.get("partial_rotary_factor", 1)), base)
    if kind == "llama3":
        long, low, high = (rope[name] for name in ("original_max_position_embeddings", *FACTORS))
        return llama3_frequencies(frequencies, rope["factor"], long, low, high), 1.0
    if kind == "yarn":
        long = rope["original_max_position_embeddings"]
        return yarn_frequencies(frequencies, rope["factor"], long, base, truncate=rope.get("truncate", True))
    return frequencies, 1.0


def neighbours(value, width):
    """Rows per head from the half-split layout (i with i + width / 2) to pairs of neighbours; the rest stays."""
    order = [entry for pair in zip(range(width // 2), range(width // 2, width), strict=True) for entry in pair]
    return torch.cat((value[:, order], value[:, width:]), dim=1)


def modern(case, state):
    """Our layer with the weights of theirs."""
    sizes, family = case["sizes"], case["family"]
    heads, shared, head_dim = sizes["num_attention_heads"], sizes["num_key_value_heads"], sizes["head_dim"]
    frequencies, factor = frequencies_of(case["rope"], head_dim)
    names = {"k_proj": "W_key", "q_proj": "W_query", "v_proj": "W_value", "o_proj": "out_proj", "dense": "out_proj"}
    names |= {"q_norm": "query_norm", "k_norm": "key_norm"}
    ours = {}
    for name, value in state.items():
        part, _, kind = name.partition(".")
        if part == "q_proj" and family == "qwen3_next":  # each head's query and gate are stacked
            value, gate = value.unflatten(0, (heads, 2, head_dim)).unbind(1)
            value, ours["W_gate.weight"] = value.flatten(0, 1), gate.flatten(0, 1)
        if part.endswith("_norm") and family in ("gemma3", "qwen3_next"):
            value = 1 + value
        if part[0] in "qk" and part[1] == "_":  # biases and gains rotate too
            grouped = value.view(-1, head_dim, *value.shape[1:])
            value = neighbours(grouped, 2 * len(frequencies)).flatten(0, 1)
        ours[f"{names[part]}.{kind}" if kind else part] = value
    width = sizes["hidden_size"]
    options = OPTIONS[family] | {"frequencies": frequencies, "factor": factor, "head_dim": head_dim}
    layer = ModernAttention(width, width, heads, shared, **options)
    layer.load_state_dict(ours)
    return layer


def latent(case, state):
    sizes, rope = case["sizes"], case["rope"]
    heads, width, key = sizes["num_attention_heads"], sizes["hidden_size"], sizes["qk_nope_head_dim"]
    rank, turning, value = sizes["kv_lora_rank"], sizes["qk_rope_head_dim"], sizes["v_head_dim"]
    frequencies, _ = frequencies_of(rope, turning)

    def strength(mscale):
        return 0.1 * mscale * math.log(rope["factor"]) + 1

    factor, scale = 1.0, (key + turning) ** -0.5
    if "mscale" in rope:
        factor = strength(rope["mscale"]) / strength(rope["mscale_all_dim"])
        scale *= strength(rope["mscale_all_dim"]) ** 2
    sizes = heads, rank, key, value, turning, sizes["q_lora_rank"]
    layer = LatentAttention(width, width, *sizes, scale=scale, frequencies=frequencies, factor=factor)
    down, up = state["kv_a_proj_with_mqa.weight"], state["kv_b_proj.weight"].unflatten(0, (heads, key + value))
    ours = {"out_proj.weight": state["o_proj.weight"], "latent_norm.weight": state["kv_a_layernorm.weight"]}
    ours |= {"W_latent.weight": down[:rank], "W_rotary_key.weight": down[rank:]}
    ours |= {"W_key.weight": up[:, :key].flatten(0, 1), "W_value.weight": up[:, key:].flatten(0, 1)}
    names = {"q_proj": "W_query", "q_a_proj": "W_query.0", "q_a_layernorm": "W_query.1", "q_b_proj": "W_query.2"}
    ours |= {f"{names[n[:-7]]}.weight": value for n, value in state.items() if n[:-7] in names}
    layer.load_state_dict(ours)
    return layer


def off(result, expected):
    return max_difference(result, expected) / expected.abs().max().item()


@pytest.mark.parametrize("case", LAYERS, ids=case_named)
def test_outputs_and_gradients_are_those_of_another_implementation(case):
    shape = 2, case["num_tokens"], case["sizes"]["hidden_size"]
    *values, x = drawn(case, shape)
    state = dict(zip(case["shapes"], values, strict=True))
    layer = (latent if case["family"] == "deepseek" else modern)(case, state)
    x.requires_grad_()
    expected, gradient = (torch.tensor(case[name]).view(shape) for name in ("output", "gradient"))
    whole = layer(x)
    assert off(whole, expected) < EXACT
    leaves = x, *layer.parameters()  # autograd refuses a parameter that the result doesn't depend on
    assert off(torch.autograd.grad(whole.square().sum(), leaves)[0], gradient) < 10 * EXACT
    parts, cache = [], None
    for chunk in x.split([2, 1, case["num_tokens"] - 3], dim=1):
        part, cache = layer.step(chunk, cache)
        parts.append(part)
    assert off(torch.cat(parts, dim=1), expected) < EXACT


@pytest.mark.parametrize("case", RULES, ids=case_named)
def test_the_delta_rule_is_that_of_another_implementation(case):
    queries, keys, values, decay, rate = (part.transpose(1, 2) for part in drawn(case))
    queries, keys = (torch.nn.functional.normalize(part, dim=-1) for part in (queries, keys))
    result = delta_rule(queries / 2, keys, values, rate.sigmoid(), (-decay.exp()).exp())
    expected = torch.tensor(case["output"]).view(1, 6, 2, 3).transpose(1, 2)
    assert off(result, expected) < EXACT
