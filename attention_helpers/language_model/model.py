"""A complete published language model: rotary positions from this course, weights from the model's file."""

from typing import NamedTuple

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from ..modern.positions import rope_frequencies, rotate
from .families import FAMILIES
from .model_file import MODEL_PACKAGE, read_model


class ModelOutput(NamedTuple):
    """The model's logits for a text, and every head's attention weights."""

    logits: torch.Tensor  # (b, num_tokens, vocab_size), one per possible next token
    maps: torch.Tensor  # (b, num_layers, num_heads, num_tokens, num_tokens), the attention weights


class KVCache(NamedTuple):
    """What a layer keeps of earlier tokens: all of them, or the last ones that a window's next query can see."""

    keys: torch.Tensor  # (b, num_kv_heads, kept, head_dim), already rotated
    values: torch.Tensor
    past: int  # how many tokens came so far


class Attention(nn.Module):
    """A layer's causal attention, with shared KV heads, rotary positions and what its family adds.

    Returns the heads' contexts side by side, (b, num_new, num_heads * head_dim), their weights, and the new cache. The
    Block applies out_proj.
    """

    def __init__(self, config, layer):
        super().__init__()
        d, family, self.head_dim = config.d_model, FAMILIES[config.family], config.head_dim
        width, kv_width = config.num_heads * self.head_dim, config.num_kv_heads * self.head_dim
        self.scale = config.scale
        self.window = config.window if config.is_local(layer) else None
        self.frequencies = frequencies_of(config, layer)
        self.W_query = nn.Linear(d, width, bias=family.bias)
        self.W_key = nn.Linear(d, kv_width, bias=family.bias)
        self.W_value = nn.Linear(d, kv_width, bias=family.bias)
        self.out_proj = nn.Linear(width, d, bias=False)
        self.query_norm = nn.RMSNorm(self.head_dim, eps=config.eps) if family.qk_norm else nn.Identity()
        self.key_norm = nn.RMSNorm(self.head_dim, eps=config.eps) if family.qk_norm else nn.Identity()

    def split_heads(self, x):
        return x.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)  # (b, heads, num_new, head_dim)

    def forward(self, x, cache=None):
        past = 0 if cache is None else cache.past
        positions = torch.arange(past, past + x.shape[1], device=x.device)
        queries = rotate(self.query_norm(self.split_heads(self.W_query(x))), positions, self.frequencies)
        keys = rotate(self.key_norm(self.split_heads(self.W_key(x))), positions, self.frequencies)
        values = self.split_heads(self.W_value(x))
        if cache is not None:
            keys = torch.cat((cache.keys, keys), dim=2)
            values = torch.cat((cache.values, values), dim=2)
        grouped = queries.unflatten(1, (keys.shape[1], -1))  # (b, num_kv_heads, group, num_new, head_dim)
        scores = self.scale * (grouped @ keys[:, :, None].mT)
        end = past + x.shape[1]
        distances = positions[:, None] - torch.arange(end - keys.shape[2], end, device=x.device)
        hidden = (distances < 0) | (distances >= (self.window or end))
        weights = torch.softmax(scores.masked_fill(hidden, -torch.inf), dim=-1)
        context = (weights @ values[:, :, None]).flatten(1, 2).transpose(1, 2).flatten(2)
        start = 0 if self.window is None else max(0, keys.shape[2] - (self.window - 1))
        return context, weights.flatten(1, 2), KVCache(keys[:, :, start:], values[:, :, start:], end)


