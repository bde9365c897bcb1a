#include "text/chat_template.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "text/jinja/from_json.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/parser.h"

namespace roundel {
namespace {

constexpr uint64_t kMaxTemplateBytes = 1u << 20;

using Sources =
    std::map<std::string, std::pair<std::string, std::string>, std::less<>>;  // by name: file, text

std::string shown(const std::filesystem::path& file) {
  return file.filename().string();
}

// A token is a text or {"content": text}; other values are no tokens.
void add_token(const std::string& name, const Json& value, Json& tokens) {
  if (tokens.contains(name)) return;
  if (value.is_string()) {
    tokens[name] = value;
  } else if (value.is_object() && value.contains("content") && value["content"].is_string()) {
    tokens[name] = value["content"];
  }
}

void add_tokens(const Json& config, const std::string& where, Json& tokens) {
  if (!config.is_object()) fail(ErrorCode::kInvalid, "{}: expected an object", where);
  for (const auto& [key, value] : config.items())
    if (key.ends_with("_token")) add_token(key, value, tokens);
  // names that only this model has
  if (auto more = config.find("extra_special_tokens"); more != config.end() && more->is_object())
    for (const auto& [key, value] : more->items()) add_token(key, value, tokens);
}

void add_list(const Json& list, const std::string& where, Sources& to) {
  for (const Json& entry : list) {
    if (!entry.is_object())
      fail(ErrorCode::kInvalid, "{}: chat_template holds an entry that is not {{name, template}}", where);
    std::string name = require_string(entry, "name", where + ": chat_template");
    to[name] = {where, require_string(entry, "template", where + ": chat_template")};
  }
}

Sources sources_of_config(const Json& config, const std::string& where) {
  Sources sources;
  auto it = config.find("chat_template");
  if (it == config.end() || it->is_null()) return sources;
  if (it->is_string()) {
    sources["default"] = {where, it->get<std::string>()};
  } else if (it->is_array()) {
    add_list(*it, where, sources);
  } else {
    fail(ErrorCode::kInvalid, "{}: chat_template is neither a text nor a list of {{name, template}}", where);
  }
  return sources;
}

Sources sources_of_files(const std::filesystem::path& folder) {
  Sources sources;
  auto read = [&](const std::string& name, const std::filesystem::path& file) {
    sources[name] = {shown(file), read_text_file(file, kMaxTemplateBytes)};
  };
  if (std::filesystem::exists(folder / "chat_template.jinja"))
    read("default", folder / "chat_template.jinja");
  if (std::filesystem::exists(folder / "chat_templates" / "tool_use.jinja"))
    read("tool_use", folder / "chat_templates" / "tool_use.jinja");
  return sources;
}

bool is_given(const OrderedJson* extra, const char* name) {
  return extra && extra->is_object() && extra->contains(name) && !(*extra)[name].is_null();
}

}  // namespace

struct ChatTemplate::Impl {
  jinja::Template program;
  std::unique_ptr<jinja::Template> with_tools;
  Json special;
};

ChatTemplate::ChatTemplate(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

ChatTemplate ChatTemplate::load(const std::filesystem::path& folder) {
  auto config_file = folder / "tokenizer_config.json", map_file = folder / "special_tokens_map.json";
  Json config = Json::object(), tokens = Json::object();
  if (std::filesystem::exists(config_file)) {
    config = read_json_file(config_file);
    add_tokens(config, config_file.string(), tokens);
  }
  if (std::filesystem::exists(map_file)) add_tokens(read_json_file(map_file), map_file.string(), tokens);
  Sources sources = sources_of_files(folder);
  if (sources.empty()) sources = sources_of_config(config, shown(config_file));
  auto chosen = sources.find("default");
  if (chosen == sources.end() && sources.size() == 1) chosen = sources.begin();
  if (chosen == sources.end())
    fail(ErrorCode::kNotFound,
         "{}: no {}chat template: neither a file chat_template.jinja nor \"chat_template\" in "
         "tokenizer_config.json "
         "has one. Base models have none; give text without a conversation",
         folder.string(), sources.empty() ? "" : "default ");
  const auto& [name, text] = chosen->second;
  ChatTemplate result = parse(text, name, tokens);
  if (auto tools = sources.find("tool_use"); tools != sources.end())
    result.impl_->with_tools = std::make_unique<jinja::Template>(jinja::parse_template(
        tools->second.first + " (tool_use)", tools->second.second, TemplateBudget().max_depth));
  return result;
}

ChatTemplate ChatTemplate::parse(std::string_view text, const std::string& name, const Json& special) {
  auto impl = std::make_unique<Impl>();
  impl->program = jinja::parse_template(name, text, TemplateBudget().max_depth);
  impl->special = special;
  return ChatTemplate(std::move(impl));
}

std::string ChatTemplate::render(const OrderedJson& messages, const ChatOptions& options) const {
  const jinja::Template& program =
      impl_->with_tools && is_given(options.extra, "tools") ? *impl_->with_tools : impl_->program;
  jinja::Budget budget(options.budget);
  std::map<std::string, jinja::Value, std::less<>> variables;
  for (const char* name : {"tools", "documents"}) variables[name] = jinja::Value::none();
  if (options.extra) {
    if (!options.extra->is_object())
      fail(ErrorCode::kInvalid, "the variables of a chat template must be an object");
    for (const auto& [name, value] : options.extra->items())
      variables[name] = jinja::from_json(value, budget);
  }
  for (const auto& [name, value] : impl_->special.items())
    if (value.is_string()) variables[name] = jinja::from_json(value, budget);
  variables["messages"] = jinja::from_json(messages, budget);
  variables["add_generation_prompt"] = jinja::Value::boolean(options.add_generation_prompt);
  jinja::Interpreter interpreter(program, budget);
  try {
    return interpreter.run(variables);
  } catch (Error& e) {
    e.add_context(fmt::format("{}: line {}", program.name, interpreter.line()));
    throw;
  }
}

}  // namespace roundel
