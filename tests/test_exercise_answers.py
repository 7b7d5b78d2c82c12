"""Answers that a check must not get wrong, because the next cells would lie, or someone who is right would doubt it."""

import pytest
import torch
from torch.nn import functional as F
from torch.nn.attention.bias import causal_lower_right

from attention_course.exercises import MODULES, practice
from attention_helpers.layers import MultiHeadAttention

EXERCISES = {exercise.name: exercise for number in MODULES for exercise in practice(number).EXERCISES}


def keeps_all_blocks(blocks):
    scores, values = zip(*((scores.clone(), values.clone()) for scores, values in blocks), strict=True)
    largest = max(each.max() for each in scores)
    exponentials = [torch.exp(each - largest) for each in scores]
    return sum(e @ v for e, v in zip(exponentials, values, strict=True)) / sum(e.sum() for e in exponentials)


def makes_all_keys(queries, latents, W_key, W_value):
    keys = torch.einsum("hkc,nc->hnk", W_key, latents)
    weights = torch.softmax((keys @ queries[:, :, None])[..., 0] / queries.shape[1] ** 0.5, dim=1)
    values = torch.einsum("hvc,nc->hnv", W_value, latents)
    return torch.einsum("hk,hkc->hc", queries, W_key), (weights[:, None] @ values)[:, 0]


def sums_row_by_row(context, columns, all_reduce):
    output = context @ columns.T
    for row in output:
        all_reduce(row)
    return output


def borrows_the_forward(v1, v2):
    v2.forward = v1.forward


def seeds_itself(weights, p):
    torch.manual_seed(0)
    return torch.rand(weights.shape) < 1 - p


def averages_the_changes(f, x):
    changes = []
    for token in range(1, len(x)):
        other = x.clone()
        other[token] += torch.randn(x.shape[1])
        changes.append((f(other) - f(x))[:token].abs().mean() > 1e-5)
    return any(changes)


@pytest.mark.parametrize(
    ("name", "answer", "said"),
    [
        ("block_by_block", keeps_all_blocks, "keeps more numbers after each block"),
        ("absorbed_matrices", makes_all_keys, "makes a key for each latent and head, in line"),
        ("placing", sums_row_by_row, "calls `all_reduce` 4 times"),
        ("copying_matrices", borrows_the_forward, "entries of `W_query` differ"),
        ("a_random_mask", seeds_itself, "sets torch's seed to 0"),
        ("find_leaks", averages_the_changes, "an earlier row of `f(x)` moves by 3e-05"),
        ("find_leaks", lambda f, x: len(x) > 3, "never calls `f`"),
        ("cut_the_future", lambda model, x: bool((model(x) - model(x)).any()), "your code never cuts there"),
    ],
)
def test_what_is_refused(name, answer, said):
    reply = EXERCISES[name].check(answer)
    assert reply.right is False
    assert said in reply.text


def merges_blocks(blocks):
    total = None
    for scores, values in blocks:
        own, mean = scores.logsumexp(dim=0), torch.softmax(scores, dim=0) @ values
        both = own if total is None else torch.logaddexp(total, own)
        context = mean if total is None else context * torch.exp(total - both) + mean * torch.exp(own - both)  # noqa: F821
        total = both
    return context


def measures_the_slope(W, loss_of, rate):
    slope = torch.zeros_like(W)
    for place in range(W.numel()):
        step = torch.zeros_like(W).flatten()
        step[place] = 1e-3
        step = step.view_as(W)
        slope.view(-1)[place] = (loss_of(W + step) - loss_of(W - step)) / 2e-3
    return W - rate * slope


def lists_the_digits(inputs):
    context = torch.softmax(inputs @ inputs[-1], dim=0) @ inputs
    return [context[3], context[4], context[5]]


def looks_at_distances(num_tokens, window):
    distances = torch.arange(num_tokens)[:, None] - torch.arange(num_tokens)
    return (distances < 0) | (distances >= window)


def asks_autograd(queries, keys, start, log_total, grad_context):
    scores = queries @ keys.T / keys.shape[1] ** 0.5
    weights = torch.exp(scores - log_total).tril(-start)
    values = torch.zeros(len(keys), grad_context.shape[1], requires_grad=True)
    return torch.autograd.grad(weights @ values, values, grad_context)[0]


def goes_token_by_token(queries, keys, values, cached_keys, cached_values, window):
    context = []
    for query, key, value in zip(queries, keys, values, strict=True):
        cached_keys = torch.cat((cached_keys, key[None]))[-window:]
        cached_values = torch.cat((cached_values, value[None]))[-window:]
        context.append(torch.softmax(cached_keys @ query / len(query) ** 0.5, dim=0) @ cached_values)
    drop = max(0, len(cached_keys) - window + 1)
    return torch.stack(context), cached_keys[drop:], cached_values[drop:]


def sets_slices(context, heads, num_heads):
    context, width = context.clone(), context.shape[-1] // num_heads
    for head in heads:
        context[..., head * width : (head + 1) * width] = 0.0
    return context


def without_dropout(d_in, d_out, context_length, num_heads, qkv_bias=False):
    return MultiHeadAttention(d_in, d_out, context_length, 0.0, num_heads, qkv_bias)


def windows(token_ids, window):
    return tuple(part.unfold(0, window, window) for part in (token_ids[:-1], token_ids[1:]))


def one_draw(d_in, d_out):
    torch.manual_seed(123)
    return tuple(torch.rand(3, d_in, d_out))


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("window_mask", looks_at_distances),
        ("from_an_empty_cell", without_dropout),
        ("shifted_targets", windows),
        ("block_again", asks_autograd),
        ("mended_window", goes_token_by_token),
        ("ablating", sets_slices),
        ("zigzagging", lambda rank, processes: (rank, range(2 * processes)[-1 - rank])),
        ("drawing_in_order", one_draw),
        ("block_by_block", merges_blocks),
        ("step_by_hand", measures_the_slope),
        ("read_the_digit", lists_the_digits),
        ("seeing_with_a_cache", causal_lower_right),
        ("turning_the_mask", lambda q, k, v, future: F.scaled_dot_product_attention(q, k, v, is_causal=True)),
        ("a_random_mask", lambda weights, p: torch.rand_like(weights) < 1 - p),
    ],
)
def test_what_is_right(name, answer):
    reply = EXERCISES[name].check(answer)
    assert reply.right, reply.text
