#!/usr/bin/env python3
"""Makes tests/data/tokenizers/parts.json: what single normalizers, pre-tokenizers and decoders of the `tokenizers`
package do, and which code points the classes of its regular expressions hold.

    make_tokenizer_part_fixtures.py OUT_FOLDER
"""
import json
import sys
from pathlib import Path

from tokenizers import Regex, Tokenizer, pre_tokenizers

TEXTS = [
    "the-final--countdown",
    "-a- b--c ---",
    "Hello  World, it's 2024!\n\n  x\ty  ",
    " lead",
    "  two lead",
    "a1b22c333d4444e55555",
    "\u00b2\u2167\u0663x\u0664\u0665",
    "foo_bar \u00e9t\u00e9 \u0928\u092e\u0938\u094d\u0924\u0947 \u4f60\u597d\u3002",
    "A\nB\r\nC\n",
    "(a)[b]{c}<d>$e+f^g`h|i~ \u2026\u00bf\u3001\u2e52\u1b7d",
    "x\u00a0y\u2003z\u180ew\u200bv\u2028u\u0085t",
    "abcABC\u017f\u212a'S 's'\u017f",
    "\u2581mark \u2581\u2581b",
    "   ",
    "deadBEEF09 xyz",
    "\u1129\u2deb\u07fd e\u07fd\u0301 \U00011935\U00011930 a\u0301\u07fd\u0316 \u1112\u1161\u11ab",
    "I\u0307 \u0130 \u03a3 \ufb01 e\u0301\u0316 \uac00\u11a8 \u1e9b\u0323",
]

REGEXES = [
    r"\s+", r"[0-9]", r"-", r"-+", r"^", r"$", r"^.", r".$", r"(?m)a.", r"a.", r"\p{N}{1,3}+", r"\p{N}{1,3}", r"\p{N}{2}?",
    r"[a-z&&[^aeiou]]+", r"[^a-z&&[^aeiou]]", r"[a[0-9]b]+", r"[^[a-c][0-9]]+", r"[\s\S]", r"[^\S\n]+", r"[\W&&\S]", r"\h+",
    r"\H+", r"\bx?", r"\B", r"[[:alpha:]]+", r"[[:^punct:]]+", r"[[:upper:]\d]+", r"(?i)a(?-i)b|c", r"x(?i)A|b", r"(?i:'s|k)",
    r"(?<=a)b", r"(?<!a)b", r"(?<n>[a-z])\k<n>", r"\w+", r"\W", r"\d+", r"\D+", r"\p{Han}+|\p{^L}", r"\P{L}+",
    r"[\u0900-\u097f]+", r"\x{e9}|\x62", r"[]a]+", r"[a\-z]+", r"[a-]+", r"(a|b)*+c?", r"a{,2}", r"{x", r"\Aa|b\z", r"\v|\t",
    r"(?:)", r"a*", r"(?#comment)b", r"\Gt|e", r"\R", r"[\p{Lu}&&[^A]]", r"(?>a+)b", r"[&&a]", r"\p{Alpha}+", r"[^\W\d_]+",
]

STRINGS = ["-", " ", "ab", "a", "\u2581", ".", "[", "aa"]
BEHAVIORS = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]

CLASSES = [
    r"\p{L}", r"\p{Lu}", r"\p{Lo}", r"\p{M}", r"\p{N}", r"\p{Nd}", r"\p{P}", r"\p{S}", r"\p{Z}", r"\s", r"\w", r"\d", r"\h",
    r"\p{Han}", r"[[:punct:]]", r"[[:alnum:]]",
]


def split(kind, pattern, behavior="Isolated", invert=False):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def byte_level(prefix, regex):
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": regex}


def metaspace(scheme, cut, replacement="\u2581"):
    return {"type": "Metaspace", "replacement": replacement, "prepend_scheme": scheme, "split": cut}


def sequence(*steps):
    return {"type": "Sequence", "pretokenizers": list(steps)}


