"""Exercises of notebook 14: the one sum, the merge of two blocks, and an order that evens the work."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import torch

from .base import Exercise, Progress, Seen, exercises_in, normal


def finish(context, columns, all_reduce):
    """Context (num_tokens, width) and columns (d_out, width) of some heads."""
    output = context @ columns.T  # (num_tokens, d_out): a summand
    all_reduce(output)
    return output


def heads_to_share(generator):
    for processes, width in ((2, 1), (3, 3), (2, 2), (1, 4)):
        context, W_out = normal(generator, (4, processes * width), (processes * width, processes * width))
        yield context.split(width, dim=1), W_out.split(width, dim=1)


def on_all_ranks(answer, contexts, columns):
    """What an answer returns on each rank, which is a thread here; a fault is to send more than once."""
    processes = len(contexts)
    barrier, given, calls = Barrier(processes), [None] * processes, [0] * processes

    def rank(n):
        def all_reduce(tensor):
            calls[n] += 1
            given[n] = tensor.clone()
            barrier.wait(10)
            tensor.copy_(sum(given))
            barrier.wait(10)

        try:
            return answer(contexts[n].clone(), columns[n].clone(), all_reduce)
        except Exception:
            barrier.abort()  # or the others would wait
            raise

    with ThreadPoolExecutor(processes) as pool:
        outputs = list(pool.map(rank, range(processes)))
    most = max(calls)
    return Seen(outputs, f"Your code calls `all_reduce` {most} times. Call it once.", "sum") if most > 1 else outputs


placing = Exercise(
    title="Place the sum",
    prompt="From its own heads' context vectors and their columns of `W_out`, each process should compute the complete "
    "output. Like torch's, `all_reduce(tensor)` puts the sum of all processes' tensors into `tensor`, and returns "
    "nothing. Sending takes time, so call it once.",
    solution=finish,
    cases=heads_to_share,
    call=on_all_ranks,
    mistakes={
        ("    all_reduce(output)\n", ""): "Your processes return different outputs, each only what its own heads "
        "contribute. Which tensor should they add up, and is it the one that you return?",
        ("    all_reduce(output)\n", "    all_reduce(output)\n    all_reduce(output)\n"): "",
        ("return output", "return output / 2"): "You halve the sum. Each process has other heads, so is anything there "
        "twice?",
        ("context @ columns.T", "context", "return output", "return output @ columns.T"): "You add up the context "
        "vectors of different heads, which belong side by side. After which step do all processes have summands of the "
        "same numbers?",
        ("context @ columns.T", "context.clone()"): "You add up the context vectors of different heads, but their "
        "columns of `W_out` aren't used at all. What does each process have to multiply before the sum?",
    },
    heading="14#By-heads:-what-should-be-added?",
    hints={
        "product": "On which tensors do the processes differ, and which of these have the shape of the output?",
        "sum": "`context @ columns.T` is one process's summand of the output. Sum it, then return it.",
    },
    why="An output is a sum over all entries of the context vector, and each process has some of them.",
    moral="One sum per layer is all that the processes have to say to each other.",
)


def merge(context, log_total, new_context, new_log_total):
    """(context, log_total) for both blocks' keys together."""
    both = torch.logaddexp(log_total, new_log_total)
    old = torch.exp(log_total - both) * context
    new = torch.exp(new_log_total - both) * new_context
    return old + new, both


def two_blocks(generator):
    """From rows that are alike to rows whose exponentials overflow."""
    for num_keys, scale in ((3, 1.0), (1, 5.0), (4, 300.0)):
        scores, values = normal(generator, (2, 6, 6), (2, 6, 4))
        scores, blocks = scale * scores, (slice(0, num_keys), slice(num_keys, 6))
        parts = [(scores[..., part].softmax(dim=-1) @ values[:, part], scores[..., part]) for part in blocks]
        yield tuple(each for context, own in parts for each in (context, own.logsumexp(dim=-1, keepdim=True)))


