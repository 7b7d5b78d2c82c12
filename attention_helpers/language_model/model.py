"""A complete published language model: attention from this course's parts, weights from the model's file."""

from typing import NamedTuple

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from ..checks import check_finite, check_size, check_tensor, check_token_ids
from ..modern.layers import ModernAttention, past_of
from ..modern.positions import rope_frequencies
from .families import FAMILIES
from .model_file import read_model


class ModelOutput(NamedTuple):
    """The model's logits for a text, and every head's attention weights."""

    logits: torch.Tensor  # (b, num_tokens, vocab_size), one per possible next token
    maps: torch.Tensor  # (b, num_layers, num_heads, num_tokens, num_tokens), the attention weights


class Block(nn.Module):
    """One layer: attention, then an MLP, each added to the residual stream.

    x: (b, num_tokens, d_model). Returns that shape, the attention weights, and the cache with x.
    layer: its number, from 0. ablate: by a head's index, what its context is replaced by.
    Source: Touvron et al. 2023, "LLaMA" (arXiv 2302.13971), section 2.2; the gate: Shazeer 2020,
    "GLU Variants Improve Transformer" (arXiv 2002.05202); two more norms, and local layers: Gemma Team 2025,
    "Gemma 3 Technical Report" (arXiv 2503.19786), section 2.
    """

    def __init__(self, config, layer=0):
        super().__init__()
        d, inner, family = config.d_model, config.d_inner, FAMILIES[config.family]
        self.attention = ModernAttention(
            d, d, config.num_heads, config.num_kv_heads, config.window if config.is_local(layer) else None,
            head_dim=config.head_dim, bias=family.bias, qk_norm=family.qk_norm, scale=config.scale,
            frequencies=frequencies_of(config, layer),
        )  # fmt: skip
        norm = lambda: nn.RMSNorm(d, eps=config.eps)  # noqa: E731
        self.norm_1, self.norm_2 = norm(), norm()
        self.after_attention, self.after_mlp = (norm(), norm()) if family.gemma else (nn.Identity(), nn.Identity())
        if family.qk_norm:
            self.attention.query_norm.eps = self.attention.key_norm.eps = config.eps
        self.W_gate, self.W_up = nn.Linear(d, inner, bias=False), nn.Linear(d, inner, bias=False)
        self.W_down = nn.Linear(inner, d, bias=False)
        self.bend = nn.GELU("tanh") if family.gemma else nn.SiLU()

    def forward(self, x, ablate=(), cache=None):
        steps, cache = self.attention.steps_after(self.norm_1(x), cache)
        x = x + self.written(steps.context, ablate)
        x = x + self.mlp(self.norm_2(x))
        return x, steps.weights, cache

    def mlp(self, x):
        return self.after_mlp(self.W_down(self.bend(self.W_gate(x)) * self.W_up(x)))  # d_inner wide in between

    def written(self, context, ablate=()):
        """What attention adds to the residual stream, (b, num_tokens, d_model), with some heads' contexts replaced."""
        return self.after_attention(self.attention.out_proj(self.with_heads_ablated(context, ablate)))

    def with_heads_ablated(self, context, ablate):
        """The context (b, num_tokens, num_heads * head_dim), in which each ablated head's part is replaced."""
        if not ablate:
            return context
        heads = context.unflatten(-1, (self.attention.num_heads, -1)).clone()  # (b, num_tokens, num_heads, head_dim)
        for head, replacement in ablate.items():
            heads[:, :, head] = replacement
        return heads.flatten(2)


def frequencies_of(config, layer):
    """A layer's rotary frequencies (head_dim / 2,): local layers have a base of their own, and aren't scaled."""
    if config.is_local(layer):
        return rope_frequencies(config.head_dim, config.local_base)
    frequencies = rope_frequencies(config.head_dim, config.base) / config.factor
    if config.divisors is None:
        return frequencies
    return frequencies / torch.tensor(config.divisors, dtype=torch.float64, device="cpu")


