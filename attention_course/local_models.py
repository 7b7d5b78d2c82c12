"""GGUF files that programs for running models have left on this computer, found by where each of them keeps its own."""

import json
import os
from contextlib import suppress
from pathlib import Path

OLLAMAS_MODEL = "application/vnd.ollama.image.model"


def local_models():
    """Paths by a model's name, of llama.cpp, LM Studio, Ollama, the Hugging Face hub, GPT4All and Jan.

    Only looks at names, and at Ollama's lists of what belongs to a model; opens no model. Vision parts are left out.
    Source: each program's documentation of its models' folder, and the environment variables that move it.
    """
    from platformdirs import user_cache_path, user_config_path, user_data_path

    home, moved = Path.home(), os.environ.get
    hub = Path(moved("HF_HOME") or home / ".cache/huggingface", "hub")
    ollama = Path(moved("OLLAMA_MODELS") or home / ".ollama/models")
    folders = [
        moved("LLAMA_CACHE") or user_cache_path("llama.cpp", False, opinion=False),
        home / ".lmstudio/models",
        moved("HF_HUB_CACHE") or hub,
        user_data_path() / "nomic.ai/GPT4All",
        user_config_path(roaming=True) / "Jan/data",
    ]
    files = (path for folder in folders for path in Path(folder).rglob("*.gguf"))
    found = {path.stem: path for path in files if "mmproj" not in path.name}
    for manifest in (ollama / "manifests").rglob("*"):
        with suppress(OSError, ValueError, KeyError, TypeError):  # a folder, or another file
            for part in json.loads(manifest.read_text(encoding="utf-8"))["layers"]:
                if part["mediaType"] == OLLAMAS_MODEL:  # a blob's name is its checksum
                    blob = ollama / "blobs" / part["digest"].replace(":", "-")
                    found[f"{manifest.parent.name}:{manifest.name}"] = blob
    return found