merging_blocks = Exercise(
    title="Merge two blocks",
    prompt="Each block has context vectors, (…, head_dim), and `log_total`, (…, 1). Return both for the keys of two "
    "blocks together. Exponentials can overflow, but `torch.logaddexp(a, b)` is the logarithm of e^a + e^b, without "
    "computing these.",
    solution=merge,
    parts="context log_total",
    cases=two_blocks,
    mistakes={
        ("old + new", "(context + new_context) / 2"): "You average the two, as if both blocks mattered alike. But a "
        "block with larger exponentials gets more of a query's weight. Which share of the complete sum does each have?",
        ("old + new", "context + new_context"): "You add the two, but both are complete averages already, with weights "
        "that sum to 1. By which share should you multiply each?",
        ("new, both", "new, both - torch.maximum(log_total, new_log_total)"): "You subtract the maximum before the "
        "exponentials, and the logarithm still lacks it. How do you put it back?",
        ("torch.logaddexp(log_total, new_log_total)", "log_total + new_log_total"): "You add two logarithms, which "
        "multiplies the sums. What's the logarithm of the sum of both?",
        ("log_total - both", "log_total - torch.maximum(log_total, new_log_total)"): "Your `log_total` is right, but "
        "your shares don't sum to 1. By what should each sum of exponentials be divided?",
        ("* context", "* new", "* new_context", "* context", "* new\n", "* new_context\n"): "You give each block the "
        "other one's share. Whose exponentials does `log_total` count?",
        ("new, both", "new, torch.maximum(log_total, new_log_total)"): "The context is right, but your `log_total` is "
        "only the larger one. What does the next merge need?",
    },
    heading="14#By-tokens:-what-has-to-travel?",
    hints={
        "log_total": "`torch.logaddexp(log_total, new_log_total)` is the logarithm of both sums together.",
        "context": "A block's share of a query's weight is its sum of exponentials, divided by the sum of both: "
        "`torch.exp(log_total - both)`.",
    },
    why="Each block is divided by its own sum of exponentials; times its share, it's divided by the sum of both.",
    moral="It doesn't matter in which order the blocks arrive.",
)


# Source: Llama team 2024, "The Llama 3 Herd of Models" (arXiv 2407.21783), section 3.3.2.
def zigzag(rank, processes):
    """The numbers of a process's two chunks, as a tuple."""
    return rank, 2 * processes - 1 - rank


zigzagging = Exercise(
    title="Even out the work",
    prompt="Cut the tokens into twice as many chunks as there are processes, numbered from 0. Each rank holds the "
    "chunk with its own number and a second one. Which, so that under a causal mask all compute equally many blocks? "
    "Return both numbers, the smaller one first.",
    solution=zigzag,
    cases=lambda _: [(rank, processes) for processes in (2, 3, 4) for rank in range(processes)],
    mistakes={
        ("rank, 2 * processes - 1 - rank", "2 * rank, 2 * rank + 1"): "Those are the same tokens as with one chunk per "
        "rank, so the last rank still computes most. How can a rank with an early chunk, which sees few keys, make up "
        "for that?",
        ("2 * processes - 1 - rank", "processes + rank"): "Better: everybody has an early and a late chunk. But rank 0 "
        "has the earlier one of both kinds. Which late chunk should it have?",
        ("2 * processes - 1 - rank", "2 * processes - rank"): "Rank 0 gets a chunk that doesn't exist. What's the last "
        "one's number?",
        ("2 * processes - 1 - rank", "processes - 1 - rank"): "Your second chunk is in the first half. How many chunks "
        "are there?",
        ("rank, 2 * processes - 1 - rank", "2 * processes - 1 - rank, rank"): "These are the right chunks, with the "
        "larger number first. Which one should come first?",
    },
    heading="14#By-tokens:-what-has-to-travel?",
    hints={
        "sum": "Chunk n meets the keys of n + 1 chunks. So which pairs of chunks have the same sum?",
        "result": "Rank 0 holds the first and the last chunk, and rank 1 the second and the last but one.",
    },
    why="Chunk n needs n + 1 blocks, so the two chunks of a rank need rank + 1 and 2P − rank, which is 2P + 1 for all.",
    moral="Llama 3 was trained with this order (Llama team 2024, section 3.3.2).",
)


EXERCISES = exercises_in(globals())
progress = Progress(EXERCISES)
