#include "model/tile_tuning.h"

#include <algorithm>

#include "base/log.h"
#include "base/process.h"
#include "model/device_matrices.h"
#include "model/tile_file.h"

namespace roundel {
namespace {

// Where in a layer a matrix stands decides what it does besides the product (model/device_pass.cpp).
enum class Place { kAfterNorm, kToResidual, kHead };

std::string names_of(const std::vector<LinearSpec>& specs) {
  std::string text = specs.front().name;
  for (size_t i = 1; i < specs.size(); ++i) text += ", " + specs[i].name.substr(specs[i].name.rfind('.') + 1);
  return text;
}

class Finder {
 public:
  Finder(const ModelFiles& files, const Plan& plan, const DeviceInfo& info, std::span<const int64_t> tokens)
      : files_(files), plan_(plan), info_(info), tokens_(tokens) {}

  std::vector<TileTask> find() {
    for (int64_t i = 0; i < files_.config.layers; ++i) {
      const std::string p = "model.layers." + std::to_string(i) + ".";
      add(p + "self_attn.", qkv_modules(files_.traits), Place::kAfterNorm, false);
      add(p + "self_attn.", {"o_proj"}, Place::kToResidual, false);
      add(p + "mlp.", gate_up_modules(files_.traits), Place::kAfterNorm, true);
      add(p + "mlp.", {"down_proj"}, Place::kToResidual, false);
    }
    add("", {files_.config.tie_word_embeddings ? "model.embed_tokens" : "lm_head"}, Place::kHead, false);
    return std::move(tasks_);
  }

 private:
  void add(const std::string& prefix, const std::vector<std::string>& names, Place place, bool alternating) {
    const auto matrices = device_matrices(plan_, files_.config, prefix, names, alternating);
    for (const DeviceMatrixParts& m : matrices)
      for (const int64_t tokens : tokens_) add(m, place, tokens, matrices.size() == 1);
  }

  void add(const DeviceMatrixParts& m, Place place, int64_t tokens, bool alone) {
    using As = DeviceInputForm::As;
    const Scheme& scheme = m.specs.front().scheme;
    TileTask t;
    t.problem = merged_problem(m.specs);
    const DeviceLinearKernel& kernel = choose_device_linear(t.problem, info_);
    if (!kernel.tile_choice) return;
    const DeviceInputForm form = device_input_form(scheme, t.problem, kernel, tokens, info_);
    const bool plain = !scheme.output;
    const bool floats = activation_form(scheme).kind == ActForm::Kind::kFloat &&
                        (!scheme.weights || scheme.weights->actorder == ActOrder::kNone);
    TileCase& c = t.use;
    c.form = form.form;
    if (c.form.kind == DeviceForm::Kind::kInt8Static) c.form.scale = 0.01f;
    c.use.m = tokens;
    c.use.input = kernel_input(form);
    const bool alternating = m.rows == DeviceLinear::Rows::kAlternating;
    c.use.gated = place == Place::kAfterNorm && alternating && plain && files_.config.activation == "silu" &&
                  device_fuses_gate(t.problem, kernel, form, tokens, info_);
    c.norm =
        place == Place::kAfterNorm && alone && floats && plain && kernel.fuses_norm(t.problem, tokens, info_);
    c.add = place == Place::kToResidual && plain && form.as != As::kBytes &&
            kernel.adds(t.problem, tokens, info_);
    c.use.whole = tokens > kSmallTokens || c.use.gated || c.norm || c.add || !plain || place == Place::kHead;
    t.choice = kernel.tile_choice(t.problem, c.use, info_);
    if (t.choice.key.kernel.empty()) return;
    for (const TileTask& old : tasks_)
      if (old.choice.key == t.choice.key) return;
    t.modules = names_of(m.specs);
    t.scheme = describe(scheme);
    tasks_.push_back(std::move(t));
  }

  const ModelFiles& files_;
  const Plan& plan_;
  const DeviceInfo& info_;
  std::span<const int64_t> tokens_;
  std::vector<TileTask> tasks_;
};

}  // namespace

std::vector<TileTask> tile_tasks(const ModelFiles& files, const Plan& plan, const DeviceInfo& info,
                                 std::span<const int64_t> tokens) {
  return Finder(files, plan, info, tokens).find();
}

std::vector<TunedTask> tune_tiles(Device& device, const std::vector<TileTask>& tasks) {
  std::vector<TunedTask> tuned;
  Progress progress("tune", tasks.size(), "products");
  std::unique_ptr<TileBench> bench;
  std::string modules;
  for (const TileTask& t : tasks) {
    throw_if_interrupted();
    if (!bench || modules != t.modules) {
      bench.reset();  // its memory first
      bench = std::make_unique<TileBench>(device, t.problem);
      modules = t.modules;
    }
    bench->prepare(t.use);
    tuned.push_back({t, bench->tune()});
    const TileResult& r = tuned.back().result;
    if (r.wrong > 0)
      log_warn("{}, {} tokens: {} of {} choices of tiles of {} gave another result and were left out",
               t.modules, t.use.use.m, r.wrong, r.measured, t.choice.key.kernel);
    progress.advance(1);
  }
  return tuned;
}

size_t save_tuned(const std::filesystem::path& file, const DeviceInfo& info,
                  const std::vector<TunedTask>& tuned) {
  TileTable table = read_tiles(file, info).value_or(TileTable{});
  for (const TunedTask& t : tuned)
    table.put({t.task.choice.key, t.result.best, t.result.best_us, t.result.before_us});
  write_tiles(file, info, table);
  return table.rows.size();
}

const char* tile_source_name(TileSource source) {
  switch (source) {
    case TileSource::kTuned:
      return "tuned";
    case TileSource::kShipped:
      return "shipped";
    case TileSource::kHeuristic:
      break;
  }
  return "heuristic";
}

}  // namespace roundel
