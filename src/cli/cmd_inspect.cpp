#include <map>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/table.h"
#include "model/model_files.h"

namespace roundel::cli {
namespace {

struct SchemeTotal {
  int64_t modules = 0;
  double weights = 0, bits = 0;
};

struct Summary {
  std::map<std::string, SchemeTotal> schemes;  // described scheme + format
  double parameters = 0;
};

Summary summarize(const ModelFiles& files) {
  Summary s;
  for (const PlanEntry& e : files.stored_plan.entries) {
    const double weights = static_cast<double>(e.module.rows) * static_cast<double>(e.module.cols);
    s.parameters += weights;
    const std::string name = e.scheme.weights ? describe(e.scheme) + " (" + e.scheme.format + ")"
                                              : std::string(dtype_name(e.module.dtype));
    SchemeTotal& t = s.schemes[name];
    t.modules += 1;
    t.weights += weights;
    t.bits += e.scheme.weights ? stored_bits(e.scheme, e.module.rows, e.module.cols, e.module.dtype).total()
                               : weights * 8.0 * static_cast<double>(dtype_size(e.module.dtype));
  }
  for (const VectorParam& v : files.layout.vectors) s.parameters += static_cast<double>(v.size);
  return s;
}

Json to_json_summary(const ModelFiles& files, const Summary& s) {
  Json schemes = Json::array(), names = Json::array();
  for (const auto& [name, t] : s.schemes)
    schemes.push_back({{"scheme", name},
                       {"modules", t.modules},
                       {"weights", t.weights},
                       {"bits_per_weight", t.bits / t.weights}});
  for (const Checkpoint::FileInfo& f : files.checkpoint.files())
    names.push_back({{"name", f.name}, {"bytes", f.size}, {"tensors", f.tensors.size()}});
  Json json = {
      {"architecture", files.config.architecture},
      {"model_type", files.config.model_type},
      {"parameters", s.parameters},
      {"layers", files.config.layers},
      {"hidden_size", files.config.hidden_size},
      {"vocab_size", files.config.vocab_size},
      {"tied_embeddings", files.config.tie_word_embeddings},
      {"format", files.stored ? files.stored->format : "dense"},
      {"bits_per_weight", 8.0 * static_cast<double>(files.checkpoint.total_tensor_bytes()) / s.parameters},
      {"schemes", schemes},
      {"files", names},
      {"total_bytes", files.checkpoint.total_tensor_bytes()},
      {"warnings", files.warnings},
      {"problems", Json::array()}};
  return json;
}

}  // namespace

void add_inspect(CLI::App& app) {
  struct State {
    std::string path;
    JsonOutput json;
  };
  auto s = std::make_shared<State>();
  CLI::App* c = app.add_subcommand("inspect", "Say what a checkpoint is, after validating all of it");
  declare_path(*c, s->path);
  s->json.declare(*c);
  c->callback([s] {
    const ModelFiles files = open_model(s->path);
    for (const std::string& w : files.warnings) log_warn("{}", w);
    const Summary sum = summarize(files);
    s->json.write(to_json_summary(files, sum));
    if (s->json.only_json()) return;
    const ModelConfig& m = files.config;
    std::string text = fmt::format(
        "{}  {} ({}), {:.4g} M parameters, {} layers, hidden {}, heads {}/{} of {}, vocabulary {}{}\n",
        s->path, m.architecture, m.model_type, sum.parameters / 1e6, m.layers, m.hidden_size, m.heads,
        m.kv_heads, m.head_dim, m.vocab_size, m.tie_word_embeddings ? ", tied embeddings" : "");
    Table table({"scheme", "modules", "weights", "bits/weight"});
    for (const auto& [name, t] : sum.schemes)
      table.add({name, std::to_string(t.modules), fmt::format("{:.4g} M", t.weights / 1e6),
                 fmt::format("{:.3f}", t.bits / t.weights)});
    text += table.text();
    const uint64_t bytes = files.checkpoint.total_tensor_bytes();
    text +=
        fmt::format("{} in {} file{}, {:.3f} bits per parameter; no problems found\n", format_bytes(bytes),
                    files.checkpoint.files().size(), files.checkpoint.files().size() == 1 ? "" : "s",
                    8.0 * static_cast<double>(bytes) / sum.parameters);
    write_stdout(text);
  });
}

}  // namespace roundel::cli
