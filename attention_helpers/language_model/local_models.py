"""GGUF files that programs for running models have left on this computer, found by where each of them keeps its own."""

import json
import os
from pathlib import Path
from typing import NamedTuple

OLLAMA, MODEL_LAYER = "Ollama", "application/vnd.ollama.image.model"
LONGEST_MANIFEST = 2**20  # bytes


class LocalModel(NamedTuple):
    """A model's file."""

    program: str  # that keeps it
    name: str
    gigabytes: float
    path: Path


def local_models():
    """LocalModels in the usual folders of llama.cpp, LM Studio, Ollama, the Hugging Face hub, GPT4All and Jan.

    Only looks at names, sizes and Ollama's lists of what belongs to a model; opens no model. Ordered by program, then
    size. Vision parts are left out.
    Source: each program's documentation of its models' folder, and the environment variables that move it.
    """
    found = [model for program, folder in folders() for model in models_in(program, folder)]
    return sorted(set(found), key=lambda model: (model.program, model.gigabytes, model.name))


def folders():
    """Pairs of a program and a folder that it uses, if it's there."""
    from platformdirs import user_cache_path, user_config_path, user_data_path

    home, moved = Path.home(), lambda name, usual: Path(os.environ.get(name) or usual)
    cache = moved("XDG_CACHE_HOME", home / ".cache")
    return [
        ("llama.cpp", moved("LLAMA_CACHE", user_cache_path("llama.cpp", appauthor=False, opinion=False))),
        ("LM Studio", home / ".lmstudio/models"),
        ("LM Studio", cache / "lm-studio/models"),  # of older versions
        (OLLAMA, moved("OLLAMA_MODELS", home / ".ollama/models")),
        (OLLAMA, Path("/usr/share/ollama/.ollama/models")),  # as a service on Linux
        ("Hugging Face", moved("HF_HUB_CACHE", moved("HF_HOME", cache / "huggingface") / "hub")),
        ("GPT4All", user_data_path() / "nomic.ai/GPT4All"),
        ("Jan", user_config_path(roaming=True) / "Jan/data"),
    ]


def models_in(program, folder):
    """The LocalModels in a folder; none if it isn't there or can't be looked into."""
    try:
        files = in_ollama(folder) if program == OLLAMA else ((path.stem, path) for path in folder.rglob("*.gguf"))
        return [
            LocalModel(program, name, round(path.stat().st_size / 1e9, 2), path)
            for name, path in files
            if path.is_file() and "mmproj" not in path.name
        ]
    except OSError:
        return []


def in_ollama(folder):
    """Names and paths: manifests/HOST/OWNER/MODEL/TAG lists a model's parts, which are in blobs, by their checksums."""
    for manifest in (folder / "manifests").rglob("*"):
        if not manifest.is_file() or manifest.stat().st_size > LONGEST_MANIFEST:
            continue
        try:
            parts = json.loads(manifest.read_text(encoding="utf-8"))
            digests = [part["digest"] for part in parts.get("layers", []) if part.get("mediaType") == MODEL_LAYER]
        except (ValueError, KeyError, AttributeError, TypeError):  # another file in the same folder
            continue
        for digest in digests:
            yield f"{manifest.parent.name}:{manifest.name}", folder / "blobs" / digest.replace(":", "-")
