"""The language model, on a tiny one."""

from copy import deepcopy

import pytest
import torch
from random_models import CONTROL, config_of, drawn_tensors, write_gguf

from attention_helpers import max_difference
from attention_helpers.language_model.model import load_model

CONFIG = config_of("tiny")
HEAD_DIM = CONFIG.head_dim
TENSORS = {
    name: (3 * array, kind) for name, (array, kind) in drawn_tensors(CONFIG).items()
}  # so wide that heads differ


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    return load_model(write_gguf(folder / "tiny.gguf", CONFIG, TENSORS), folder)


@pytest.fixture(scope="module")
def token_ids():
    return torch.randint(CONFIG.vocab_size, (2, 9), generator=torch.Generator().manual_seed(0))


def test_a_head_that_is_off_gives_the_last_projection_nothing(model, token_ids):
    """Logits without ablation are compared with another implementation's in test_language_model_figures."""
    without, ablate = deepcopy(model), [(1, 3), (0, 0), (1, 2)]
    for layer, head in ablate:
        without.blocks[layer].attention.out_proj.weight[:, head * HEAD_DIM : (head + 1) * HEAD_DIM] = 0
    assert max_difference(model(token_ids, ablate), without(token_ids)) < 1e-5


ONE = torch.tensor([[1, 2]])
REFUSED = [
    (lambda m: m(torch.ones(1, 41).long()), "token_ids must hold 1 to 40 tokens, got 41"),
    (lambda m: m.run(ONE, m.run(torch.ones(1, 40).long())[2]), "must hold 1 to 0 tokens, got 2"),
    (lambda m: m(ONE, [(0, 4)]), r"below \(2, 4\), got \(0, 4\)"),
    (lambda m: m.encode(""), "text must hold at least one token"),
]


@pytest.mark.parametrize(("call", "says"), REFUSED, ids=[says for _, says in REFUSED])
def test_bad_input_is_named(model, call, says):
    with pytest.raises(ValueError, match=says):
        call(model)


def test_a_beginning_token_comes_before_a_text_if_the_file_asks_for_it(tmp_path):
    fields = {"tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.add_bos_token": True}
    model = load_model(write_gguf(tmp_path / "opened.gguf", CONFIG, TENSORS, fields), tmp_path)
    assert model.words(model.encode("the the")[0]) == [CONTROL[1], "the", " the"]