class LanguageModel(nn.Module):
    """A model of one of the families: for every token of a text, logits for the next token.

    token_ids: whole numbers (b, num_tokens), as encode returns them. Returns logits (b, num_tokens,
    vocab_size). ablate: heads whose context is set to 0, pairs (layer, head), both from 0; or a
    dict from such pairs to the vectors (head_dim,) that replace the context at every position.
    Errors: TypeError if token_ids isn't a tensor of whole numbers; ValueError for an id outside the
    vocabulary, no token or more than context_length, a pair in ablate that isn't a head, or a
    replacement of another shape.
    Source: as for Block.
    """

    def __init__(self, config, tokenizer=None):
        super().__init__()
        self.config, self.tokenizer = config, tokenizer
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.blocks = nn.ModuleList(Block(config, layer) for layer in range(config.num_layers))
        self.norm = nn.RMSNorm(config.d_model, eps=config.eps)
        self.output_layer = nn.Linear(config.d_model, config.vocab_size, bias=False)

    def forward(self, token_ids, ablate=()):
        x = self.embedded(token_ids)
        for block, heads in zip(self.blocks, self.ablated_heads(ablate), strict=True):
            x, *_ = block(x, heads)
        return self.output_layer(self.norm(x))

    def look(self, token_ids, ablate=()):
        """A ModelOutput: the logits and all heads' maps. Errors: as for the class."""
        x, maps = self.embedded(token_ids), []
        for block, heads in zip(self.blocks, self.ablated_heads(ablate), strict=True):
            x, weights, _ = block(x, heads)
            maps.append(weights)
        return ModelOutput(self.output_layer(self.norm(x)), torch.stack(maps, dim=1))

    def step(self, token_ids, caches=None, ablate=()):
        """Prefill or decode: the logits (b, vocab_size) after the last of token_ids, and the caches extended by them.

        caches: the ones the previous step returned, one per layer, or None. Errors: as for the class.
        """
        caches = [None] * len(self.blocks) if caches is None else caches
        x, longer = self.embedded(token_ids, past_of(caches[0])), []
        for block, heads, cache in zip(self.blocks, self.ablated_heads(ablate), caches, strict=True):
            x, _, cache = block(x, heads, cache)
            longer.append(cache)
        return self.output_layer(self.norm(x[:, -1])), longer

    def embedded(self, token_ids, past=0):
        """(b, num_tokens, d_model)"""
        check_token_ids("token_ids", token_ids, self.config.vocab_size, self.config.context_length - past)
        if token_ids.shape[1] == 0:
            raise ValueError(f"token_ids must hold at least one token, got {tuple(token_ids.shape)}")
        scale = self.config.d_model**0.5 if FAMILIES[self.config.family].gemma else 1.0
        return self.embedding(token_ids) * scale

    def ablated_heads(self, ablate):
        """The heads to ablate, per layer: a dict from the head to what replaces its context."""
        layers = [{} for _ in range(self.config.num_layers)]
        vector = (self.config.head_dim,)
        for pair, replacement in (ablate if isinstance(ablate, dict) else dict.fromkeys(ablate, 0.0)).items():
            layer, head = (check_size("each number of ablate", number, minimum=0) for number in pair)
            if layer >= self.config.num_layers or head >= self.config.num_heads:
                raise ValueError(
                    f"ablate must name heads (layer, head) below ({self.config.num_layers}, {self.config.num_heads}), "
                    f"got ({layer}, {head})"
                )
            if isinstance(ablate, dict) and replacement.shape != vector:
                raise ValueError(f"ablate must give each head a vector {vector}, got {tuple(replacement.shape)}")
            layers[layer][head] = replacement
        return layers

    def encode(self, text):
        """The token ids of a text, (1, num_tokens), after the model's beginning token if it has one.

        Errors: TypeError unless it's a string; ValueError if it's empty, or holds a character for whose bytes there are
        no tokens (in the course's model, six control characters such as U+0004).
        """
        if not isinstance(text, str):
            raise TypeError(f"text must be a string, got {type(text).__name__}")
        if not text:
            raise ValueError("text must hold at least one token, got ''")
        token_ids, normalizer = self.tokenizer.encode(text).ids, self.tokenizer.normalizer
        meant = text if normalizer is None else normalizer.normalize_str(text)
        back = self.decode(token_ids)  # the tokenizer drops a byte without a token, and says nothing
        if back not in (meant, f" {meant}"):  # some put a space before the first word
            raise ValueError(f"text must hold only what the model has tokens for, got {text!r}, which becomes {back!r}")
        return torch.tensor([[*self.opening, *token_ids]])

    @property
    def opening(self):
        """The ids that come before each text: one or none."""
        return [] if self.config.beginning is None else [self.config.beginning]

    def decode(self, token_ids):
        """The text of token ids (num_tokens,); an incomplete character becomes �."""
        return self.tokenizer.decode(torch.as_tensor(token_ids).flatten().tolist(), skip_special_tokens=False)

    def words(self, token_ids):
        """Each of the token ids (num_tokens,) as its own text; a word starts with its space."""
        return [self.decode(token_id) for token_id in torch.as_tensor(token_ids).flatten()]


