"""The table of published models in notebook 12: what each row keeps, and what it says."""

import pytest

from attention_course import published

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


@pytest.mark.parametrize("model", published.published_models(), ids=lambda model: model["name"])
def test_each_row_keeps_what_it_says_and_has_a_source(model):
    for num_tokens in (0, 100, 1024, 9001) if model["name"] in KEPT else ():
        assert published.model_cache_bytes(model, num_tokens) == kept_by_hand(model["name"], num_tokens)
    assert model["source"]
