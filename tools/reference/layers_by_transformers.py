"""What transformers' attention layers compute at small random sizes.

Each case is a family, its layer's sizes, the parameters' shapes in the order in which `drawn` fills them, the output
for x, and the gradient of the sum of its squares with respect to x.
"""

import importlib
import random
from functools import partial

import numpy as np
import torch

SEEDS = range(3)
BATCH = 2


def llama3(chance, seed):
    scaling = {"factor": chance.choice([2.0, 8.0]), "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    long = {"original_max_position_embeddings": chance.choice([16, 64])}
    return {"rope_type": "llama3", "rope_theta": 500_000.0} | scaling | long


def yarn(chance, seed, **more):
    scaling = {"rope_theta": chance.choice([10_000.0, 150_000.0]), "factor": chance.choice([4.0, 32.0])}
    long = {"original_max_position_embeddings": chance.choice([256, 4096])}
    return {"rope_type": "yarn", "beta_fast": 32.0, "beta_slow": 1.0} | scaling | long | more


def plain(chance, seed, **more):
    return {"rope_type": "default", "rope_theta": chance.choice([10_000.0, 1_000_000.0])} | more


def deepseek(chance, seed):
    """Without scaling, with YaRN whose factor is 1, and with one whose factor isn't."""
    return (
        plain(chance, seed) if seed == 0 else yarn(chance, seed, mscale=1.0, mscale_all_dim=1.0 if seed == 1 else 0.5)
    )


# Family, module, config class, prefix of the layer's and rotary classes, what its rope is, other settings of its own.
FAMILIES = {
    "llama3": ("llama", "LlamaConfig", "Llama", llama3, {}),
    "qwen3": ("qwen3", "Qwen3Config", "Qwen3", plain, {}),
    "olmo2": ("olmo2", "Olmo2Config", "Olmo2", plain, {"rms_norm_eps": 1e-6}),
    "gemma3": ("gemma3", "Gemma3TextConfig", "Gemma3", plain, {"query_pre_attn_scalar": 7, "sliding_window": 3}),
    "gpt_oss": ("gpt_oss", "GptOssConfig", "GptOss", partial(yarn, truncate=False), {"sliding_window": 3}),
    "phi": ("phi", "PhiConfig", "Phi", partial(plain, partial_rotary_factor=0.5), {}),
    "qwen3_next": ("qwen3_next", "Qwen3NextConfig", "Qwen3Next", partial(plain, partial_rotary_factor=0.25), {}),
    "deepseek": ("deepseek_v3", "DeepseekV3Config", "DeepseekV3", deepseek, {}),
}


def sizes_of(family, chance):
    """Arguments of the family's configuration."""
    heads = chance.choice([1, 2])
    sizes = {"hidden_size": chance.choice([6, 10]), "head_dim": chance.choice([8, 16]), "num_key_value_heads": heads}
    sizes |= {"num_attention_heads": heads * chance.choice([1, 3]), "attention_dropout": 0.0}
    if family == "phi":  # its head_dim is a share of its width
        sizes["hidden_size"] = sizes["num_attention_heads"] * sizes["head_dim"]
    if family == "deepseek":
        sizes |= {"num_key_value_heads": sizes["num_attention_heads"], "q_lora_rank": chance.choice([None, 5])}
        sizes |= {"head_dim": 4, "kv_lora_rank": 7, "qk_nope_head_dim": 6, "qk_rope_head_dim": 4, "v_head_dim": 5}
    return sizes


def drawn(seed, shapes):
    """Arrays of these shapes that come out the same everywhere, as numpy's generator promises and torch's doesn't.

    Matrices are divided by the root of their width, so that scores stay near 1.
    """
    chance = np.random.default_rng(seed)
    widths = [shape[1] if len(shape) == 2 else 1 for shape in shapes]
    drawn = zip(widths, map(chance.standard_normal, shapes), strict=True)
    return [(array / width**0.5).astype(np.float32) for width, array in drawn]


def mask(num_tokens, window):
    apart = torch.arange(num_tokens)[:, None] - torch.arange(num_tokens)
    hide = (apart < 0) | (apart >= (window or num_tokens))
    return torch.zeros(num_tokens, num_tokens).masked_fill(hide, -torch.inf)[None, None]


def configured(family, seed, chance):
    """The family's module, its configuration, the sizes that this was made with, and its rope_parameters."""
    module, config_class, _, rope, more = FAMILIES[family]
    code = importlib.import_module(f"transformers.models.{module}.modeling_{module}")
    sizes, parameters = sizes_of(family, chance) | more, rope(chance, seed)
    options = {"rope_parameters": parameters, "max_position_embeddings": 64, "num_hidden_layers": 2}
    if "sliding_window" in more:
        options["layer_types"] = ["sliding_attention", "full_attention"]
    if family == "gemma3":  # its kinds of layers have positions of their own
        options["rope_parameters"] = dict.fromkeys(options["layer_types"], parameters)
    return code, getattr(code, config_class)(**sizes, **options, attn_implementation="eager"), sizes, parameters


def case(family, seed):
    chance = random.Random(f"{family} {seed}")
    code, config, sizes, parameters = configured(family, seed, chance)
    prefix, window, num_tokens = FAMILIES[family][2], sizes.get("sliding_window"), chance.choice([5, 9])
    layer = getattr(code, f"{prefix}Attention")(config, 0).eval()
    shapes = {name: list(value.shape) for name, value in sorted(layer.named_parameters())}
    *values, x = drawn(seed, [*shapes.values(), (BATCH, num_tokens, sizes["hidden_size"])])
    for name, value in zip(shapes, values, strict=True):
        layer.get_parameter(name).data = torch.from_numpy(value)
    x = torch.from_numpy(x).requires_grad_()
    kind = ["sliding_attention"] if family == "gemma3" else []
    turns = getattr(code, f"{prefix}RotaryEmbedding")(config)(x, torch.arange(num_tokens)[None], *kind)
    output = layer(x, position_embeddings=turns, attention_mask=mask(num_tokens, window))[0]
    output.square().sum().backward()
    made = {"family": family, "seed": seed, "sizes": sizes, "rope": parameters, "shapes": shapes}
    return made | {"num_tokens": num_tokens, "output": rounded(output), "gradient": rounded(x.grad)}


def delta_rule(seed):
    from transformers.models.qwen3_next.modeling_qwen3_next import torch_recurrent_gated_delta_rule

    vectors = {"queries": [1, 6, 2, 4], "keys": [1, 6, 2, 4], "values": [1, 6, 2, 3]}
    shapes = vectors | {"decay": [1, 6, 2], "rate": [1, 6, 2]}
    q, k, v, decay, rate = map(torch.from_numpy, drawn(seed, list(shapes.values())))
    output, _ = torch_recurrent_gated_delta_rule(q, k, v, -decay.exp(), rate.sigmoid(), use_qk_l2norm_in_kernel=True)
    return {"family": "delta_rule", "seed": seed, "shapes": shapes, "output": rounded(output)}


def rounded(values):
    return [float(f"{value:.8g}") for value in values.detach().flatten().tolist()]


def cases():
    return [case(family, seed) for family in FAMILIES for seed in SEEDS] + [delta_rule(seed) for seed in SEEDS]
