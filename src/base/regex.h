// Regular expressions on user and model data: PCRE2 with JIT, UTF-8, and limits on match steps and depth
// (std::regex recurses per character and is banned).
//
//   Regex layer("re-anchored pattern", Regex::kAnchored, "--rule");
//   if (layer.matches("model.layers.0.mlp.up_proj")) ...
//
// Matching is const and safe from several threads: what PCRE2 needs while it matches belongs to the thread.
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace roundel {

class Regex {
 public:
  enum Flags : unsigned {
    kNone = 0,
    kAnchored = 1,
    kMultiline = 2
  };  // kMultiline: ^ and $ match at lines too
  // `origin` names the pattern's source in messages. Throws Error(kInvalid) when it does not compile.
  Regex(std::string_view pattern, unsigned flags, const std::string& origin);
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  ~Regex();

  // True when the pattern matches at the start (kAnchored) or anywhere. Throws Error(kLimit) when a limit is hit.
  bool matches(std::string_view text) const;
  // Finds the first match at or after `from`. The text must be valid UTF-8 (the caller checks it once). The limit on
  // steps grows with the text, so that a pattern which is linear never meets it. Throws Error(kLimit) when it does.
  bool find(std::string_view text, size_t from, size_t* begin, size_t* end) const;
  const std::string& pattern() const { return pattern_; }

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  std::string pattern_;
};

}  // namespace roundel
