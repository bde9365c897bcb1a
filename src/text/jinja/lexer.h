// Splits a template into tokens. White space control is done here: "-" and "+" in tags, and what Jinja calls
// trim_blocks and lstrip_blocks, which are always on (transformers sets them).
//
//   Lexed lexed = lex("chat_template.jinja", text);
//   for (const Token& token : lexed.tokens) ...
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace roundel::jinja {

enum class TokenType : uint8_t {
  kData,
  kVariableBegin,
  kVariableEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,  // text still in quotes
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenType type;
  int line;
  std::string_view text;  // into *Lexed::source
};

struct Lexed {
  std::unique_ptr<const std::string> source;  // line ends are "\n", the last one is dropped
  std::vector<Token> tokens;                  // the last one is kEnd
};

// Throws Error(kInvalid) naming the template and the line.
Lexed lex(const std::string& name, std::string_view text);

}  // namespace roundel::jinja
