// Chat templates: the part of Jinja2 that the templates of model folders use, with budgets and without any access to
// files, attributes of the host or other templates.
//
//   ChatTemplate chat = ChatTemplate::load(folder);
//   std::string prompt = chat.render(messages, {.add_generation_prompt = true});
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "base/json.h"

namespace roundel {

struct TemplateBudget {  // reliability C9
  int max_depth = 100;   // brackets and blocks in the source, lists in lists, calls at run time
  int64_t max_steps = 1000000;
  size_t max_output = 4u << 20;  // also the limit of any one string value
  double max_seconds = 0.25;     // of this thread's processor time
};

struct ChatOptions {
  bool add_generation_prompt = true;
  // Object: further variables (tools, documents, enable_thinking ...). It may not replace messages,
  // add_generation_prompt or the special tokens. With tools, a template named "tool_use" is taken when there is one.
  const OrderedJson* extra = nullptr;
  TemplateBudget budget = {};
};

class ChatTemplate {
 public:
  // chat_template.jinja (more in chat_templates/*.jinja), or chat_template of tokenizer_config.json (a string, or a list
  // of {name, template} whose "default" is taken); bos_token, eos_token and the like from tokenizer_config.json, and
  // what is missing there from special_tokens_map.json. Throws Error(kNotFound) naming both places when there is none.
  static ChatTemplate load(const std::filesystem::path& folder);
  // `special`: object of the variables bos_token, eos_token, ... (strings).
  static ChatTemplate parse(std::string_view text, const std::string& name, const Json& special);
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // messages: an array of {role, content, ...}. Keys keep their order, which `tojson` shows: read conversations and tools
  // with parse_ordered_json. The text equals what transformers' apply_chat_template(tokenize=False) gives.
  // raise_exception() in the template becomes Error(kInvalid) with the template's words. Errors name file and line.
  // Can be called by several threads at once.
  std::string render(const OrderedJson& messages, const ChatOptions& options = {}) const;

 private:
  struct Impl;
  explicit ChatTemplate(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace roundel
