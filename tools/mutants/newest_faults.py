"""The faults that mutants.py plants in the language model, in the looker into any layer, and in the playground's runs.

Name, file, what stands there once, what replaces it. Those under EQUIVALENT change nothing that a caller could see;
the reason stands last.
"""

from .beyond_faults import of

MODEL, JOBS = "beyond/real_model.py", "beyond/head_jobs.py"
GGUF, FILES, TOKENS = "beyond/gguf_files.py", "beyond/model_files.py", "beyond/model_tokens.py"
WATCHING, VERDICTS = "watching.py", "verdicts.py"
RUNS, OUTCOMES = "explorers/runs.py", "explorers/outcomes.py"

# fmt: off
BLOCK = [
    ("block: attention without its norm", "attention.project(self.norm_1(x), past)", "attention.project(x, past)"),
    ("block: one norm for both", "attention.project(self.norm_1(x), past)", "attention.project(self.norm_2(x), past)"),
    ("block: x not added to attention", "x = x + attention.out_proj", "x = attention.out_proj"),
    ("block: x not added to the second half", "x = x + self.W_down(", "x = self.W_down("),
    ("block: second half without its norm", "normed = self.norm_2(x)", "normed = x"),
    ("block: the gate on the other matrix", "F.silu(self.W_gate(normed)) * self.W_up(normed)", "self.W_gate(normed) * F.silu(self.W_up(normed))"),
    ("block: GELU for SiLU", "F.silu(", "F.gelu("),
    ("block: new keys before old", "torch.cat((cache.keys, keys), dim=2)", "torch.cat((keys, cache.keys), dim=2)"),
    ("block: new values before old", "torch.cat((cache.values, values), dim=2)", "torch.cat((values, cache.values), dim=2)"),
    ("block: the past not counted", "RollingCache(keys, values, past + x.shape[1])", "RollingCache(keys, values, x.shape[1])"),
    ("block: positions start again", "attention.project(self.norm_1(x), past)", "attention.project(self.norm_1(x), 0)"),
    ("block: off heads say 1", "torch.tensor(off, device=context.device), 0.0)", "torch.tensor(off, device=context.device), 1.0)"),
    ("block: off is never heeded", "if not off:", "if True:"),
    ("block: rotary base ignored", "sizes.num_key_heads, base=sizes.base)", "sizes.num_key_heads)"),
    ("block: eps ignored", "nn.RMSNorm(d, eps=sizes.eps), nn.RMSNorm(d, eps=sizes.eps)", "nn.RMSNorm(d, eps=0.1), nn.RMSNorm(d, eps=0.1)"),
]
WHOLE = [
    ("model: no last norm", "        return self.read_out(self.norm(x))\n\n    def look", "        return self.read_out(x)\n\n    def look"),
    ("model: no last norm in look", "return Look(self.read_out(self.norm(x))", "return Look(self.read_out(x)"),
    ("model: no last norm in step", "return self.read_out(self.norm(x[:, -1]))", "return self.read_out(x[:, -1])"),
    ("model: a step reads the first", "self.norm(x[:, -1])", "self.norm(x[:, 0])"),
    ("model: look ignores off", "x, weights, _ = block(x, heads)", "x, weights, _ = block(x)"),
    ("model: a step ignores off", "x, _, cache = block(x, heads, cache)", "x, _, cache = block(x, (), cache)"),
    ("model: caches not handed on", "longer.append(cache)", "longer.append(None)"),
    ("model: maps of the input", "maps.append(weights)", "maps.append(torch.zeros_like(weights))"),
    ("model: longer than its context", "self.sizes.context_length - past)", "self.sizes.context_length)"),
    ("model: no token is taken", "if codes.shape[1] == 0:", "if codes.shape[1] < 0:"),
    ("off: one layer too many", "if layer >= self.sizes.num_layers", "if layer > self.sizes.num_layers"),
    ("off: one head too many", "or head >= self.sizes.num_heads", "or head > self.sizes.num_heads"),
    ("off: the layer before", "lists[layer].append(head)", "lists[layer - 1].append(head)"),
    ("encode: an empty text", "if not text:", "if False:"),
    ("decode: control tokens dropped", "skip_special_tokens=False)", "skip_special_tokens=True)"),
    ("load: weights ask for gradients", "return model.requires_grad_(False).eval()", "return model.eval()"),
]
WRITING = [
    ("next: after the first token", "model(model.encode(text), off)[0, -1]", "model(model.encode(text), off)[0, 0]"),
    ("next: scores for shares", "[0, -1].softmax(dim=-1)", "[0, -1]"),
    ("next: off ignored", "model(model.encode(text), off)", "model(model.encode(text))"),
    ("choose: times the temperature", "best.values.double() / temperature", "best.values.double() * temperature"),
    ("choose: top_k ignored", "most = len(logits) if top_k is None else", "most = len(logits) if True else"),
    ("choose: 0 takes the last", "return int(best.indices[0])", "return int(best.indices[-1])"),
    ("choose: always the likeliest", "if temperature == 0:", "if temperature >= 0:"),
    ("choose: below 0 is taken", 'if check_finite("temperature", temperature) < 0:', 'if check_finite("temperature", temperature) < -9:'),
    ("choose: generator ignored", "torch.multinomial(shares, 1, generator=generator)", "torch.multinomial(shares, 1)"),
    ("choose: a rank for a code", "int(best.indices[torch.multinomial(shares, 1, generator=generator)])", "int(torch.multinomial(shares, 1, generator=generator))"),
    ("generate: on after the end", "            break\n", "            pass\n"),
    ("generate: writes the end", "        if code == model.sizes.end:\n            break\n        written.append(code)\n", "        written.append(code)\n        if code == model.sizes.end:\n            break\n"),
    ("generate: the text again", "codes = torch.tensor([[code]])", "codes = torch.cat((codes, torch.tensor([[code]])), dim=1)"),
    ("generate: off ignored", "model.step(codes, caches, off)", "model.step(codes, caches)"),
    ("generate: top_k ignored", "choose(logits[0], temperature, top_k, generator)", "choose(logits[0], temperature, None, generator)"),
]
HEADS = [
    ("repeated: bytes and control tokens too", "torch.randint(min(ORDINARY, most // 2), most", "torch.randint(0, most"),
    ("repeated: three times", ".repeat(1, 2)", ".repeat(1, 3)"),
    ("repeated: seed ignored", "torch.Generator().manual_seed(seed)", "torch.Generator().manual_seed(0)"),
    ("weight_at: start ignored", "return given[..., first - distance :]", "return given"),
    ("weight_at: a token early", "given[..., first - distance :]", "given[..., max(first - distance - 1, 0) :]"),
    ("weight_at: of those after", "maps.diagonal(-distance", "maps.diagonal(distance"),
    ("weight_at: beyond the text", "if first >= maps.shape[-1]:", "if first > maps.shape[-1]:"),
    ("first token: with its own", "maps[..., 1:, 0]", "maps[..., 0]"),
    ("best: the smallest", "argsort(descending=True, stable=True)", "argsort(descending=False, stable=True)"),
    ("best: head, then layer", "divmod(place, scores.shape[1])", "divmod(place, scores.shape[1])[::-1]"),
    ("loss: summed", "codes[:, start:].flatten())", 'codes[:, start:].flatten(), reduction="sum")'),
    ("loss: off ignored", "model(codes, off)[:, start - 1 : -1]", "model(codes)[:, start - 1 : -1]"),
    ("loss: told, not foretold", "model(codes, off)[:, start - 1 : -1]", "model(codes, off)[:, start:]"),
    ("loss: start 0 is taken", 'if not 1 <= check_size("start", start)', 'if not 0 <= check_size("start", start, minimum=0)'),
]
DECODED = [
    ("gguf: another family", "if family != ARCHITECTURE:", "if False:"),
    ("gguf: scaled positions", 'if own.get("rope.scaling.type", "none") != "none":', "if False:"),
    ("gguf: half of a head turns", "if own.get(name, head_dim) != head_dim:", "if False:"),
    ("gguf: a base for all files", 'own.get("rope.freq_base", 10_000.0), own', "10_000.0, own"),
    ("gguf: an eps for all files", 'own.get("attention.layer_norm_rms_epsilon", 1e-5)', "1e-6"),
    ("gguf: never ends", 'fields.get("tokenizer.ggml.eos_token_id")', "None"),
    ("gguf: one key head unless said", 'own.get("attention.head_count_kv", num_heads)', 'own.get("attention.head_count_kv", 1)'),
    ("gguf: keys as wide as queries", "keys = sizes.num_key_heads * (d // sizes.num_heads)", "keys = d"),
    ("gguf: gate and up exchanged", 'theirs + "ffn_gate": (ours + "W_gate", (inner, d)),\n            theirs + "ffn_up": (ours + "W_up", (inner, d)),', 'theirs + "ffn_gate": (ours + "W_up", (inner, d)),\n            theirs + "ffn_up": (ours + "W_gate", (inner, d)),'),
    ("gguf: norms exchanged", 'theirs + "attn_norm": (ours + "norm_1", (d,)),', 'theirs + "attn_norm": (ours + "norm_2", (d,)),'),
    ("gguf: queries are keys", 'theirs + "attn_q": (ours + "attention.W_query", (d, d)),', 'theirs + "attn_q": (ours + "attention.out_proj", (d, d)),'),
    ("gguf: tied always", 'return {"read_out.weight": weights["embedding.weight"]} | weights', 'return weights | {"read_out.weight": weights["embedding.weight"]}'),
    ("gguf: read-out asked of all", ' - {"output.weight"}]', "]"),
    ("gguf: unknown tensors passed over", "for name in there.keys() - names.keys()]", "for name in ()]"),
    ("gguf: misshapen tensors", "if decoded.shape != shape:", "if False:"),
    ("gguf: numbers that are not finite", "if not decoded.isfinite().all():", "if False:"),
    ("gguf: sizes below 1", "or count < 1:", "or count < 0:"),
]
KEPT = [
    ("kept: the course's file unchecked", "if ours and checksum != CHECKSUM:", "if False:"),
    ("kept: by name alone", "{path.stem}-{checksum:08x}-{LAYOUT}.pt", "{path.stem}-{LAYOUT}.pt"),
    ("kept: decoded each time", "if not kept.exists():", "if True:"),
    ("kept: read without its checksum", 'if content.pop("checksum") != checksum_of(content):', 'if content.pop("checksum") is None:'),
    ("kept: tokenizer not in the checksum", 'for name in ("sizes", "tokenizer")]', 'for name in ("sizes",)]'),
    ("kept: a part is left behind", "        if part is not None:\n            part.unlink(missing_ok=True)", "        pass"),
    ("kept: abandoned parts stay", "if time.time() - part.stat().st_mtime > ABANDONED:", "if False:"),
    ("kept: another's part goes", "if time.time() - part.stat().st_mtime > ABANDONED:", "if True:"),
    ("kept: the wanted folder ignored", "return Path(own) if own else", "return Path(own) if False else"),
    ("kept: every weight counted twice", "sizes = {weight.data_ptr(): weight.nbytes for", "sizes = {n: 1e6 for n, weight in enumerate([0] * 9)} | {weight.data_ptr(): weight.nbytes for"),
    ("kept: torch's errors pass", "except (OSError, RuntimeError) as error:", "except OSError as error:"),
]
CUT = [
    ("tokens: a space before each text", "add_prefix_space=False", "add_prefix_space=True"),
    ("tokens: digits merged", "if CUTS[cut] else []", "if False else []"),
    ("tokens: digits stand alone always", "if CUTS[cut] else []", "if True else []"),
    ("tokens: control tokens cut up", "if kind in (CONTROL, USER_DEFINED)]", "if kind in ()]"),
    ("tokens: bytes not put together", "tokenizer.decoder = decoders.ByteLevel()", "pass"),
    ("tokens: another kind", 'if kind != "gpt2" or cut not in CUTS:', 'if kind != "gpt2":'),
]
WATCHED = [
    ("watch: features taken for tokens", "if len(shorter) != len(watched.operations):", "if True:"),
    ("watch: fused calls unseen", "if name in AGAIN:", "if False:"),
    ("watch: what does not follow from x", "if not {id(tensor) for tensor in inputs}.isdisjoint(self.from_x) and", "if True or"),
    ("watch: a written table unseen", 'outputs = inputs[:1] if name == "setitem" else', "outputs = [] if name == 'setitem' else"),
    ("watch: weights before dropout are used", "found.last = output.clone()", "pass"),
    ("watch: columns forgotten", "for dim in (-1, -2)]", "for dim in (-1,)]"),
    ("watch: a hidden row hides the map", "(total.isnan() | ((total - 1).abs() < NEAR)).all()", "((total - 1).abs() < NEAR).all()"),
    ("watch: queries and keys exchanged", "(tensor if found.keys == -1 else tensor.mT)", "(tensor.mT if found.keys == -1 else tensor)"),
    ("watch: fused, not causal", "attn_mask, is_causal=is_causal, scale", "attn_mask, scale"),
    ("watch: fused, another scale", "scale=scale, enable_gqa", "enable_gqa"),
    ("watch: heads averaged", '"average_attn_weights": False', '"average_attn_weights": True'),
    ("watch: negative shares", "if (tensor < 0).any():", "if False:"),
]
JUDGED = [
    ("verdict: random unheeded", "if draws(layer, x, generator):", "if False:"),
    ("verdict: draws moves nothing", "return not torch.equal(before, generator.get_state())", "return False"),
    ("verdict: batches that mix", "<= rounding(before, x):", "<= 1e9:"),
    ("verdict: later rows count", "earlier = torch.arange(before.shape[0]) < first[:, None]", "earlier = torch.arange(before.shape[0]) <= first[:, None]"),
    ("verdict: the last leak", "min(found, key=lambda leak: leak[0]", "max(found, key=lambda leak: leak[0]"),
    ("verdict: a diagonal too late unseen", "if not used.triu(2).any():", "if not used.triu(3).any():"),
    ("verdict: the past hidden unseen", "if not used.tril(-1).any():", "if False:"),
    ("verdict: rows before dropout", "if random and near_one(made.sum(dim=-1)):", "if False:"),
    ("verdict: softmax over queries unseen", "if not near_one(made.sum(dim=-1)) and near_one(made.sum(dim=-2)):", "if False:"),
    ("verdict: an empty row unseen", "    if empty:\n", "    if False:\n"),
    ("verdict: fewer tokens, two less", "layer(x[..., :-1, :])", "layer(x[..., :0, :])"),
    ("verdict: the course's to one digit", "<= 1e-5 * max(1.0,", "<= 1e-1 * max(1.0,"),
    ("verdict: no bias in the course's", 'bias = linear.shape, "W_query.bias" in state', "bias = linear.shape, False"),
    ("verdict: one head in the course's", 'heads = x.shape[-2], getattr(layer, "num_heads", num_heads) or 1', "heads = x.shape[-2], 1"),
    ("verdict: NaN is near", "return difference if difference == difference else torch.inf", "return difference if difference == difference else 0.0"),
    ("verdict: unused operations unseen", 'return "; ".join(dead) or "none"', 'return "none"'),
]
RUN = [
    ("run: measured in training mode", "outputs = self.model.eval()(self.x)", "outputs = self.model.train()(self.x)"),
    ("run: held out from the seed's own batches", "manual_seed(HELD_OUT))", "manual_seed(0))"),
    ("run: the stronger question", "held_right = self.task.score(outputs, self.answers).min().item()", "held_right = self.task.score(outputs, self.answers).max().item()"),
    ("run: the stronger question in training", ".mean(dim=0).min().item() if scores", ".mean(dim=0).max().item() if scores"),
    ("run: the last loss for the mean", "loss = sum(losses) / len(losses) if losses", "loss = losses[-1] if losses"),
    ("run: learned stays", "            self.learned = None\n", "            pass\n"),
    ("run: learned moves on", "elif self.learned is None:", "else:"),
    ("run: the start forgotten", "del self.measured[1:-1:2]", "del self.measured[::2]"),
    ("run: never thinned", "if len(self.measured) > MOST_MEASURED:", "if False:"),
    ("run: dropout ignored", "model.attention.dropout.p = dropout", "pass"),
    ("run: characters never leak", "dropout=dropout, leaky=leaky)", "dropout=dropout)"),
    ("run: characters without dropout", "d_out, num_heads, dropout=dropout, leaky", "d_out, num_heads, leaky"),
    ("run: rate ignored", "Training(self.model, self.task, self.learning_rate, self.seed", "Training(self.model, self.task, 1e-2, self.seed"),
    ("run: seed ignored", "self.learning_rate, self.seed, keep=False)", "self.learning_rate, 0, keep=False)"),
    ("run: honest at every look", "self.step // HONEST_EVERY > before // HONEST_EVERY", "True"),
    ("run: honest never", "self.step // HONEST_EVERY > before // HONEST_EVERY", "False"),
    ("run: losses pile up", "del self.training.losses[:], self.training.scores[:]", "pass"),
    ("run: a map in training mode", "return self.model.eval().maps(self.x[:1])[0]", "return self.model.train().maps(self.x[:1])[0]"),
]
SAID = [
    ("said: a loss that is no number", "if not math.isfinite(now.held_loss):", "if False:"),
    ("said: too early", "if run.step < (SURE if sure else PATIENT) or not mended:", "if not mended:"),
    ("said: one head will do", 'return task == "two questions" and num_heads == 1', "return False"),
    ("said: no second head", 'if mended == {"num_heads": 2}:', "if False:"),
    ("said: the farthest value", "min(values, key=lambda value: abs(value - sizes[name]))", "max(values, key=lambda value: abs(value - sizes[name]))"),
    ("said: no leak", "if loss - usual > APART:", "if False:"),
    ("said: always a leak", "if loss - usual > APART:", "if True:"),
    ("said: the first honest loss", "step, loss, usual = run.honest[-1]", "step, loss, usual = run.honest[0]"),
    ("said: losses exchanged", "step, loss, usual = run.honest[-1]", "step, usual, loss = run.honest[-1]"),
]
# fmt: on
FAULTS = [
    *of(MODEL, BLOCK + WHOLE + WRITING),
    *of(JOBS, HEADS),
    *of(GGUF, DECODED),
    *of(FILES, KEPT),
    *of(TOKENS, CUT),
    *of(WATCHING, WATCHED),
    *of(VERDICTS, JUDGED),
    *of(RUNS, RUN),
    *of(OUTCOMES, SAID),
]
EQUIVALENT = []
