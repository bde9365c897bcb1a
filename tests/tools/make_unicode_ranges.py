#!/usr/bin/env python3
"""Prints the table of src/text/unicode_recent.cpp.

It lists the code points that the regular expressions of the `tokenizers` package (Oniguruma) know and Unicode 14,
the version of PCRE2 10.42, does not. Needs `tokenizers` and a Python whose unicodedata is of Unicode 14 (3.11).
"""
import unicodedata

from tokenizers import Regex, pre_tokenizers

CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cf".split()


def members(category, code_points):
    """Those of code_points that match \\p{category}: the characters that a removing split leaves out."""
    split = pre_tokenizers.Split(Regex(r"\p{%s}" % category), "removed")
    found = []
    for at in range(0, len(code_points), 4096):
        block = code_points[at : at + 4096]
        kept = set()
        for _, (begin, end) in split.pre_tokenize_str("".join(map(chr, block))):
            kept.update(range(begin, end))
        found += [c for i, c in enumerate(block) if i not in kept]
    return found


def main():
    assert unicodedata.unidata_version == "14.0.0", unicodedata.unidata_version
    unassigned = [c for c in range(0x110000) if unicodedata.category(chr(c)) == "Cn"]
    category_of = {c: category for category in CATEGORIES for c in members(category, unassigned)}
    ranges = []
    for c, category in sorted(category_of.items()):
        if ranges and ranges[-1][1] == c - 1 and ranges[-1][2] == category:
            ranges[-1][1] = c
        else:
            ranges.append([c, c, category])
    for first, last, category in ranges:
        print('    {0x%X, 0x%X, "%s"},' % (first, last, category))


if __name__ == "__main__":
    main()
