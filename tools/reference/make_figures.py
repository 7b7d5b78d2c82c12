"""Have an implementation that isn't ours compute figures of the language model and of today's layers, for the tests.

    python -m tools.reference.make_figures     (make figures)

It runs in an environment of its own, build/reference, which is made at the first call (network, 100 MB): torch and all
else that the course has come from the course's environment.
"""

import json
import os
import subprocess
import sysconfig
import tempfile
import venv
from pathlib import Path

import torch

from attention_helpers.language_model.model_file import model_file

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ENVIRONMENT = ROOT / "build" / "reference"
PYTHON = ENVIRONMENT / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
FIGURES = ROOT / "tests" / "language_model.json"
LAYERS = ROOT / "tests" / "modern_layers.json"
HEADS = (0, 0), (2, 1), (14, 3), (18, 6), (29, 8)  # (layer, head), both from 0: their maps' last rows are stored
MOST = 8  # logits of the last token that are stored, the largest


def make_environment():
    """build/reference as tools/reference/requirements.txt has it; nothing where it is there already."""
    wanted, ready = (HERE / "requirements.txt").read_text(encoding="utf-8"), ENVIRONMENT / "ready"
    if ready.exists() and ready.read_text(encoding="utf-8") == wanted:
        return
    venv.create(ENVIRONMENT, clear=True, with_pip=True)
    paths = {"base": str(ENVIRONMENT), "platbase": str(ENVIRONMENT)}
    course = sysconfig.get_path("purelib")
    (Path(sysconfig.get_path("purelib", vars=paths)) / "course.pth").write_text(course, encoding="utf-8")
    pip = [PYTHON, "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "-c", ROOT / "constraints.txt", "-r", HERE / "requirements.txt"], check=True)
    ready.write_text(wanted, encoding="utf-8")


def computed(folder):
    """All that by_transformers computes, a dictionary a text; folder: for what is passed on."""
    make_environment()
    result = Path(folder) / "figures.pt"
    command = [PYTHON, HERE / "by_transformers.py", model_file(), result]
    subprocess.run(command, env=os.environ | {"HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1"}, check=True)
    return torch.load(result, weights_only=True)


def figures(text):
    """What is stored of one text."""
    best = text["logits"][-1].topk(MOST)
    rows = {f"{layer} {head}": text["maps"][layer, head, -1].tolist() for layer, head in HEADS}
    return {
        "text": text["text"],
        "token_ids": text["token_ids"].tolist(),
        "next": best.indices.tolist(),
        "logits": [round(value, 5) for value in best.values.tolist()],
        "rows": {name: [round(value, 7) for value in row] for name, row in rows.items()},
    }


def main():
    with tempfile.TemporaryDirectory() as folder:
        stored = [figures(text) for text in computed(folder)]
    lines = ",\n".join(json.dumps(text, ensure_ascii=False) for text in stored)
    FIGURES.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    subprocess.run([PYTHON, HERE / "layers_by_transformers.py", LAYERS], check=True)


if __name__ == "__main__":
    main()
