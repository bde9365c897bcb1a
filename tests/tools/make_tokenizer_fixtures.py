#!/usr/bin/env python3
"""Makes tests/data/tokenizers: small tokenizers with the pipelines of well-known models, and what the `tokenizers`
package makes of difficult texts with them.

    make_tokenizer_fixtures.py tests/data/wikitext-2/wiki.test.raw tests/data/tokenizers

The text of the first argument trains them and is encoded as a whole. Made with tokenizers 0.23.3.
"""
import json
import random
import sys
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from tokenizer_torture import TEXTS

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
BYTES = ["<0x%02X>" % b for b in range(256)]


def special(content, **options):
    return AddedToken(content, special=True, normalized=options.pop("normalized", False), **options)


def train_byte_level(lines, pre_tokenizer, size, normalizer=None, **model):
    tokenizer = Tokenizer(models.BPE(**model))
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    trainer = trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False
    )
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def train_sentencepiece(lines, size):
    """Words that begin with the mark, most characters in the vocabulary, the others left to byte tokens."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="\u2581", prepend_scheme="always")
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=["<unk>", "<s>", "</s>"] + BYTES,
        limit_alphabet=90,
        show_progress=False,
    )
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return tokenizer


def without_byte_tokens(tokenizer):
    """The byte tokens are ordinary tokens of the vocabulary, not added ones."""
    tree = json.loads(tokenizer.to_str())
    tree["added_tokens"] = [t for t in tree["added_tokens"] if t["content"] not in BYTES]
    return Tokenizer.from_str(json.dumps(tree))


def gpt2(lines):
    tokenizer = train_byte_level(lines, pre_tokenizers.ByteLevel(add_prefix_space=False), 640)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.add_special_tokens([special("<|endoftext|>", normalized=True)])
    return tokenizer


def roberta_like(lines):
    tokenizer = train_byte_level(lines, pre_tokenizers.ByteLevel(add_prefix_space=True), 600)
    tokenizer.add_special_tokens([special("<mask>", lstrip=True), special("<s>"), special("</s>")])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> $B </s>", special_tokens=[("<s>", 601), ("</s>", 602)]
    )
    return tokenizer


def llama3(lines):
    split = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer = train_byte_level(lines, split, 700, ignore_merges=True)
    names = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
    tokenizer.add_special_tokens([special(n) for n in names])
    tokenizer.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(
                single="<|begin_of_text|> $A",
                pair="<|begin_of_text|> $A <|begin_of_text|>:1 $B:1",
                special_tokens=[(names[0], tokenizer.token_to_id(names[0]))],
            ),
        ]
    )
    return tokenizer


def qwen2(lines):
    split = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(QWEN2), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer = train_byte_level(lines, split, 700, normalizers.NFC())
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.add_special_tokens([special(n) for n in ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]])
    tokenizer.add_tokens([AddedToken(n, normalized=False) for n in ["<tool_call>", "</tool_call>", "<think>"]])
    return tokenizer


def smollm2(lines):
    split = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer = train_byte_level(lines, split, 640)
    tokenizer.add_special_tokens([special(n) for n in ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]])
    return tokenizer


def o200k(lines):
    split = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(O200K), "removed", invert=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer = train_byte_level(lines, split, 640)
    tokenizer.add_special_tokens([special("<|endoftext|>")])
    return tokenizer


def begin_token(tokenizer):
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)]
    )


def llama2(lines):
    tokenizer = train_sentencepiece(lines, 900)
    tokenizer.pre_tokenizer = None
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    begin_token(tokenizer)
    return without_byte_tokens(tokenizer)


def mistral(lines):
    tokenizer = train_sentencepiece(lines, 800)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="\u2581", prepend_scheme="first", split=False)
    begin_token(tokenizer)
    return without_byte_tokens(tokenizer)


def metaspace(lines):
    tokenizer = train_sentencepiece(lines, 700)
    tokenizer.decoder = decoders.Metaspace(replacement="\u2581", prepend_scheme="always")
    return without_byte_tokens(tokenizer)


def gemma(lines):
    """Merges cross words, no prefix, no byte tokens for some bytes: unknown tokens and their order."""
    tokenizer = train_sentencepiece(lines, 700)
    tree = json.loads(tokenizer.to_str())
    for b in range(0xF0, 0x100):
        id = tree["model"]["vocab"].pop("<0x%02X>" % b)
        tree["model"]["vocab"]["[unused%d]" % b] = id
    tree["added_tokens"] = [t for t in tree["added_tokens"] if t["content"] not in BYTES]
    tree["pre_tokenizer"] = {
        "type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False
    }
    tree["normalizer"] = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
    tree["decoder"] = {
        "type": "Sequence",
        "decoders": [
            {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}
        ],
    }
    return Tokenizer.from_str(json.dumps(tree))


def added_tokens(lines):
    tokenizer = train_byte_level(
        lines,
        pre_tokenizers.Sequence([pre_tokenizers.Punctuation("isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False)]),
        500,
        normalizers.Sequence([normalizers.Strip(True, False), normalizers.Lowercase()]),
    )
    tokenizer.add_tokens(
        [
            AddedToken("<l>", lstrip=True, normalized=False),
            AddedToken("<r>", rstrip=True, normalized=False),
            AddedToken("<lr>", lstrip=True, rstrip=True, normalized=False),
            AddedToken("word", single_word=True, normalized=False),
            AddedToken("Cased", normalized=True),
            AddedToken("ab", normalized=False),
            AddedToken("abc", normalized=False),
            AddedToken("abcdef", normalized=False),
            AddedToken("   ", normalized=False),
            AddedToken("\u00e9t\u00e9", single_word=True, normalized=True),
            AddedToken("<SP>", normalized=True, special=True),
        ]
    )
    return tokenizer


ADDED_TEXTS = [
    "x <l> y  <l>z <r>  w \n<lr>\t v<lr> <lr>",
    "<l>  <r>  <l><r> <r> <l>",
    "word words aword word's word-word (word) \u00e9word word\u00e9 word_ word1 word\u0301 \u200dword",
    "CASED cased Cased caseD unCased",
    "ab abc abcd abcde abcdef abcdefg ababcabcdef abcdeab",
    "a  b   c    d     e",
    "\u00e9t\u00e9 \u00c9T\u00c9 l'\u00e9t\u00e9 \u00e9t\u00e9s e\u0301te\u0301",
    "<SP> <sp> <Sp>x",
    "  leading and trailing  ",
]

PIPELINES = {
    "gpt2": gpt2,
    "roberta_like": roberta_like,
    "llama3": llama3,
    "qwen2": qwen2,
    "smollm2": smollm2,
    "o200k": o200k,
    "llama2": llama2,
    "mistral": mistral,
    "metaspace": metaspace,
    "gemma": gemma,
    "added_tokens": added_tokens,
}


def as_text(text):
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else text


def random_ids(tokenizer, count, seed):
    """Lists of ids that no text gives: halves of characters, special tokens anywhere, gaps."""
    draw = random.Random(seed)
    limit = max(tokenizer.get_vocab().values()) + 3
    low = [tokenizer.token_to_id(b) for b in BYTES if tokenizer.token_to_id(b) is not None]
    specials = sorted(tokenizer.get_added_tokens_decoder())
    marks = [i for i in range(limit) if "\u2581" in (tokenizer.id_to_token(i) or "")]
    lists = []
    for _ in range(count):
        pool = draw.choice([range(limit), range(256), low or range(256), specials or [0], marks or range(limit)])
        lists.append([draw.choice(pool) if draw.random() < 0.7 else draw.randrange(limit) for _ in range(draw.randrange(12))])
    return lists


def hash_of(ids):
    """A number that changes with every id and their order."""
    value = 0
    for id in ids:
        value = (value * 1000003 + id + 1) % 2**64
    return value


def fixture(tokenizer, texts, document, string_merges):
    tree = json.loads(tokenizer.to_str())
    if string_merges:
        tree["model"]["merges"] = [" ".join(m) for m in tree["model"]["merges"]]
    plain = [tokenizer.encode(as_text(t), add_special_tokens=False).ids for t in texts]
    decode = plain[:40] + random_ids(tokenizer, 60, len(plain))
    whole = tokenizer.encode(document, add_special_tokens=False).ids
    return {
        "tokenizer": tree,
        "document": [len(whole), str(hash_of(whole))],
        "ids": plain,
        "begin_and_end": [tokenizer.encode(t, add_special_tokens=True).ids for t in ["", "Hello"]],
        "decode": [
            [ids, tokenizer.decode(ids, skip_special_tokens=True), tokenizer.decode(ids, skip_special_tokens=False)]
            for ids in decode
        ],
    }


def compact(path, tree):
    path.write_text(json.dumps(tree, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")


def main():
    document = Path(sys.argv[1]).read_text(encoding="utf-8")
    lines = document.splitlines(keepends=True)
    out = Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    compact(
        out / "texts.json",
        {
            "common": [{"hex": t.hex()} if isinstance(t, bytes) else t for t in TEXTS],
            "added_tokens": ADDED_TEXTS,
        },
    )
    for name, build in PIPELINES.items():
        texts = TEXTS + (ADDED_TEXTS if name == "added_tokens" else [])
        string_merges = name in ("gpt2", "llama2")
        compact(out / (name + ".json"), fixture(build(lines), texts, document, string_merges))


if __name__ == "__main__":
    main()
