"""A model's tokenizer: byte-level byte-pair encoding (BPE) from the vocabulary and merges in the model's file."""

CONTROL, USER_DEFINED = 3, 4  # kinds of tokens that are never split


def tokenizer_json(fields):
    """A tokenizer as JSON for `tokenizers.Tokenizer.from_str`; ValueError for a kind that we don't support.

    fields: those of a GGUF file. Never adds a beginning token, even if the file asks for one.
    Source: Sennrich et al. 2016, "Neural Machine Translation of Rare Words with Subword Units"
    (arXiv 1508.07909), on bytes: Radford et al. 2019 (GPT-2), section 2.2.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    kind = fields.get("tokenizer.ggml.model"), fields.get("tokenizer.ggml.pre")
    if kind != ("gpt2", "smollm"):
        raise ValueError(f"its tokenizer must be 'gpt2' and split texts like 'smollm', got {kind}")
    words, kinds = fields["tokenizer.ggml.tokens"], fields.get("tokenizer.ggml.token_type", [])
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE({word: token_id for token_id, word in enumerate(words)}, merges))
    digits = pre_tokenizers.Digits(individual_digits=True)  # each number of any script, also ¾
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    added = [(word, kind) for word, kind in zip(words, kinds, strict=False) if kind in (CONTROL, USER_DEFINED)]
    tokenizer.add_tokens([AddedToken(word, special=kind == CONTROL, normalized=False) for word, kind in added])
    return tokenizer.to_str()
