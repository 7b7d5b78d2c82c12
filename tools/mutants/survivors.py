"""Machine-made mutants of the exercises' solutions that a check calls right, by exercise, each with its reason.

Their names are those that exercise_mutants.py prints.
"""

SAME_TWO = "transpose swaps two dimensions, in whichever order they're named"
NO_COPY = "splitting the last dimension is a view in any memory order, so reshape never copies"
WIPED = "exp(-inf) is 0, so the first block wipes out whatever the sums start with"
LAST_OF_TWO = "the last of two dimensions"
THIRD_OF_FOUR = "the third of four dimensions"
SHIFT = "the same number is added to every score, and softmax doesn't see it"
DIAGONAL = "the diagonal is shown at the end in any case"
NO_ORDER = "the result doesn't depend on the order of the two"

# No input that the prompt allows tells them from the solution.
EQUIVALENT = {
    "previous_token": {
        "-2 → 2 in return maps.diagonal(-1, dim1=-2, dim2=-1).mean(dim=-1)": THIRD_OF_FOUR,
    },
    "induction": {
        "-2 → 2 in came_next = maps.diagonal(1 - period, dim1=-2, dim2=-1)": THIRD_OF_FOUR,
    },
    "shared_keys": {
        "shared.transpose(1, 2) → shared.transpose(2, 1) in scores = queries @ shared.transpose(1, 2) / head_dim ** 0.5": SAME_TWO,
    },
    "weights_by_loops": {
        "0.0 → 1.0 in score = 0.0": SHIFT,
        "0.0 → -1.0 in score = 0.0": SHIFT,
        "zip(query, row, strict=True) → zip(query, row) in for a, b in zip(query, row, strict=True):": "the two are equally long",
        "zip(query, row, strict=True) → zip(row, query, strict=True) in for a, b in zip(query, row, strict=True):": NO_ORDER,
        "True → False in for a, b in zip(query, row, strict=True):": "the two are equally long",
    },
    "read_the_digit": {
        "0 → -1 in weights = torch.softmax(scores, dim=0)": "the scores of one token have one dimension",
    },
    "softmax_that_survives": {
        "torch.zeros_like → torch.ones_like in largest = torch.where(largest.isinf(), torch.zeros_like(l...": "what is subtracted from a row of -inf leaves it -inf",
    },
    "contexts_at_once": {
        "-1 → 1 in return torch.softmax(inputs @ inputs.T, dim=-1) @ inputs": LAST_OF_TWO,
    },
    "scores_that_are_scaled": {
        "keys.transpose(-2, -1) → keys.transpose(-1, -2) in return queries @ keys.transpose(-2, -1) / keys.shape[-1] ...": SAME_TWO,
    },
    "step_by_hand": {
        "-1 → 1 in weights = torch.softmax(scores / W_key.shape[-1] ** 0.5, ...": LAST_OF_TWO,
        "-1 → 1 in weights = torch.softmax(scores / W_key.shape[-1] ** 0.5, ... (2)": LAST_OF_TWO,
        "weights - target → target - weights in loss = (weights - target).square().sum()": "the square is the same",
    },
    "mend_the_leak": {
        "keys.transpose(1, 2) → keys.transpose(2, 1) in scores = queries @ keys.transpose(1, 2)": SAME_TWO,
        "keys → values in scaled = scores / keys.shape[-1] ** 0.5": "both are d_out wide",
    },
    "window_mask": {
        "ones.triu(diagonal=1) | ones.tril(diagonal=-window) → ones.tril(diagonal=-window) | ones.triu(diagonal=1) in return ones.triu(diagonal=1) | ones.tril(diagonal=-window)": NO_ORDER,
    },
    "find_leaks": {
        "influence(layer, x).perturbation.triu(diagonal=1).max().i... → influence(layer, x).perturbation.triu(diagonal=1).max().i... in return influence(layer, x).perturbation.triu(diagonal=1)....": "the layers give float32, and no float32 is exactly 1e-5",
    },
    "two_lookups": {
        "10 → 11 in head.W_key.weight.copy_(10 * letter)": "any large factor makes the softmax sharp",
        "10 → 9 in head.W_key.weight.copy_(10 * letter)": "any large factor makes the softmax sharp",
    },
    "splitting": {
        "x.view → x.reshape in by_token = x.view(b, num_tokens, num_heads, d_out // num_...": NO_COPY,
        "by_token.transpose(1, 2) → by_token.transpose(2, 1) in return by_token.transpose(1, 2)": SAME_TWO,
    },
    "merging": {
        "context.transpose(1, 2) → context.transpose(2, 1) in return context.transpose(1, 2).reshape(b, num_tokens, num...": SAME_TWO,
    },
    "two_in_one": {
        "W_query → W_key in num_tokens, d_out = (len(x), W_query.shape[1])": "both matrices are d_out wide",
        "(x @ W_query).view(num_tokens, num_heads, d_out // num_he... → (x @ W_query).view(num_tokens, num_heads, d_out // num_he... in queries = (x @ W_query).view(num_tokens, num_heads, d_out... (3)": SAME_TWO,
        "(x @ W_query).view → (x @ W_query).reshape in queries = (x @ W_query).view(num_tokens, num_heads, d_out...": NO_COPY,
        "(x @ W_key).view(num_tokens, num_heads, d_out // num_head... → (x @ W_key).view(num_tokens, num_heads, d_out // num_head... in keys = (x @ W_key).view(num_tokens, num_heads, d_out // n... (3)": SAME_TWO,
        "(x @ W_key).view → (x @ W_key).reshape in keys = (x @ W_key).view(num_tokens, num_heads, d_out // n...": NO_COPY,
        "keys.transpose(1, 2) → keys.transpose(2, 1) in scores = queries @ keys.transpose(1, 2)": SAME_TWO,
    },
    "repair": {
        "w.view(*w.shape[:2], self.num_heads, -1).transpose(1, 2) → w.view(*w.shape[:2], self.num_heads, -1).transpose(2, 1) in q, k, v = (w.view(*w.shape[:2], self.num_heads, -1).trans...": SAME_TWO,
        "w.view → w.reshape in q, k, v = (w.view(*w.shape[:2], self.num_heads, -1).trans...": NO_COPY,
        "k.transpose(2, 3) → k.transpose(3, 2) in scores = q @ k.transpose(2, 3) / k.shape[-1] ** 0.5": SAME_TWO,
        "(weights @ v).transpose(1, 2) → (weights @ v).transpose(2, 1) in return (weights @ v).transpose(1, 2).flatten(2)": SAME_TWO,
    },
    "from_an_empty_cell": {
        "x.view → x.reshape in x = x.view(b, num_tokens, self.num_heads, d_out // self.n...": NO_COPY,
        "x.transpose(1, 2) → x.transpose(2, 1) in return x.transpose(1, 2)": SAME_TWO,
        "keys.transpose(2, 3) → keys.transpose(3, 2) in scores = queries @ keys.transpose(2, 3) / keys.shape[-1] ...": SAME_TWO,
        "keys → values in scores = queries @ keys.transpose(2, 3) / keys.shape[-1] ... (2)": "keys and values are equally wide",
        "context.transpose(1, 2) → context.transpose(2, 1) in return self.out_proj(context.transpose(1, 2).reshape(b, n...": SAME_TWO,
    },
    "control_run": {
        "torch.rand(len(x), task.pairs, generator=generator).argso... → torch.rand(len(x), task.pairs, generator=generator).argso... in order = torch.rand(len(x), task.pairs, generator=generato...": "argsort without dim sorts along the last of two dimensions",
    },
    "too_few_heads": {
        "output_layer(contexts.flatten(1)).view → output_layer(contexts.flatten(1)).reshape in logits = output_layer(contexts.flatten(1)).view(len(digit...": "a layer's output is contiguous, so reshape never copies",
    },
    "how_much_too_low": {
        "(honest / x.shape[1] - usual).item() → honest / x.shape[1] - usual in return (honest / x.shape[1] - usual).item()": "a tensor of one number will do as well: the prompt does not say which",
    },
    "three_in_one": {
        "W_query → W_key in d_out, d_in = W_query.weight.shape": "the three have the same sizes",
        "W_query → W_key in fused = nn.Linear(d_in, 3 * d_out, bias=W_query.bias is n...": "all three have biases, or none has",
    },
    "block_by_block": {
        "0 → 1 in largest, total, context = (-torch.inf, 0, 0)": WIPED,
        "0 → -1 in largest, total, context = (-torch.inf, 0, 0)": WIPED,
        "0 → 1 in largest, total, context = (-torch.inf, 0, 0) (2)": WIPED,
        "0 → -1 in largest, total, context = (-torch.inf, 0, 0) (2)": WIPED,
        "max(largest, scores.max()) → max(scores.max(), largest) in raised = max(largest, scores.max())": NO_ORDER,
    },
    "mended_window": {
        "keys → values in positions = torch.arange(len(keys))": "there are as many values as keys",
        "keys → values in scores = queries @ keys.T / keys.shape[1] ** 0.5 (2)": "values are as wide as keys",
        "(distances < 0) | (distances >= window) → (distances >= window) | (distances < 0) in scores = scores.masked_fill((distances < 0) | (distances ...": NO_ORDER,
        "-1 → 1 in context = torch.softmax(scores, dim=-1) @ values": LAST_OF_TWO,
        "max(0, len(keys) - (window - 1)) → max(len(keys) - (window - 1), 0) in start = max(0, len(keys) - (window - 1))": NO_ORDER,
        "keys → values in start = max(0, len(keys) - (window - 1))": "there are as many values as keys",
    },
    "distance_bias": {
        "queries → keys in num_heads, num_tokens, head_dim = queries.shape": "the two have one shape",
        "keys.transpose(1, 2) → keys.transpose(2, 1) in scores = queries @ keys.transpose(1, 2) / head_dim ** 0.5": SAME_TWO,
    },
    "left_padding": {
        "0 → 1 in batch = torch.zeros(len(texts), longest, texts[0].shape[1])": "all texts are equally wide",
        "0 → -1 in batch = torch.zeros(len(texts), longest, texts[0].shape[1])": "all texts are equally wide",
        "torch.ones(longest, longest, dtype=torch.bool).triu(1) → torch.ones(longest, longest, dtype=torch.bool).triu() in hide = torch.ones(longest, longest, dtype=torch.bool).tri...": DIAGONAL,
        "1 → 0 in hide = torch.ones(longest, longest, dtype=torch.bool).tri... (3)": DIAGONAL,
        "hide & ~torch.eye(longest, dtype=torch.bool) → ~torch.eye(longest, dtype=torch.bool) & hide in return (batch, hide & ~torch.eye(longest, dtype=torch.bool))": NO_ORDER,
    },
}

# They differ from the solution, and the check lets them pass on purpose.
LET_THROUGH = {
    "find_leaks": {
        "influence(layer, x).perturbation.triu(diagonal=1).max().i... → influence(layer, x).perturbation.triu(diagonal=1).max() in return influence(layer, x).perturbation.triu(diagonal=1)....": "a tensor with one truth value is taken for it, on purpose",
    },
}
