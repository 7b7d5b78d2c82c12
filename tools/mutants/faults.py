"""The faults that mutants.py plants in the small package: name, file, what stands there once, what takes its place."""

SPLIT_CONTEXT = "context = context_vectors(self.dropout(weights), values)  # (b, num_heads, num_tokens, head_dim)"
SPLIT_WEIGHTS = "weights = attention_weights(scores, mask, scale=self.head_dim**-0.5)"
SPLIT_MASK = "mask = self.mask[:num_tokens, :num_tokens]  # (num_tokens, num_tokens)\n        " + SPLIT_WEIGHTS
BUFFER = 'self.register_buffer("mask", causal_mask(context_length), persistent=False)'
HOOKS = (
    BUFFER
    + """
        self.register_load_state_dict_pre_hook(forget_mask)

    def split_heads"""
)  # the second of two such buffers
V1_QUERY, V1_KEY = (f"self.W_{name} = nn.Parameter(torch.rand(d_in, d_out))" for name in ("query", "key"))
BOTH_STEPS = SPLIT_WEIGHTS + "\n        " + SPLIT_CONTEXT.partition("  #")[0]
FORWARD = "return self.out_proj(self.steps(x).context)"
HEADS = "[head(x) for head in self.heads]"
FAULTS = [
    ("scale missing", "core.py", "scaled = scores * scale", "scaled = scores * 1.0"),
    ("scale by d_out, not head_dim", "layers.py", "scale=self.head_dim**-0.5", "scale=self.d_out**-0.5"),
    ("scale by 1 / head_dim", "layers.py", "scale=self.head_dim**-0.5", "scale=self.head_dim**-1.0"),
    ("softmax over the queries", "core.py", "torch.softmax(scaled, dim=-1)", "torch.softmax(scaled, dim=-2)"),
    ("mask hides the present too", "core.py", "hide.triu(diagonal=1)", "hide.triu(diagonal=0)"),
    ("mask shows one token of the future", "core.py", "hide.triu(diagonal=1)", "hide.triu(diagonal=2)"),
    ("mask hides the past", "core.py", "hide.triu(diagonal=1)", "hide.tril(diagonal=-1)"),
    ("masked copy thrown away", "core.py", "scaled.masked_fill_(mask", "scaled.masked_fill(mask"),
    ("mask by 0, not -inf", "core.py", "scaled.masked_fill_(mask, -torch.inf)", "scaled.masked_fill_(mask, 0.0)"),
    ("mask by -10, not -inf", "core.py", "scaled.masked_fill_(mask, -torch.inf)", "scaled.masked_fill_(mask, -10.0)"),
    ("the caller's scores masked", "core.py", "scaled = scores * scale", "scaled = scores.mul_(scale)"),
    (
        "mask cut at its other end",
        "layers.py",
        SPLIT_MASK,
        SPLIT_MASK.replace(", :num", ", -num", 1).replace("-num_tokens]", "-num_tokens:]"),
    ),
    (
        "scores not transposed",
        "core.py",
        "return queries @ keys.transpose(-2, -1)",
        "return keys @ queries.transpose(-2, -1)",
    ),
    ("heads in another order", "layers.py", "return x.transpose(1, 2)", "return x.transpose(1, 2).flip(1)"),
    (
        "heads interleaved",
        "layers.py",
        "x = x.view(b, num_tokens, self.num_heads, self.head_dim)",
        "x = x.view(b, num_tokens, self.head_dim, self.num_heads).transpose(2, 3)",
    ),
    (
        "heads by view without transpose",
        "layers.py",
        "return x.transpose(1, 2)",
        "return x.reshape(b, self.num_heads, num_tokens, self.head_dim)",
    ),
    ("transpose back forgotten", "layers.py", "context = context.transpose(1, 2)", "context = context"),
    ("wrapper's heads reversed", "layers.py", HEADS, "[head(x) for head in reversed(self.heads)]"),
    ("wrapper uses one head for all", "layers.py", HEADS, "[self.heads[0](x) for _ in self.heads]"),
    ("out_proj forgotten", "layers.py", FORWARD, "return self.steps(x).context"),
    ("out_proj without bias", "layers.py", "nn.Linear(d_out, d_out)", "nn.Linear(d_out, d_out, bias=False)"),
    ("keys and values swapped", "layers.py", SPLIT_CONTEXT, "context = context_vectors(self.dropout(weights), keys)"),
    (
        "dropout before softmax",
        "layers.py",
        BOTH_STEPS,
        BOTH_STEPS.replace("self.dropout(weights)", "weights").replace("(scores", "(self.dropout(scores)"),
    ),
    ("dropout forgotten in the split class", "layers.py", SPLIT_CONTEXT, "context = context_vectors(weights, values)"),
    ("dropout scales by 1 / p", "dropout.py", "keep.div_(1 - self.p)", "keep.div_(self.p)"),
    ("dropout does not scale", "dropout.py", "keep.div_(1 - self.p)", "keep"),
    ("dropout keeps with probability p", "dropout.py", "draws < 1 - self.p", "draws < self.p"),
    ("dropout in eval", "dropout.py", "if not self.training or self.p == 0:", "if self.p == 0:"),
    ("dropout draws in float32", "dropout.py", "dtype=torch.float64", "dtype=torch.float32"),
    ("dropout draws at p = 0", "dropout.py", "if not self.training or self.p == 0:", "if not self.training:"),
    ("dropout ignores its generator", "dropout.py", "generator=self.generator)", "generator=None)"),
    ("v1 drawn from a normal", "layers.py", V1_KEY, V1_KEY.replace("rand", "randn")),
    ("v1's W drawn in another order", "layers.py", f"{V1_QUERY}\n        {V1_KEY}", f"{V1_KEY}\n        {V1_QUERY}"),
    (
        "out_proj drawn first",
        "layers.py",
        "self.head_dim = d_out // num_heads\n",
        "self.head_dim = d_out // num_heads\n        nn.Linear(d_out, d_out)\n",
    ),
    (
        "wrapper forgets qkv_bias",
        "layers.py",
        "[CausalAttention(d_in, d_out, context_length, dropout, qkv_bias)",
        "[CausalAttention(d_in, d_out, context_length, dropout)",
    ),
    ("mask saved", "layers.py", HOOKS, HOOKS.replace("persistent=False", "persistent=True")),
    ("mask is a plain attribute", "layers.py", HOOKS, HOOKS.replace(BUFFER, "self.mask = causal_mask(context_length)")),
    ("a float mask no longer loads", "layers.py", 'state_dict.pop(prefix + "mask", None)', "pass"),
    (
        "forward keeps its steps",
        "layers.py",
        FORWARD,
        "self.last = self.steps(x)\n        return self.out_proj(self.last.context)",
    ),
    (
        "steps hand out dropped weights",
        "layers.py",
        SPLIT_CONTEXT,
        "weights = self.dropout(weights)\n        context = context_vectors(weights, values)",
    ),
    ("influence in train mode", "probes.py", "module.training = False", "module.training = module.training"),
    ("influence transposed", "probes.py", "torch.stack(columns, dim=1)", "torch.stack(columns, dim=0)"),
    ("max_difference blind to NaN", "probes.py", "b, 0.0).max()", "b, 0.0).nan_to_num(0.0).max()"),
]
