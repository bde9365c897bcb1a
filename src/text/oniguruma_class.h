// Sets of characters in Oniguruma's notation, rewritten for PCRE2. Used by oniguruma.cpp.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace roundel {

// A set as the inside of a PCRE2 character class, and whether its complement is meant.
struct CharacterSet {
  std::string members;
  bool negated = false;
  std::string pattern() const { return (negated ? "[^" : "[") + members + "]"; }
};

// One character of PCRE2 pattern text, safe inside and outside of a class.
std::string escaped_code_point(char32_t c);
std::string space_members();         // \s: White_Space
std::string unicode_word_members();  // \w as Unicode's technical standard 18 has it, but for Join_Control
std::string word_members();          // \w of Oniguruma outside of brackets, and what its \b goes by
// The set that stands at pattern[*at] as an escape (\s \S \d \D \w \W \h \H \p{..} \P{..}); nothing when another escape
// stands there. Moves *at behind it.
std::optional<CharacterSet> read_class_escape(std::string_view pattern, size_t* at, bool in_class,
                                              const std::string& where);
// The character that an escape or a plain character at pattern[*at] stands for; nothing for escapes of other kinds.
// `in_class`: \b is a backspace. Moves *at behind it.
std::optional<char32_t> read_code_point(std::string_view pattern, size_t* at, bool in_class,
                                        const std::string& where);
// Rewrites the bracketed set that begins at pattern[*at] == '[' and moves *at behind its ']'. The result matches exactly
// one character.
std::string read_bracket(std::string_view pattern, size_t* at, const std::string& where);

}  // namespace roundel
