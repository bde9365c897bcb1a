// Chat templates: the part of Jinja2 that the templates of model folders use, with budgets and without any access to
// files, attributes of the host or other templates.
//
//   ChatTemplate chat = ChatTemplate::load(folder);
//   std::string prompt = chat.render(messages, {.add_generation_prompt = true});
#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "base/json.h"

namespace roundel {

struct TemplateBudget {  // reliability C9
  int max_depth = 100;
  int64_t max_steps = 1000000;
  size_t max_output = 4u << 20;  // also the limit of any one string value
  double max_seconds = 0.25;
};

struct ChatOptions {
  bool add_generation_prompt = true;
  Json* extra = nullptr;  // object: further variables (tools, enable_thinking ...); may not replace messages or the tokens
  TemplateBudget budget = {};
};

class ChatTemplate {
 public:
  // chat_template.jinja, or chat_template of tokenizer_config.json (a string, or a list of {name, template} whose
  // "default" is taken); bos_token, eos_token and the like from tokenizer_config.json / special_tokens_map.json.
  // Throws Error(kNotFound) naming both places when there is none.
  static ChatTemplate load(const std::filesystem::path& folder);
  // `special`: object of the variables bos_token, eos_token, ... (strings).
  static ChatTemplate parse(std::string_view text, const std::string& name, const Json& special);
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // messages: an array of {role, content, ...}. The text equals what transformers' apply_chat_template(tokenize=False)
  // gives. raise_exception() in the template becomes Error(kInvalid) with the template's words.
  std::string render(const Json& messages, const ChatOptions& options = {}) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace roundel
