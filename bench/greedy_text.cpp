// Greedy continuations of prompts cut from a text, to compare two ways to run a model: CPU and GPU, or two builds.
//
//   greedy_text MODEL --text FILE --device cpu -o cpu.json [--quantize W4A16:g64] [--prompts 100] [--tokens 64]
//   greedy_text MODEL --text FILE --device cuda --against cpu.json
// Prompts are runs of 32 tokens, evenly spaced over the text. For each new token the gap to the second likeliest is kept:
// with --against, prompts that differ are shown with the gap, on both sides, at the first token that differs. The exit
// code is 1 when fewer than 95 of 100 prompts agree or a first difference is no near tie.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "model/loaded_model.h"
#include "scheme/scheme_text.h"

namespace roundel {
namespace {

struct Continuation {
  std::vector<int32_t> ids;
  std::vector<double> gaps;  // logit of the likeliest less that of the next
};

struct Options {
  std::string model, text, out, against, device = "cpu", quantize;
  int64_t prompts = 100, tokens = 64, prompt_tokens = 32;
  double near = 0.25;  // a gap in logits up to this is a near tie
  int threads = 0;
  bool float_cache = false;
};

LoadOptions load_options(const Options& o) {
  LoadOptions load{.threads = o.threads, .quantize = {}, .gpu = {}};
  if (o.device != "cpu") load.gpu = 0;
  if (o.float_cache) load.kv_type = KvType::kF32;
  if (o.quantize.empty()) return load;
  PlanRequest request;
  request.groups.push_back({"", {"Linear"}, parse_scheme_text(o.quantize, "--quantize").scheme});
  request.default_ignore = {"lm_head"};
  load.quantize = request;
  return load;
}

void take(Continuation& c, const std::vector<float>& logits) {
  const auto top = std::max_element(logits.begin(), logits.end());
  float second = -INFINITY;
  for (auto it = logits.begin(); it != logits.end(); ++it)
    if (it != top) second = std::max(second, *it);
  c.ids.push_back(static_cast<int32_t>(top - logits.begin()));
  c.gaps.push_back(static_cast<double>(*top) - static_cast<double>(second));
}

Continuation continue_prompt(const LoadedModel& m, std::span<const int32_t> prompt, int64_t tokens) {
  KvCache cache = m.model->make_cache(1);
  std::vector<float> logits(static_cast<size_t>(m.model->config().vocab_size));
  Continuation c;
  SequenceStep step{0, prompt};
  for (int64_t i = 0; i < tokens; ++i) {
    m.model->next_logits({&step, 1}, cache, logits.data(), static_cast<int64_t>(logits.size()), *m.pool);
    take(c, logits);
    step.tokens = {&c.ids.back(), 1};
  }
  return c;
}

// What a GPU decodes without the host in between must be the same tokens.
void check_greedy(const LoadedModel& m, std::span<const int32_t> prompt, const Continuation& c) {
  if (!m.model->device()) return;
  KvCache cache = m.model->make_cache(1);
  std::vector<float> logits(static_cast<size_t>(m.model->config().vocab_size));
  const SequenceStep step{0, prompt}, next{0, {c.ids.data(), 1}};
  m.model->next_logits({&step, 1}, cache, logits.data(), static_cast<int64_t>(logits.size()), *m.pool);
  std::vector<int32_t> ids(c.ids.size() - 1);
  m.model->decode_greedy({&next, 1}, cache, static_cast<int64_t>(ids.size()), ids.data(), *m.pool);
  if (!std::equal(ids.begin(), ids.end(), c.ids.begin() + 1))
    fail(ErrorCode::kDevice, "decode_greedy() gives other tokens than next_logits()");
}

int compare(const Options& o, const std::vector<Continuation>& mine, const Json& other) {
  int64_t equal = 0, far = 0;
  for (size_t p = 0; p < mine.size(); ++p) {
    const auto ids = other.at(p).at("ids").get<std::vector<int32_t>>();
    const auto gaps = other.at(p).at("gaps").get<std::vector<double>>();
    const auto [a, b] = std::mismatch(mine[p].ids.begin(), mine[p].ids.end(), ids.begin(), ids.end());
    if (a == mine[p].ids.end()) {
      ++equal;
      continue;
    }
    const size_t at = static_cast<size_t>(a - mine[p].ids.begin());
    const bool near = std::min(mine[p].gaps[at], gaps[at]) <= o.near;
    far += !near;
    std::printf("prompt %zu, token %zu: %d here (ahead by %.4f), %d there (ahead by %.4f)%s\n", p, at, *a,
                mine[p].gaps[at], *b, gaps[at], near ? "" : "  NOT A NEAR TIE");
  }
  std::printf("%lld of %zu prompts equal for %lld tokens\n", static_cast<long long>(equal), mine.size(),
              static_cast<long long>(o.tokens));
  return 100 * equal < 95 * static_cast<int64_t>(mine.size()) || far > 0;
}

int run(const Options& o) {
  const LoadedModel m = load_model(o.model, load_options(o));
  const Tokenizer tokenizer = load_tokenizer(*m.files);
  const std::vector<int32_t> all = tokenizer.encode(read_text_file(o.text, 1 << 28), {});
  const int64_t room = static_cast<int64_t>(all.size()) - o.prompt_tokens;
  if (room < o.prompts)
    fail(ErrorCode::kInvalid, "{} holds too few tokens for {} prompts", o.text, o.prompts);
  std::vector<Continuation> mine;
  for (int64_t p = 0; p < o.prompts; ++p) {
    const std::span<const int32_t> prompt(all.data() + room / o.prompts * p,
                                          static_cast<size_t>(o.prompt_tokens));
    mine.push_back(continue_prompt(m, prompt, o.tokens));
    if (p < 3) check_greedy(m, prompt, mine.back());
  }
  if (!o.out.empty()) {
    Json json = Json::array();
    for (const Continuation& c : mine) json.push_back({{"ids", c.ids}, {"gaps", c.gaps}});
    const std::string text = json.dump();
    File file = File::open_write(o.out);
    file.write_at(0, text.data(), text.size());
    file.close();
  }
  return o.against.empty() ? 0 : compare(o, mine, read_json_file(o.against));
}

}  // namespace
}  // namespace roundel

int main(int argc, char** argv) {
  using namespace roundel;
  CLI::App app{"greedy continuations of prompts cut from a text"};
  Options o;
  app.add_option("model", o.model)->required();
  app.add_option("--text", o.text)->required();
  app.add_option("-o", o.out);
  app.add_option("--against", o.against);
  app.add_option("--prompts", o.prompts);
  app.add_option("--tokens", o.tokens);
  app.add_option("--near", o.near);
  app.add_option("--device", o.device)->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--quantize", o.quantize);
  app.add_option("--threads", o.threads);
  app.add_flag("--float-cache", o.float_cache, "keys and values as float32");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(o);
  } catch (const Error& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    return 1;
  }
}
