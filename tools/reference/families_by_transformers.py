"""What transformers' models of each family compute from small random GGUF files, and how its tokenizers cut texts."""

import tempfile
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from .random_models import FAMILIES, KINDS, SCALING, config_of, drawn_texts, write_family

WRITTEN, BEST = 4, 3  # tokens written after each text; its last token's largest logits


def configuration(file, name):
    """What transformers reads from a file's header, and what it can't know from it."""
    config, ours = AutoConfig.from_pretrained(**file), config_of(name)
    config.head_dim = ours.head_dim
    if ours.divisors:
        long = {"original_max_position_embeddings": SCALING["original"], "factor": SCALING["factor"]}
        blend = {"low_freq_factor": SCALING["low"], "high_freq_factor": SCALING["high"]}
        config.rope_parameters = {"rope_type": "llama3", "rope_theta": ours.base} | long | blend
    if ours.window:
        config.query_pre_attn_scalar = ours.head_dim
        full = {"rope_type": "linear", "rope_theta": ours.base, "factor": ours.factor}
        config.rope_parameters = config.rope_parameters | {"full_attention": full}
    return config


@torch.no_grad()
def case(folder, name, kind):
    """One file's figures: for each text, the tokens that follow it greedily, and the largest logits."""
    path = write_family(Path(folder) / f"{name}.gguf", name, kind)
    file = {"pretrained_model_name_or_path": folder, "gguf_file": path.name}
    how = {"config": configuration(file, name), "dtype": torch.float32, "attn_implementation": "eager"}
    model, texts = AutoModelForCausalLM.from_pretrained(**file, **how).eval(), []
    for text in drawn_texts():
        token_ids, logits = torch.tensor([text]), []
        for _ in range(WRITTEN):
            logits.append(model(token_ids, use_cache=False).logits[0, -1])
            token_ids = torch.cat((token_ids, logits[-1].argmax()[None, None]), dim=1)
        best = logits[0].topk(BEST)
        written = token_ids[0, len(text) :].tolist()
        texts.append([written, best.indices.tolist(), [round(value, 5) for value in best.values.tolist()]])
    return {"name": name, "kind": kind, "texts": texts}


def cases():
    chosen = [("llama", kind) for kind in KINDS[1:]] + [(name, "F32") for name in FAMILIES]
    with tempfile.TemporaryDirectory() as folder:
        return [case(folder, name, kind) for name, kind in chosen]
