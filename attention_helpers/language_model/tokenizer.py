"""A model's tokenizer: byte-pair encoding (BPE) from the vocabulary in its file, over bytes or over characters."""

CONTROL, USER_DEFINED = 3, 4  # kinds of tokens that are never split
WORDS = (  # how texts were split before a vocabulary over bytes was learned; a file only names it
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LLAMA3, QWEN2 = dict.fromkeys(("llama-bpe", "llama3", "llama-v3"), "{1,3}"), {"qwen2": "", "deepseek-r1-qwen": ""}
DIGITS = LLAMA3 | QWEN2  # how many digits of a number stay together, as the end of a pattern
KNOWN = "gpt-2", "smollm", *DIGITS


def make_tokenizer(fields):
    """A tokenizers.Tokenizer from a GGUF file's fields. LanguageModel.encode adds the beginning token.

    Source: Sennrich et al. 2016, "Neural Machine Translation of Rare Words with Subword Units" (arXiv 1508.07909), on
    bytes: Radford et al. 2019 (GPT-2), section 2.2; SentencePiece: Kudo and Richardson 2018 (arXiv 1808.06226).
    """
    from tokenizers import AddedToken

    kind, words = fields.get("tokenizer.ggml.model"), fields["tokenizer.ggml.tokens"]
    make = {"gpt2": over_bytes, "llama": over_characters}.get(kind)
    if make is None:
        raise ValueError(f"its tokenizer must be 'gpt2' or 'llama', got {kind!r}")
    tokenizer = make(fields, words)
    for word, kind in zip(words, fields.get("tokenizer.ggml.token_type", []), strict=False):
        if kind in (CONTROL, USER_DEFINED):
            tokenizer.add_tokens([AddedToken(word, special=kind == CONTROL, normalized=False)])
    return tokenizer


def over_bytes(fields, words):
    """BPE over bytes, with the merges that the file lists."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

    split = fields.get("tokenizer.ggml.pre")
    if split not in KNOWN:
        raise ValueError(f"its texts must be split like those of {', '.join(KNOWN)}, got {split!r}")
    merges = [tuple(merge.split(" ")) for merge in fields.get("tokenizer.ggml.merges", [])]
    vocabulary = {word: token_id for token_id, word in enumerate(words)}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, ignore_merges=split in LLAMA3))
    parts = [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=split not in DIGITS)]
    if split == "smollm":
        parts.insert(0, pre_tokenizers.Digits(individual_digits=True))  # each number of any script, also ¾
    if split in DIGITS:
        parts.insert(0, pre_tokenizers.Split(Regex(WORDS % DIGITS[split]), "isolated"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(parts)
    if split in QWEN2:
        tokenizer.normalizer = normalizers.NFC()  # a letter and its accent become one character
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def over_characters(fields, words):
    """BPE over characters, as in SentencePiece: ▁ is a space, and a character without a token becomes its bytes."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    gemma = fields.get("general.architecture") == "gemma3"
    if gemma:  # its spaces in a row are spelled as such, and its order of merges is that of the tokens
        words = ["▁" * len(word) if word and not word.strip(" ") else word for word in words]
    scores = [-place for place in range(len(words))] if gemma else fields["tokenizer.ggml.scores"]
    unknown = fields.get("tokenizer.ggml.unknown_token_id")
    vocabulary = {word: token_id for token_id, word in enumerate(words)}
    options = {"unk_token": None if unknown is None else words[unknown], "fuse_unk": True, "byte_fallback": True}
    tokenizer = Tokenizer(models.BPE(vocabulary, implied_merges(words, scores), **options))
    prefix = "first" if fields.get("tokenizer.ggml.add_space_prefix", not gemma) else "never"
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace("▁", prefix, split=False)
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    return tokenizer


def implied_merges(words, scores):
    """Every way to make a token from two others: better tokens first, then those with the longer first part."""
    there, merges = set(words), []
    for word, _ in sorted(zip(words, scores, strict=True), key=lambda pair: -pair[1]):  # ties keep their order
        pairs = ((word[:cut], word[cut:]) for cut in range(len(word) - 1, 0, -1))
        merges += [pair for pair in pairs if there.issuperset(pair)]
    return merges
