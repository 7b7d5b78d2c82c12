"""The table of published models in notebook 12: what each row keeps, and what it says."""

import re

import pytest

from attention_helpers.modern import published

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


@pytest.mark.parametrize("model", published.published_models(), ids=lambda model: model["name"])
def test_each_row_keeps_what_it_says_and_has_a_source(model):
    for num_tokens in (0, 100, 1024, 9001) if model["name"] in KEPT else ():
        assert published.model_cache_bytes(model, num_tokens) == kept_by_hand(model["name"], num_tokens)
    assert model["source"]


def test_the_table_says_what_each_kind_of_layer_has_and_what_its_cache_takes():
    models = published.published_models()
    lines = published.models_table(models).splitlines()
    assert lines[2].startswith(f'| [GPT-2 124M]({models[0]["link"]} "openai/gpt-2, src/model.py") | 12 full |')
    assert set(SAID.splitlines()) <= {re.sub(r"\[(.*?)\]\(.*?\)", r"\1", line) for line in lines}
    few = published.models_table(models[:1], ("KiB per token", "model", "GiB at 131,072")).splitlines()
    assert (few[1], few[2][:22]) == ("| --: | --- | --: |", "| 36.0 | [GPT-2 124M](")