class Undrawn(TorchFunctionMode):
    """While active, new layers draw no weights. (On the meta device, drawing would import sympy, which takes 1 s.)"""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        drawing = function in (nn.init.kaiming_uniform_, nn.init.uniform_, nn.init.normal_)
        return kwargs["tensor"] if drawing else function(*args, **kwargs or {})


def load_model(path=None, folder=None):
    """The course's language model, in eval mode, with weights that need no gradient.

    path: another GGUF file, of any of families.FAMILIES. folder: where the decoded weights are cached, by default
    cache_folder(); the first load takes a few seconds, later ones about one.
    Errors: as in read_model.
    """
    from tokenizers import Tokenizer

    file = read_model(path, folder)
    with torch.device("meta"), Undrawn():  # only sizes: the weights come from the file
        model = LanguageModel(file.config, Tokenizer.from_str(file.tokenizer))
    file.weights.setdefault("output_layer.weight", file.weights["embedding.weight"])
    model.load_state_dict(file.weights, assign=True)
    if file.config.tied:
        model.output_layer.weight = model.embedding.weight  # one matrix, as in most small models
    return model.requires_grad_(False).eval()


def choose(logits, temperature=0.0, top_k=None, generator=None):
    """The id of the next token, a whole number, from logits (vocab_size,).

    temperature: divides the logits before softmax; 0 always takes the most likely token (greedy).
    top_k: draw only from that many of the most likely tokens.
    Errors: ValueError for logits of another rank; TypeError or ValueError for a temperature below
    0, or if top_k isn't a whole number of at least 1.
    Source: top-k: Fan et al. 2018, "Hierarchical Neural Story Generation" (arXiv 1805.04833), section 5.1.
    """
    check_tensor("logits", logits, (1,), "(vocab_size,)")
    if check_finite("temperature", temperature) < 0:
        raise ValueError(f"temperature must be at least 0, got {temperature}")
    most = len(logits) if top_k is None else min(check_size("top_k", top_k), len(logits))
    best = logits.topk(most)
    if temperature == 0:
        return int(best.indices[0])
    behind = best.values.double() - best.values[0]  # so that nothing overflows however small the temperature is
    shares = (behind / temperature).softmax(dim=-1)
    return int(best.indices[torch.multinomial(shares, 1, generator=generator)])


def generate(model, text, num_tokens=20, temperature=0.0, top_k=None, generator=None, ablate=()):
    """What the model writes after a text: up to num_tokens tokens, fewer if it ends the text.

    temperature, top_k, generator: see choose. With a KV cache, each token goes through the layers
    only once. Errors: as in the model and choose.
    """
    token_ids, caches, written = model.encode(text), None, []
    for _ in range(check_size("num_tokens", num_tokens)):
        logits, caches = model.step(token_ids, caches, ablate)
        token_id = choose(logits[0], temperature, top_k, generator)
        if token_id == model.config.end:
            break
        written.append(token_id)
        token_ids = torch.tensor([[token_id]])
    return model.decode(written)