class LanguageModelBlock(nn.Module):
    """One layer: attention, then an MLP, each added to the residual stream.

    x: (b, num_tokens, d_model). Returns that shape, the attention weights, and the cache with x. layer: its number.
    ablate: heads whose context becomes 0.
    Source: Touvron et al. 2023, "LLaMA" (arXiv 2302.13971), section 2.2; the gate: Shazeer 2020 (arXiv 2002.05202); two
    more norms, and local layers: Gemma Team 2025, "Gemma 3 Technical Report" (arXiv 2503.19786), section 2.
    """

    def __init__(self, config, layer=0):
        super().__init__()
        d, inner, gemma = config.d_model, config.d_inner, FAMILIES[config.family].gemma
        self.attention = Attention(config, layer)
        self.norm_1 = nn.RMSNorm(d, eps=config.eps)
        self.norm_2 = nn.RMSNorm(d, eps=config.eps)
        self.after_attention = nn.RMSNorm(d, eps=config.eps) if gemma else nn.Identity()
        self.after_mlp = nn.RMSNorm(d, eps=config.eps) if gemma else nn.Identity()
        self.W_gate = nn.Linear(d, inner, bias=False)
        self.W_up = nn.Linear(d, inner, bias=False)
        self.W_down = nn.Linear(inner, d, bias=False)
        self.activation = nn.GELU("tanh") if gemma else nn.SiLU()

    def forward(self, x, ablate=(), cache=None):
        context, weights, cache = self.attention(self.norm_1(x), cache)
        x = x + self.after_attention(self.attention.out_proj(self.switch_off(context, ablate)))
        return x + self.mlp(self.norm_2(x)), weights, cache

    def mlp(self, x):
        return self.after_mlp(self.W_down(self.activation(self.W_gate(x)) * self.W_up(x)))

    def switch_off(self, context, ablate):
        """The context (b, num_tokens, num_heads * head_dim), in which each ablated head's part is 0."""
        heads = context.unflatten(-1, (-1, self.attention.head_dim)).clone()  # (b, num_tokens, num_heads, head_dim)
        heads[:, :, list(ablate)] = 0.0
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

    token_ids: (b, num_tokens), as encode returns them. Returns logits (b, num_tokens, vocab_size). ablate: heads whose
    context is set to 0, pairs (layer, head), both from 0. Errors: ValueError for no token or more than context_length,
    or a pair that isn't a head.
    """

    def __init__(self, config, tokenizer=None):
        super().__init__()
        self.config, self.tokenizer = config, tokenizer
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.blocks = nn.ModuleList(LanguageModelBlock(config, layer) for layer in range(config.num_layers))
        self.norm = nn.RMSNorm(config.d_model, eps=config.eps)
        self.output_layer = nn.Linear(config.d_model, config.vocab_size, bias=False)

    def forward(self, token_ids, ablate=()):
        return self.run(token_ids, ablate=ablate)[0]

    def look(self, token_ids, ablate=()):
        """A ModelOutput: the logits and all heads' maps."""
        logits, maps, _ = self.run(token_ids, ablate=ablate)
        return ModelOutput(logits, torch.stack(maps, dim=1))

    def run(self, token_ids, caches=None, ablate=()):
        """The logits, and each layer's maps and new cache."""
        config, caches = self.config, caches or [None] * self.config.num_layers
        most = config.context_length - (caches[0].past if caches[0] else 0)
        if not 1 <= token_ids.shape[1] <= most:
            raise ValueError(f"token_ids must hold 1 to {most} tokens, got {token_ids.shape[1]}")
        x = self.embedding(token_ids) * (config.d_model**0.5 if FAMILIES[config.family].gemma else 1.0)
        maps, new = [], []
        for block, heads, cache in zip(self.blocks, self.ablated_heads(ablate), caches, strict=True):
            x, weights, cache = block(x, heads, cache)
            maps.append(weights)
            new.append(cache)
        return self.output_layer(self.norm(x)), maps, new

    def ablated_heads(self, ablate):
        """The heads to ablate, per layer."""
        sizes, layers = (self.config.num_layers, self.config.num_heads), [[] for _ in self.blocks]
        for pair in ablate:
            if not all(0 <= number < size for number, size in zip(pair, sizes, strict=True)):  # -1 would be the last
                raise ValueError(f"ablate must name heads (layer, head) below {sizes}, got {pair}")
            layers[pair[0]].append(pair[1])
        return layers

    def encode(self, text):
        """The token ids of a text, (1, num_tokens), after the model's beginning token if it has one.

        ValueError if it's empty, or has a character without a token (in the course's model, six control characters).
        """
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


def load_model(path=None, folder=None):
    """The course's language model, in eval mode, with weights that need no gradient.

    path, folder, errors: as in read_model. The first load takes a few seconds, later ones about one.
    """
    from tokenizers import Tokenizer

    config, tokenizer, weights = read_model(path, folder)
    with torch.device("meta"), UseNoInit():  # only sizes: the weights come from the file
        model = LanguageModel(config, Tokenizer.from_str(tokenizer))
    if config.tied:
        weights["output_layer.weight"] = weights.get("embedding.weight")
    try:
        model.load_state_dict(weights, assign=True)
    except RuntimeError as error:
        raise ValueError(f"{path or MODEL_PACKAGE} cannot be read: {' '.join(str(error).split()):.300}") from None
    if config.tied:
        model.output_layer.weight = model.embedding.weight  # one matrix, as in most small models
    return model.requires_grad_(False).eval()


class UseNoInit(TorchFunctionMode):
    """While active, new layers draw no weights. (On the meta device, drawing would import sympy, which takes 1 s.)"""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        drawing = function in (nn.init.kaiming_uniform_, nn.init.uniform_, nn.init.normal_)
        return kwargs["tensor"] if drawing else function(*args, **kwargs or {})
