"""Models trained on the lookup task: their weights in data/, and what each head makes of the letters."""

from collections import namedtuple
from contextlib import contextmanager
from functools import cache, lru_cache

import numpy as np
import torch
from torch.nn.utils import vector_to_parameters

from attention_course.build import build_layer
from attention_helpers._data import data_file
from attention_helpers.dropout import Dropout, draw_dropout_from
from attention_helpers.training.lookup import LookupModel, LookupTask

MODELS_FILE = data_file("lookup_models.npz")
EMBEDDING_WIDTH = 32  # of all models' embeddings
STORED_STEPS = (0, 10, 20, 30, 40, 50, 60, 80, 100, 150, 200, 300, 400, 600)  # stored of a training on one question
HEAD_NUMBERS = (1, 2, 4, 8)
MODEL_SIZES = {  # by questions: d_out, the width of all heads, and num_heads
    1: [(d_out, 1) for d_out in (1, 2, 3, 4, 8)],
    2: [(d_out, heads) for d_out in (1, 2, 4, 8, 16, 32) for heads in HEAD_NUMBERS if d_out % heads == 0],
}
Examples = namedtuple("Examples", "task x answers")  # x: (500, num_tokens, 2); answers: (500, questions)


@cache
def examples(questions):
    """Lookups that no model was trained on."""
    task = LookupTask(questions, batch_size=500)  # as many as are fast enough for a slider
    return Examples(task, *task.batch(torch.Generator().manual_seed(2**32 - 1)))  # a seed that no training step used


@lru_cache(128)
@torch.no_grad()
def load_lookup(questions, d_out, num_heads=1, step=STORED_STEPS[-1]):
    """One of the stored models, in eval mode. With two questions, only the last step is stored."""
    model = build_layer(LookupModel, 0, examples(questions).task, EMBEDDING_WIDTH, num_heads, d_out)
    draw_dropout_from(model)
    with np.load(MODELS_FILE) as sets:
        rows = sets[f"{questions} questions, d_out {d_out}, {num_heads} heads"]  # (steps, parameters)
    row = rows[STORED_STEPS.index(step) - len(STORED_STEPS)]
    vector_to_parameters(torch.from_numpy(row).float(), model.parameters())
    return model.requires_grad_(False).eval()


@contextmanager
def drop_weights(layer, p, seed):
    """While active, a layer is in training mode, and its dropout has this p and draws its masks from this seed."""
    draw_dropout_from(layer, torch.Generator().manual_seed(seed))
    for part in layer.modules():
        if isinstance(part, Dropout):
            part.p = p
    try:
        yield layer.train()
    finally:
        layer.eval()


@lru_cache(512)
@torch.no_grad()
def find_right(model, p=0.0, seed=0, off=()):
    """Which answers to the examples are right, (500, questions); p, seed: of dropout, with a mask for each example.

    off: heads that give nothing to the output projection.
    """
    (_, x, answers), layer = examples(model.task.questions), model.attention

    def without(projection, contexts):  # one tensor (b, num_tokens, d_out)
        heads = contexts[0].unflatten(-1, (layer.num_heads, -1)).clone()
        heads[..., list(off), :] = 0.0
        return heads.flatten(-2)

    with drop_weights(layer, p, seed), layer.out_proj.register_forward_pre_hook(without):
        return model(x).argmax(dim=-1) == answers


@torch.no_grad()
def show_example(model, example):
    """One of the examples in words, and embedded by the model, (num_tokens, WIDTH)."""
    task, x, _ = examples(model.task.questions)
    return task.words(x[example]), model.embed(x[example]).sum(dim=1)


@torch.no_grad()
def letters_of(model):
    """Each letter's query and key in a LookupModel for one question, (num_heads, letters, head_dim) each.

    A question also holds a blank, and a pair a digit, over which this is the mean.
    """
    task, attention, cut, embed = model.task, model.attention, model.attention.split_heads, model.embed.weight
    pair, asked = embed[: 2 * task.letters].view(2, task.letters, EMBEDDING_WIDTH)
    digit, blank = embed[3 * task.letters : task.blank].mean(dim=0), embed[task.blank]
    return cut(attention.W_query(asked + blank)[None])[0], cut(attention.W_key(pair + digit)[None])[0]


@torch.no_grad()
def ask_again(model, queries, keys):
    """All examples with one question, once each letter's query and key have moved by (letters, d_out) each.

    Returns each question's query (500, d_out), its weights (500, num_tokens), and the answers (500,).
    """
    (task, x, _), layer = examples(1), model.attention
    embedded = model.embed(x).sum(dim=2)  # (500, num_tokens, WIDTH)
    asking = layer.W_query(embedded[:, -1]) + queries[x[:, -1, 0] - task.letters]  # (500, d_out)
    k = layer.W_key(embedded)  # (500, num_tokens, d_out)
    k[:, :-1] += keys[x[:, :-1, 0]]
    weights = torch.softmax((k @ asking[..., None])[..., 0] * k.shape[-1] ** -0.5, dim=-1)  # (500, num_tokens)
    context = weights[:, None] @ layer.W_value(embedded)  # (500, 1, d_out)
    return asking, weights, model.output_layer(layer.out_proj(context[:, 0])).argmax(dim=-1)
