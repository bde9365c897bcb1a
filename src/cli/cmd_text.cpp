#include <nlohmann/json.hpp>

#include "base/file.h"
#include "cli/command.h"
#include "cli/options.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace roundel::cli {
namespace {

struct TokenizeState {
  std::string path, text, decode;
  bool special = false;
  JsonOutput json;
};

void decode(const TokenizeState& s, const Tokenizer& tokenizer) {
  const Json json = read_json_file(s.decode);
  if (!json.is_array()) fail(ErrorCode::kInvalid, "{}: expected a list of token ids", s.decode);
  std::vector<int32_t> ids;
  for (const Json& id : json) {
    if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() >= tokenizer.id_limit())
      fail(ErrorCode::kInvalid, "{}: {} is not a token id (0 to {})", s.decode, id.dump(),
           tokenizer.id_limit() - 1);
    ids.push_back(id.get<int32_t>());
  }
  write_stdout(tokenizer.decode(ids, {.skip_special = !s.special}));
}

void tokenize(const TokenizeState& s) {
  if (s.text.empty() == s.decode.empty())
    fail(ErrorCode::kUsage, "give one of --text FILE and --decode FILE");
  const Tokenizer tokenizer = Tokenizer::load(s.path);
  if (!s.decode.empty()) return decode(s, tokenizer);
  const std::vector<int32_t> ids =
      tokenizer.encode(read_text_file(s.text, 1ull << 30), {.add_special = s.special});
  s.json.write({{"ids", ids}, {"count", ids.size()}});
  if (s.json.only_json()) return;
  std::string out;
  for (size_t i = 0; i < ids.size(); ++i) out += (i ? " " : "") + std::to_string(ids[i]);
  write_stdout(out + "\n");
}

}  // namespace

void add_tokenize(CLI::App& app) {
  auto s = std::make_shared<TokenizeState>();
  CLI::App* c = app.add_subcommand("tokenize", "Token ids of a text, or the text of token ids");
  declare_path(*c, s->path, "PATH", "Folder with tokenizer.json");
  c->add_option("--text", s->text, "Text file")->type_name("FILE");
  c->add_option("--decode", s->decode, "JSON list of ids to turn back into text")->type_name("FILE");
  c->add_flag("--special", s->special, "Add (or keep, when decoding) special tokens");
  s->json.declare(*c);
  c->callback([s] { tokenize(*s); });
}

void add_template(CLI::App& app) {
  struct State {
    std::string path, messages;
    bool no_generation_prompt = false;
  };
  auto s = std::make_shared<State>();
  CLI::App* c = app.add_subcommand("template", "Apply the chat template to messages, as text");
  declare_path(*c, s->path, "PATH", "Folder with the chat template");
  c->add_option("--messages", s->messages, "JSON list of {role, content}")->required()->type_name("FILE");
  c->add_flag("--no-generation-prompt", s->no_generation_prompt, "Do not open the assistant's turn");
  c->callback([s] {
    const ChatTemplate chat = ChatTemplate::load(s->path);
    const Json messages = read_json_file(s->messages);
    write_stdout(chat.render(messages, {.add_generation_prompt = !s->no_generation_prompt}));
  });
}

}  // namespace roundel::cli
