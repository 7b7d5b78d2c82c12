"""Scaled frequencies, LatentAttention and the state of GatedDeltaNet are what transformers 5.23 computed."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from attention_course.explorers.rope_scaling import llama3_frequencies, yarn_frequencies
from attention_helpers import max_difference
from attention_helpers.modern.memory import GatedDeltaNet, LatentAttention
from attention_helpers.modern.positions import rope_frequencies

CASES = json.loads((Path(__file__).parent / "modern_layers.json").read_text(encoding="utf-8"))
EXACT = 2e-6  # relative, in float32
NAMES = {"o_proj": "out_proj", "q_proj": "W_query", "kv_a_layernorm": "latent_norm"}


def of(*families):
    """The stored cases of these families, for a test."""
    chosen = [pytest.param(case, id=f"{case['family']}-{case['seed']}") for case in CASES if case["family"] in families]
    return pytest.mark.parametrize("case", chosen)


def drawn(case, *more):
    """The tensors that transformers got, of the case's shapes and of `more`."""
    shapes = [*case["shapes"].values(), *more]
    arrays = map(np.random.default_rng(case["seed"]).standard_normal, shapes)
    scaled = [array / array.shape[1] ** 0.5 if array.ndim == 2 else array for array in arrays]
    return [torch.from_numpy(np.float32(array)) for array in scaled]


def off(result, expected):
    return max_difference(result, expected) / expected.abs().max().item()


@of("llama3", "yarn")
def test_scaled_frequencies_are_those_of_another_implementation(case):
    rope = case["rope"]
    plain, factor = rope_frequencies(case["head_dim"], rope["rope_theta"]), 1.0
    sizes = rope["factor"], rope["original_max_position_embeddings"]
    if case["family"] == "llama3":
        scaled = llama3_frequencies(plain, *sizes, rope["low_freq_factor"], rope["high_freq_factor"])
    else:
        scaled, factor = yarn_frequencies(plain, *sizes, rope["rope_theta"], truncate=rope["truncate"])
    assert scaled.tolist() == pytest.approx(case["frequencies"], rel=EXACT)
    assert factor == pytest.approx(case["factor"])


@of("latent")
def test_latent_attention_and_its_gradient_are_those_of_another_implementation(case):
    shape = 2, len(case["output"]) // 12, 6
    *values, x = drawn(case, shape)
    theirs = {name.removesuffix(".weight"): value for name, value in zip(case["shapes"], values, strict=True)}
    ours = {NAMES[name]: value for name, value in theirs.items() if name in NAMES}
    ours["W_latent"], ours["W_rotary_key"] = theirs["kv_a_proj_with_mqa"].split([7, 4])
    up = theirs["kv_b_proj"].unflatten(0, (case["num_heads"], -1)).split([6, 5], dim=1)
    ours["W_key"], ours["W_value"] = (part.flatten(0, 1) for part in up)
    layer = LatentAttention(6, 6, case["num_heads"], d_latent=7, d_key=6, d_value=5, d_rope=4)
    layer.load_state_dict({f"{name}.weight": value for name, value in ours.items()})
    output, _ = layer(x.requires_grad_())
    expected, gradient = (torch.tensor(case[name]).view(shape) for name in ("output", "gradient"))
    assert off(output, expected) < EXACT
    assert off(torch.autograd.grad(output.square().sum(), x)[0], gradient) < 10 * EXACT


@of("delta_rule")
def test_the_delta_rule_is_that_of_another_implementation(case):
    queries, keys, values, decay, rate = (part.transpose(1, 2) for part in drawn(case))
    queries, keys = (torch.nn.functional.normalize(part, dim=-1) for part in (queries, keys))
    layer = GatedDeltaNet(1, 1, queries.shape[1], 1, 1)
    layer.norm = layer.out_proj = torch.nn.Identity()
    rates, decays = rate.sigmoid()[..., None], (-decay.exp()).exp()[..., None]
    layer.project = lambda x: (queries / 2, keys, values, rates, decays, torch.ones_like(values))
    result = layer(queries[:, 0])[0].unflatten(-1, (queries.shape[1], -1)).transpose(1, 2)
    expected = torch.tensor(case["output"]).view(1, 6, 2, 3).transpose(1, 2)
    assert off(result, expected) < EXACT
