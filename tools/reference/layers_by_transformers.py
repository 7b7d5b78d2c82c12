"""What transformers computes: frequencies of scaled rotary positions, multi-head latent attention, the delta rule.

Each case is a family, its shapes in the order in which `drawn` fills them, and what comes out.
"""

import random

import numpy as np
import torch

SEEDS = range(3)
BATCH, TOKENS, WIDTH = 2, 7, 6
LATENT = {"q_lora_rank": None, "kv_lora_rank": 7, "qk_nope_head_dim": 6, "qk_rope_head_dim": 4, "v_head_dim": 5}


def drawn(seed, shapes):
    """Arrays of these shapes that come out the same everywhere, as numpy's generator promises and torch's doesn't.

    Matrices are divided by the root of their width, so that scores stay near 1.
    """
    arrays = map(np.random.default_rng(seed).standard_normal, shapes)
    return [np.float32(array / array.shape[1] ** 0.5 if array.ndim == 2 else array) for array in arrays]


def latent(seed):
    from transformers.models.deepseek_v3 import modeling_deepseek_v3 as code

    heads = {"hidden_size": WIDTH, "num_attention_heads": seed + 1, "num_key_value_heads": seed + 1}
    config = code.DeepseekV3Config(**heads, **LATENT, attn_implementation="eager")
    layer = code.DeepseekV3Attention(config, 0).eval()
    shapes = {name: list(value.shape) for name, value in sorted(layer.named_parameters())}
    *values, x = map(torch.from_numpy, drawn(seed, [*shapes.values(), (BATCH, TOKENS, WIDTH)]))
    for name, value in zip(shapes, values, strict=True):
        layer.get_parameter(name).data = value
    hide = torch.full((TOKENS, TOKENS), -torch.inf).triu(1)[None, None]
    turns = code.DeepseekV3RotaryEmbedding(config)(x, torch.arange(TOKENS)[None])
    output = layer(x.requires_grad_(), position_embeddings=turns, attention_mask=hide)[0]
    output.square().sum().backward()
    found = {"shapes": shapes, "output": rounded(output), "gradient": rounded(x.grad)}
    return {"family": "latent", "seed": seed, "num_heads": seed + 1} | found


def scaled(kind, seed):
    """Frequencies of heads 16 or 64 wide, and the factor of queries and keys, as a model's configuration asks for."""
    from transformers.models.gpt_oss.modeling_gpt_oss import GptOssConfig, GptOssRotaryEmbedding

    chance = random.Random(f"{kind} {seed}")
    rope = {"rope_type": kind, "rope_theta": chance.choice([10_000.0, 500_000.0]), "factor": chance.choice([4.0, 32.0])}
    rope |= {"original_max_position_embeddings": chance.choice([256, 4096])}
    more = {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
    rope |= more if kind == "llama3" else {"beta_fast": 32.0, "beta_slow": 1.0, "truncate": seed > 0}
    config = GptOssConfig(head_dim=chance.choice([16, 64]), rope_parameters=rope, max_position_embeddings=131_072)
    made = GptOssRotaryEmbedding(config)
    found = {"head_dim": config.head_dim, "rope": rope, "factor": made.attention_scaling}
    return {"family": kind, "seed": seed, **found, "frequencies": rounded(made.inv_freq)}


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
    rope = [scaled(kind, seed) for kind in ("llama3", "yarn") for seed in SEEDS]
    return rope + [make(seed) for make in (latent, delta_rule) for seed in SEEDS]