def pre_tokenizer_list():
    parts = [split("Regex", r) for r in REGEXES]
    parts += [split("String", s) for s in STRINGS]
    for behavior in BEHAVIORS:
        parts += [split("Regex", r"\s+|-", behavior, invert) for invert in (False, True)]
        parts += [split("String", "-", behavior), {"type": "Punctuation", "behavior": behavior}]
    parts += [byte_level(p, r) for p in (False, True) for r in (False, True)]
    parts += [metaspace(s, c) for s in ("always", "first", "never") for c in (False, True)]
    parts += [metaspace("always", True, "_")]
    parts += [{"type": "Digits", "individual_digits": i} for i in (False, True)]
    parts += [{"type": "Whitespace"}, {"type": "WhitespaceSplit"}]
    parts += [
        sequence({"type": "Whitespace"}, {"type": "Digits", "individual_digits": True}),
        sequence({"type": "WhitespaceSplit"}, metaspace("first", False)),
        sequence({"type": "WhitespaceSplit"}, metaspace("always", True)),
        sequence({"type": "Punctuation", "behavior": "Contiguous"}, byte_level(True, True)),
        sequence(sequence(split("Regex", "[A-Z]")), byte_level(False, False), split("String", "\u0120")),
    ]
    return parts


NORMALIZERS = [
    {"type": "NFC"},
    {"type": "NFD"},
    {"type": "NFKC"},
    {"type": "NFKD"},
    {"type": "Lowercase"},
    {"type": "Prepend", "prepend": "\u2581"},
    {"type": "Strip", "strip_left": True, "strip_right": False},
    {"type": "Strip", "strip_left": False, "strip_right": True},
    {"type": "Strip", "strip_left": True, "strip_right": True},
    {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
    {"type": "Replace", "pattern": {"String": "--"}, "content": ""},
    {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
    {"type": "Replace", "pattern": {"Regex": "(?=[A-Z])"}, "content": "|"},
    {"type": "ByteLevel"},
    {"type": "Sequence", "normalizers": []},
    {"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "Lowercase"}, {"type": "Prepend", "prepend": ">"}]},
]

# Whether Metaspace puts its mark in front depends on what the normalizer did to the first character.
FIRST_AFTER = [
    {"type": "Strip", "strip_left": True, "strip_right": False},
    {"type": "Replace", "pattern": {"Regex": "^ +"}, "content": ""},
    {"type": "Replace", "pattern": {"Regex": "^-?[a-z]"}, "content": "X"},
    {"type": "Lowercase"},
    {"type": "Prepend", "prepend": ">"},
    {"type": "NFKC"},
]

DECODERS = [
    None,
    {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
    {"type": "ByteFallback"},
    {"type": "Fuse"},
    metaspace("always", True),
    metaspace("first", False),
    metaspace("never", True),
    {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
    {"type": "Replace", "pattern": {"Regex": "[0-9]+"}, "content": "#"},
    {"type": "Strip", "content": " ", "start": 1, "stop": 0},
    {"type": "Strip", "content": "a", "start": 2, "stop": 0},
    {"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 2}]},
    {"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "Replace", "pattern": {"String": "ab"}, "content": "c"}]},
    {
        "type": "Sequence",
        "decoders": [
            {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
            {"type": "ByteFallback"},
            {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        ],
    },
]

TOKENS = [
    ["\u2581Hello", "\u2581\u2581wor", "ld", "\u2581"],
    ["\u2581", "\u2581", "a\u2581b"],
    ["\u0120Hello", "\u0120w", "\u00c3", "\u00a9", "\u00e4", "\u00bd", "x", "\u4f60"],
    ["<0xE4>", "<0xBD>", "<0xA0>", "a", "<0xE4>", "<0xBD>", "b", "<0xFF>"],
    ["<0x41>", "<0xC3>", "<0xA9>", "<0xFF>", "z", "<0xzz>", "<0x4>", "<0x+A>", "<0xa9>"],
    [" a ", "  b", "  c  ", "d  "],
    ["aab", "aaab", "1a22", "ba"],
    ["a", "b", "ab", "a", "b"],
    ["\u00c4\u0142", "\u00c5", "\u0143"],
]


def tokenizer_with(**parts):
    tree = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": None, "post_processor": None, "decoder": None,
        "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []},
    }
    tree.update(parts)
    return Tokenizer.from_str(json.dumps(tree))


CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]


def boundaries_of(is_member):
    """Where membership changes, from U+0000 on: [first member, first that is none, next member, ...]."""
    boundaries = []
    inside = False
    for c in CODE_POINTS:
        if inside != is_member(c):
            inside = not inside
            boundaries.append(c)
    return boundaries


def class_boundaries(pattern):
    cut = pre_tokenizers.Split(Regex("(?:%s)+" % pattern), "removed")
    members = set()
    for at in range(0, len(CODE_POINTS), 4096):
        block = CODE_POINTS[at : at + 4096]
        kept = set()
        for _, (begin, end) in cut.pre_tokenize_str("".join(map(chr, block))):
            kept.update(range(begin, end))
        members.update(c for i, c in enumerate(block) if i not in kept)
    return boundaries_of(members.__contains__)


def property_boundaries(cut, filler):
    """Of what `cut` isolates from characters `filler` without the property."""
    members = set()
    for at in range(0, len(CODE_POINTS), 4096):
        block = CODE_POINTS[at : at + 4096]
        text = filler + filler.join(map(chr, block)) + filler
        for _, (begin, end) in cut.pre_tokenize_str(text):
            if end - begin == 1 and begin % 2 == 1:
                members.add(block[begin // 2])
    return boundaries_of(members.__contains__)


def hash_of_all(normalize):
    """A number that changes with what `normalize` makes of any single code point."""
    value = 0
    for c in CODE_POINTS:
        for byte in normalize(chr(c)).encode() + b"\n":
            value = (value * 1000003 + byte + 1) % 2**64
    return str(value)


def pieces_after(normalizer, text):
    # Offsets of pre_tokenize_str would forget the normalizer, so the pieces are found through the vocabulary.
    tree = tokenizer_with(normalizer=normalizer, pre_tokenizer=metaspace("first", False))
    marked = json.loads(tree.to_str())
    alphabet = sorted({c for t in TEXTS for c in t + t.lower()} | set(tree.normalizer.normalize_str("".join(TEXTS))) | {"\u2581", "X"})
    marked["model"]["vocab"] = {c: i for i, c in enumerate(alphabet)}
    marked = Tokenizer.from_str(json.dumps(marked))
    return "".join(alphabet[i] for i in marked.encode(text).ids)


def main():
    tree = {
        "texts": TEXTS,
        "pre_tokenizers": [],
        "normalizers": [],
        "metaspace_first_after": [],
        "decoders": [],
        "tokens": TOKENS,
        "classes": {c: class_boundaries(c) for c in CLASSES},
        "properties": {
            "punctuation": property_boundaries(pre_tokenizers.Punctuation("isolated"), "a"),
            "numeric": property_boundaries(pre_tokenizers.Digits(individual_digits=True), "a"),
            "word": property_boundaries(pre_tokenizers.Whitespace(), "+"),
        },
        "code_points": {
            type_: hash_of_all(tokenizer_with(normalizer={"type": type_}).normalizer.normalize_str)
            for type_ in ("Lowercase", "NFC", "NFD", "NFKC", "NFKD")
        },
    }
    for part in pre_tokenizer_list():
        cut = tokenizer_with(pre_tokenizer=part).pre_tokenizer
        tree["pre_tokenizers"].append([part, [[p for p, _ in cut.pre_tokenize_str(t)] for t in TEXTS]])
    for part in NORMALIZERS:
        normalizer = tokenizer_with(normalizer=part).normalizer
        tree["normalizers"].append([part, [normalizer.normalize_str(t) for t in TEXTS]])
    for part in FIRST_AFTER:
        tree["metaspace_first_after"].append([part, [pieces_after(part, t) for t in TEXTS]])
    for part in DECODERS:
        if part is None:
            vocab = {t: i for i, t in enumerate(dict.fromkeys(t for list_ in TOKENS for t in list_))}
            whole = tokenizer_with(model={"type": "BPE", "vocab": vocab, "merges": []})
            texts = [whole.decode([vocab[t] for t in list_]) for list_ in TOKENS]
        else:
            decoder = tokenizer_with(decoder=part).decoder
            texts = [decoder.decode(list_) for list_ in TOKENS]
        tree["decoders"].append([part, texts])
    path = Path(sys.argv[1]) / "parts.json"
    path.write_text(json.dumps(tree, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
