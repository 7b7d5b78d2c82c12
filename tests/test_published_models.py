"""The table of published models in notebook 09: each row, built from our classes where they can, keeps what it says."""

import pytest
import torch

from attention_helpers.modern.published import build_layer, cached_numbers, model_cache_bytes, published_models

# KiB that the cache grows by per token in 2-byte numbers, worked out by hand from each publisher's numbers
GROWS = {"GPT-2 124M": 36, "Llama 2 7B": 512, "Llama 3.1 8B": 128, "DeepSeek-V3": 68.625, "Gemma 3 27B": 80,
         "Qwen3 8B": 144, "MiniMax-M1": 40, "SmolLM3 3B": 72, "gpt-oss 120B": 36, "OLMo 3 7B": 128,
         "DeepSeek-V3.2": 83.875, "MiMo-V2-Flash": 22.5, "Qwen3.5 9B": 32, "OLMo Hybrid 7B": 120,
         "Gemma 4 31B": 80}  # fmt: skip


@pytest.mark.parametrize("model", published_models(), ids=lambda model: model["name"])
def test_each_row_keeps_what_it_says_and_has_a_source(model):
    assert model_cache_bytes(model, 9001) - model_cache_bytes(model, 9000) == 1024 * GROWS[model["name"]]
    assert model["source"]
    for row in model["layers"]:
        with torch.device("meta"):
            layer = build_layer(row, model["width"])
            if layer is None:
                assert row["kind"] == "linear" or "value_dim" in row
                continue
            out, cache = layer.step(torch.empty(1, 300, model["width"]))
        assert out.shape == (1, 300, model["width"])
        kept = sum(part.numel() for part in cache if isinstance(part, torch.Tensor))
        assert kept == cached_numbers(row, 300) - 300 * row.get("index_dim", 0)
