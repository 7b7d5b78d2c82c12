"""A model's tokenizer: byte-level byte-pair encoding (BPE) from the vocabulary and merges in the model's file."""

# How a text is split before pairs are merged, by its name in the file.
CUTS = {"smollm": True, "gpt-2": False, "default": False}  # whether each \p{N} is split off: a digit, but also ¾
CONTROL, USER_DEFINED = 3, 4  # kinds of tokens that are never split


def tokenizer_json(fields):
    """A tokenizer as JSON for `tokenizers.Tokenizer.from_str`; ValueError for a kind that we don't support.

    fields: those of a GGUF file. Never adds a beginning token, even if the file asks for one.
    Source: Sennrich et al. 2016, "Neural Machine Translation of Rare Words with Subword Units"
    (arXiv 1508.07909), on bytes: Radford et al. 2019 (GPT-2), section 2.2.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    kind, cut = fields.get("tokenizer.ggml.model"), fields.get("tokenizer.ggml.pre", "default")
    if kind != "gpt2" or cut not in CUTS:
        raise ValueError(
            f"its tokenizer must be 'gpt2' and cut texts as one of {', '.join(CUTS)}, got {kind!r} that cuts as {cut!r}"
        )
    words, kinds = fields["tokenizer.ggml.tokens"], fields.get("tokenizer.ggml.token_type", [])
    try:
        merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"]]
        tokenizer = Tokenizer(models.BPE({word: token_id for token_id, word in enumerate(words)}, merges))
    except Exception as error:  # tokenizers has no narrower exception
        raise ValueError(f"its merges do not fit its tokens ({error})") from error
    digits = [pre_tokenizers.Digits(individual_digits=True)] if CUTS[cut] else []
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    added = [(word, kind) for word, kind in zip(words, kinds, strict=False) if kind in (CONTROL, USER_DEFINED)]
    tokenizer.add_tokens([AddedToken(word, special=kind == CONTROL, normalized=False) for word, kind in added])
    return tokenizer.to_str()
