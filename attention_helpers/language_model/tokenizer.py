"""A model's tokenizer: byte-pair encoding (BPE) from the vocabulary in its file, over bytes or over characters.

A vocabulary over bytes was learned on texts that were split first, and its file only names how. We know these ways of
splitting from the published tokenizers, and refuse the others.
"""

CONTROL, USER_DEFINED = 3, 4  # kinds of tokens that are never split
LONGEST_TOKEN, MOST_CHARACTERS, MOST_MERGES = 512, 4_000_000, 700_000
WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
GPT2, SMOLLM = "gpt-2", "smollm"  # splits of their own, which the library knows
LLAMA3, QWEN2 = dict.fromkeys(("llama-bpe", "llama3", "llama-v3"), "{1,3}"), {"qwen2": "", "deepseek-r1-qwen": ""}
DIGITS = LLAMA3 | QWEN2  # how many digits of a number stay together, as the end of a pattern
KNOWN = GPT2, SMOLLM, *DIGITS


def listed(fields, name, kind, length=None):
    """A list from the tokenizer's keys; ValueError if it's missing, of another kind or another length."""
    name = f"tokenizer.ggml.{name}"
    found = fields.get(name)
    if not isinstance(found, list) or not found or not isinstance(found[0], kind):
        raise ValueError(f"{name} must be a list with values of the kind {kind.__name__}")
    if length is not None and len(found) != length:
        raise ValueError(f"{name} must hold one value for each of {length:,} tokens, got {len(found):,}")
    return found


def tokens_in(fields):
    """The vocabulary, a list of texts."""
    tokens = listed(fields, "tokens", str)
    if (longest := max(map(len, tokens))) > LONGEST_TOKEN:
        raise ValueError(f"a token must have at most {LONGEST_TOKEN} characters, got {longest:,}")
    if (total := sum(map(len, tokens))) > MOST_CHARACTERS:
        raise ValueError(f"its tokens must have at most {MOST_CHARACTERS:,} characters in all, got {total:,}")
    return tokens


def token_at(fields, name, count):
    """A token's id, such as that of the token that ends a text, or None; ValueError if it's not one of the ids."""
    token_id = fields.get(f"tokenizer.ggml.{name}")
    if token_id is not None and (type(token_id) is not int or not 0 <= token_id < count):
        raise ValueError(f"tokenizer.ggml.{name} must be a token's id below {count:,}, got {token_id!r}")
    return token_id


def wants_beginning(fields):
    """Whether a beginning token comes before each text; files that don't say so leave it to the kind of tokenizer."""
    usual = fields.get("tokenizer.ggml.model") == "llama" or fields.get("tokenizer.ggml.pre") in (*LLAMA3,)
    return fields.get("tokenizer.ggml.add_bos_token", usual) is True


def tokenizer_json(fields):
    """A tokenizer as JSON for `tokenizers.Tokenizer.from_str`; ValueError for a kind that we don't support.

    fields: those of a GGUF file. It adds no beginning token: see `LanguageModel.encode`.
    Source: Sennrich et al. 2016, "Neural Machine Translation of Rare Words with Subword Units"
    (arXiv 1508.07909), on bytes: Radford et al. 2019 (GPT-2), section 2.2; SentencePiece: Kudo and Richardson 2018
    (arXiv 1808.06226).
    """
    kind, words = fields.get("tokenizer.ggml.model"), tokens_in(fields)
    if kind not in ("gpt2", "llama"):
        raise ValueError(f"its tokenizer must be 'gpt2' or 'llama', got {kind!r}")
    try:
        tokenizer = over_bytes(fields, words) if kind == "gpt2" else over_characters(fields, words)
    except ValueError:
        raise
    except Exception as error:  # the library raises nothing more specific, for example for a merge of unknown tokens
        raise ValueError(f"its tokenizer can't be made: {error}") from None
    return with_added(tokenizer, fields, words).to_str()


def with_added(tokenizer, fields, words):
    """The same tokenizer, which now leaves control tokens and those of a user whole."""
    from tokenizers import AddedToken

    kinds = fields.get("tokenizer.ggml.token_type")
    kinds = [1] * len(words) if kinds is None else listed(fields, "token_type", int, len(words))
    there = tokenizer.get_vocab()
    added = [(word, kind) for word, kind in zip(words, kinds, strict=True) if kind in (CONTROL, USER_DEFINED)]
    added = [AddedToken(word, special=kind == CONTROL, normalized=False) for word, kind in added if word in there]
    tokenizer.add_tokens(added)
    return tokenizer


def over_bytes(fields, words):
    """BPE over bytes, with the merges that the file lists."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

    split = fields.get("tokenizer.ggml.pre")
    if split not in KNOWN:
        raise ValueError(f"its texts must be split like those of {', '.join(KNOWN)}, got {split!r}")
    merges = listed(fields, "merges", str) if fields.get("tokenizer.ggml.merges") else []  # without any, single bytes
    merges = [tuple(merge.split(" ")) for merge in merges]
    if wrong := next((merge for merge in merges if len(merge) != 2), None):
        raise ValueError(f"each of tokenizer.ggml.merges must be two tokens, got {' '.join(wrong)!r}")
    vocabulary = {word: token_id for token_id, word in enumerate(words)}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, ignore_merges=split in LLAMA3))
    parts = [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=split not in DIGITS)]
    if split == SMOLLM:
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
    scores = [-place for place in range(len(words))] if gemma else listed(fields, "scores", float, len(words))
    unknown = token_at(fields, "unknown_token_id", len(words))
    unknown = None if unknown is None else words[unknown]
    vocabulary, merges = {word: token_id for token_id, word in enumerate(words)}, implied_merges(words, scores)
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token=unknown, fuse_unk=True, byte_fallback=True))
    prefix = "first" if fields.get("tokenizer.ggml.add_space_prefix", not gemma) else "never"
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace("▁", prefix, split=False)
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    return tokenizer


def implied_merges(words, scores):
    """Every way to make a token from two others: better tokens first, then those with the longer first part."""
    there, merges = set(words), []
    for word, score in zip(words, scores, strict=True):
        pairs = ((word[:cut], word[cut:]) for cut in range(len(word) - 1, 0, -1))
        merges += [(score, first, second) for first, second in pairs if first in there and second in there]
        if len(merges) > MOST_MERGES:
            raise ValueError(f"its tokens can be made from two others in more than {MOST_MERGES:,} ways")
    merges.sort(key=lambda merge: -merge[0])
    return [(first, second) for _, first, second in merges]
