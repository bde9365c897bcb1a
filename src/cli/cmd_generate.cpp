#include <iostream>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "cli/command.h"
#include "cli/options.h"
#include "engine/generate_params.h"
#include "text/chat_template.h"

namespace roundel::cli {
namespace {

struct SampleFlags {
  int64_t max_tokens = 128;
  SamplingChoice choice;

  void declare(CLI::App& c) {
    c.add_option("--max-tokens", max_tokens, "Tokens to generate at most")
        ->check(CLI::Range(int64_t{1}, int64_t{1} << 24))
        ->type_name("N")
        ->capture_default_str();
    declare_sampling(c, choice);
  }

  GenerateParams params(const LoadedModel& loaded) const {
    return generate_params(loaded, max_tokens, choice);
  }
};

void generate(const std::string& path, const std::string& prompt, const SampleFlags& flags,
              const LoadFlags& load) {
  const LoadedModel loaded = load_model(path, load.options());
  const Tokenizer tokenizer = load_tokenizer(*loaded.files);
  const std::vector<int32_t> ids = encode_prompt(loaded, tokenizer, prompt);
  Generator generator(loaded, tokenizer);
  const GenerateResult r = generator.run(ids, flags.params(loaded), write_stdout);
  write_stdout("\n");
  const double decoded = static_cast<double>(std::max<size_t>(r.ids.size(), 1) - 1);
  log_info("{} prompt tokens in {:.2f} s, {} new tokens, {:.1f} tokens/s, finish: {}", ids.size(),
           r.prefill_seconds, r.ids.size(), r.decode_seconds > 0 ? decoded / r.decode_seconds : 0.0,
           r.finish);
}

void chat(const std::string& path, const std::string& system, const SampleFlags& flags,
          const LoadFlags& load) {
  const ChatTemplate chat_template =
      ChatTemplate::load(path);  // before the weights: say at once that there is none
  const LoadedModel loaded = load_model(path, load.options());
  const Tokenizer tokenizer = load_tokenizer(*loaded.files);
  const GenerateParams params = flags.params(loaded);
  Generator generator(loaded, tokenizer);
  Json messages = Json::array();
  if (!system.empty()) messages.push_back({{"role", "system"}, {"content", system}});
  std::string line;
  for (;;) {
    write_stdout("> ");
    if (!std::getline(std::cin, line)) break;
    if (line == "/exit") break;
    if (line.empty()) continue;
    messages.push_back({{"role", "user"}, {"content", line}});
    const std::vector<int32_t> ids = tokenizer.encode(chat_template.render(messages));
    const GenerateResult r = generator.run(ids, params, write_stdout);
    write_stdout("\n");
    if (r.finish != "stop") log_info("the answer was cut: {}", r.finish);
    messages.push_back({{"role", "assistant"}, {"content", r.text}});
  }
  write_stdout("\n");
}

}  // namespace

void add_generate(CLI::App& app) {
  struct State {
    std::string path, prompt;
    SampleFlags sample;
    LoadFlags load;
  };
  auto s = std::make_shared<State>();
  CLI::App* c = app.add_subcommand("generate", "Continue a prompt");
  declare_path(*c, s->path);
  c->add_option("--prompt", s->prompt, "Text to continue; the tokenizer adds its begin token")
      ->required()
      ->type_name("TEXT");
  s->sample.declare(*c);
  s->load.declare(*c);
  c->callback([s] { generate(s->path, s->prompt, s->sample, s->load); });
}

void add_chat(CLI::App& app) {
  struct State {
    std::string path, system;
    SampleFlags sample;
    LoadFlags load;
  };
  auto s = std::make_shared<State>();
  s->sample.max_tokens = 1024;
  CLI::App* c = app.add_subcommand("chat", "Talk with a model; /exit or end of input ends it");
  declare_path(*c, s->path);
  c->add_option("--system", s->system, "System message")->type_name("TEXT");
  s->sample.declare(*c);
  s->load.declare(*c);
  c->callback([s] { chat(s->path, s->system, s->sample, s->load); });
}

}  // namespace roundel::cli
