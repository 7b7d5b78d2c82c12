"""Every explorer from data that is quick to make, for the tests."""

from types import SimpleNamespace

import torch

from attention_course import explorers
from attention_course.published import published_models
from attention_helpers import MultiHeadAttention, attention_maps, load_sentence
from attention_helpers.language_model.families import ModelConfig
from attention_helpers.language_model.model import LanguageModel
from attention_helpers.language_model.tokenizer import make_tokenizer
from attention_helpers.training.characters import Characters, load_text
from attention_helpers.training.lookup import LookupModel, LookupTask
from attention_helpers.training.loop import Snapshot
from attention_helpers.training.small_models import load

SENTENCE = load_sentence("journey")
TEXT = "The town lies by a slow green river. It"
TYPED = [TEXT[:end] for end in (1, 2, 3, 5, 8, 13, 33)]  # the last is longer than a character model's window of 32


def made_up_run():
    """What a LearningExplorer sees of a Training: no optimizer, which is slow to import."""
    torch.manual_seed(0)
    task = LookupTask(questions=2, batch_size=16)
    reader = LookupModel(task, width=8, num_heads=2, d_out=8)
    examples, answers = task.batch(torch.Generator().manual_seed(1))
    snapshots = []
    for step in (0, 1, 2, 40, 400):
        with torch.no_grad():
            reader.attention.W_query.weight.mul_(1.5)
            outputs = reader(examples)
            loss, accuracy = task.loss(outputs, answers).item(), task.accuracy(outputs, answers)
            snapshots.append(Snapshot(step, loss, accuracy, {}, attention_maps(reader, examples[:8])[0]))
    return SimpleNamespace(task=task, examples=examples, snapshots=snapshots)


def made_up_model():
    """What a ReadingExplorer reads: a language model of 2 layers, untrained; each byte of a text is a token."""
    from tokenizers import pre_tokenizers

    symbols = sorted(pre_tokenizers.ByteLevel.alphabet())
    names = {"model": "gpt2", "pre": "smollm", "tokens": symbols, "merges": []}
    tokenizer = make_tokenizer({f"tokenizer.ggml.{name}": value for name, value in names.items()})
    config = ModelConfig(len(symbols), 16, 24, 2, 4, 2, 4, 10_000.0, 1e-5, 128)
    torch.manual_seed(0)
    return LanguageModel(config, tokenizer).requires_grad_(False)


RUN = made_up_run()
MODELS = {name: load(name) for name in ("masked", "leaky")}, Characters(load_text())
MODEL = made_up_model()
FROM_NOTHING = "Cache Cost Dropout KeyWidth Length Machines Mask QKV Scaling Split Suspects Wrapper"
MADE_FROM = {f"{name}Explorer": () for name in FROM_NOTHING.split()} | {  # all others are made from a sentence alone
    "LayerExplorer": (MultiHeadAttention, SENTENCE),
    "LearningExplorer": (RUN,),
    "ModelsExplorer": (published_models(),),
    "Playground": (),
    "ReadingExplorer": (MODEL,),
    "TextExplorer": MODELS,
}


def make(name):
    """A new explorer."""
    return getattr(explorers, name)(*MADE_FROM.get(name, (SENTENCE,)))


def reset(explorer):
    """Press its Reset button."""
    next(part for part in widgets_in(explorer) if getattr(part, "description", "") == "Reset").click()


def widgets_in(widget):
    """A widget's children and theirs."""
    for child in getattr(widget, "children", ()):
        yield from (child, *widgets_in(child))


def settings_of(control):
    """Every value that a control can take; of a text, one that grows as it is typed."""
    if isinstance(control.value, str) and not hasattr(control, "options"):
        return TYPED if control.description == "text" else [control.value, "step, Your, journey, with, one, starts"]
    if hasattr(control, "options"):
        return [value for _, value in control._options_full]
    if hasattr(control, "min"):
        count = round((control.max - control.min) / control.step)
        return [type(control.value)(round(control.min + n * control.step, 6)) for n in range(count + 1)]
    return [True, False]
