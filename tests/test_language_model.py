"""The language model, on a tiny one."""

from copy import deepcopy

import pytest
import torch
from random_models import CONTROL, config_of, drawn_tensors, write_gguf

from attention_helpers import max_difference
from attention_helpers.language_model.heads import mean_contexts
from attention_helpers.language_model.model import generate, load_model

CONFIG, TEXT = config_of("tiny"), "the cat on the mat"
HEADS, HEAD_DIM = CONFIG.num_heads, CONFIG.head_dim
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


def test_mean_ablation_puts_the_heads_mean_at_every_position(model, token_ids):
    means = mean_contexts(model, token_ids)
    seen = []
    hook = model.blocks[1].attention.out_proj.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    model(token_ids)
    model(token_ids, {(1, 2): means[1, 2]})
    hook.remove()
    before, after = (each.unflatten(-1, (HEADS, HEAD_DIM)) for each in seen)
    torch.testing.assert_close(means[1, 2], before[:, :, 2].flatten(0, 1).mean(dim=0))
    torch.testing.assert_close(after[:, :, 2], means[1, 2].expand(2, 9, HEAD_DIM))
    assert after[:, :, [0, 1, 3]].equal(before[:, :, [0, 1, 3]])


def test_greedy_generation_is_the_likeliest_token_again_and_again(model):
    token_ids, ablate = model.encode(TEXT), [(0, 0), (1, 1)]
    for _ in range(6):
        token_ids = torch.cat((token_ids, model(token_ids, ablate)[:, -1:].argmax(dim=-1)), dim=1)
    assert generate(model, TEXT, 6, ablate=ablate) == model.decode(token_ids[0, -6:])


ONE = torch.tensor([[1, 2]])
REFUSED = [
    (lambda m: m(torch.ones(1, 41).long()), "token_ids must hold 1 to 40 tokens, got 41"),
    (lambda m: m.step(ONE, m.step(torch.ones(1, 40).long())[1]), "must hold 1 to 0 tokens, got 2"),
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
