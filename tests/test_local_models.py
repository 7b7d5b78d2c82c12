"""Finding models that other programs keep: in folders laid out as each of them documents it."""

import json
from pathlib import Path

import pytest

from attention_helpers.language_model import local_models as module
from attention_helpers.language_model.local_models import local_models

FILES = {
    ".cache/llama.cpp/owner_tiny_q8.gguf": ("llama.cpp", "owner_tiny_q8"),
    ".lmstudio/models/owner/tiny/tiny-q4.gguf": ("LM Studio", "tiny-q4"),
    ".lmstudio/models/owner/tiny/mmproj-tiny.gguf": None,
    ".cache/huggingface/hub/models--owner--tiny/snapshots/0f/tiny-f16.gguf": ("Hugging Face", "tiny-f16"),
    ".local/share/nomic.ai/GPT4All/tiny-q5.gguf": ("GPT4All", "tiny-q5"),
    ".config/Jan/data/llamacpp/models/tiny/model.gguf": ("Jan", "model"),
    ".config/Jan/data/llamacpp/models/tiny/model.yml": None,
    ".ollama/models/blobs/sha256-12ab": ("Ollama", "tiny:1b"),
    ".ollama/models/blobs/sha256-99ff": None,
}


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home folder on Linux with one model for each program."""
    monkeypatch.setattr(module.os, "environ", {})
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    for name, folder in {"cache": ".cache/llama.cpp", "data": ".local/share", "config": ".config"}.items():
        monkeypatch.setattr(f"platformdirs.user_{name}_path", lambda *_, folder=folder, **__: tmp_path / folder)
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"GGUF" * 5_000_000 if "blobs/sha256-12" in name else b"GGUF")
    kinds = {module.MODEL_LAYER: "sha256:12ab", "text": "sha256:99ff"}
    layers = [{"mediaType": kind, "digest": digest} for kind, digest in kinds.items()]
    for name, text in {"1b": json.dumps({"layers": layers}), "notes": "[1]", "broken": "{"}.items():
        manifest = tmp_path / ".ollama/models/manifests/registry/library/tiny" / name
        manifest.parent.mkdir(parents=True, exist_ok=True)
        manifest.write_text(text)
    return tmp_path


def test_each_programs_models_are_listed_and_nothing_else(home):
    found = {(model.program, model.name, model.path) for model in local_models()}
    assert found == {(*named, home / file) for file, named in FILES.items() if named}
    assert {model.gigabytes for model in local_models()} == {0.0, 0.02}


def test_a_folder_that_a_variable_moves_is_looked_into(home, monkeypatch):
    (home / "elsewhere").mkdir()
    (home / "elsewhere/mine.gguf").write_bytes(b"")
    monkeypatch.setattr(module.os, "environ", {"LLAMA_CACHE": str(home / "elsewhere")})
    assert [model.name for model in local_models() if model.program == "llama.cpp"] == ["mine"]
