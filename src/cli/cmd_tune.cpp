#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/process.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/plan_table.h"
#include "cli/table.h"
#include "model/tile_file.h"
#include "model/tile_tuning.h"
#include "tensor/tensor.h"

namespace roundel::cli {
namespace {

struct State {
  std::string path, device = "cuda", cache;
  QuantFlags quantize;
  std::vector<int64_t> tokens{std::begin(kTuneTokens), std::end(kTuneTokens)};
  JsonOutput json;
};

std::filesystem::path file_of(const State& s, const DeviceInfo& info) {
  const std::filesystem::path folder = s.cache.empty() ? user_cache_folder() : std::filesystem::path(s.cache);
  if (folder.empty())
    fail(ErrorCode::kUsage,
         "neither XDG_CACHE_HOME nor HOME says where to keep the result: give --cache DIR");
  return tile_file(folder, info);
}

double gain(const TileResult& r) {
  return r.best_us > 0 ? r.before_us / r.best_us - 1 : 0;
}

std::string table_of(const std::vector<TunedTask>& tuned) {
  Table table({"modules", "shape", "scheme", "tokens", "kernel", "default us", "best us", "gain"});
  for (const TunedTask& t : tuned)
    table.add({t.task.modules, shape_text({t.task.problem.n, t.task.problem.k}), t.task.scheme,
               std::to_string(t.task.use.use.m), t.task.choice.key.kernel,
               fmt::format("{:.2f}", t.result.before_us), fmt::format("{:.2f}", t.result.best_us),
               fmt::format("{:.0f} %", 100 * gain(t.result))});
  return table.text();
}

Json json_of(const std::vector<TunedTask>& tuned) {
  Json rows = Json::array();
  for (const TunedTask& t : tuned) {
    Json row = tile_task_json(t.task);
    row["default_from"] = row["from"];
    row["default_tiles"] = row["tiles"];
    row.erase("from");
    row["tiles"] = t.result.best;
    row["default_us"] = t.result.before_us;
    row["best_us"] = t.result.best_us;
    row["gain"] = gain(t.result);
    row["choices"] = t.result.measured;
    row["wrong"] = t.result.wrong;
    rows.push_back(row);
  }
  return rows;
}

void run(const State& s) {
  const double start = seconds_now();
  const std::optional<int> index = device_index(s.device);
  if (!index)
    fail(ErrorCode::kUsage, "--device {}: tune measures the kernels of a GPU (--device cuda or cuda:N)",
         s.device);
  const std::unique_ptr<Device> gpu = open_device(*index);
  const std::filesystem::path file = file_of(s, gpu->info());
  const ModelFiles files = open_model(s.path, s.quantize.rotation());
  for (const std::string& w : files.warnings) log_warn("{}", w);
  Plan plan = files.stored_plan;
  if (s.quantize.any()) {
    PlanResult result = plan_model(files, s.quantize.request("--quantize"));
    for (const std::string& w : result.warnings) log_warn("{}", w);
    result.problems.throw_if_any("cannot quantize " + s.path + " as asked");
    plan = std::move(result.plan);
  }
  const std::vector<TunedTask> tuned = tune_tiles(*gpu, tile_tasks(files, plan, gpu->info(), s.tokens));
  const size_t rows = tuned.empty() ? 0 : save_tuned(file, gpu->info(), tuned);
  s.json.write({{"gpu", gpu->info().name},
                {"compute_capability", fmt::format("{}.{}", gpu->info().major, gpu->info().minor)},
                {"file", tuned.empty() ? Json(nullptr) : Json(file.string())},
                {"rows", json_of(tuned)},
                {"seconds", seconds_now() - start}});
  if (s.json.only_json()) return;
  if (tuned.empty())
    return write_stdout(
        "nothing to tune: no linear of this model has tiles to choose on this GPU (quantized weights on "
        "compute "
        "capability 9.0 have; --quantize NAME says how the model will be loaded)\n");
  write_stdout(table_of(tuned) +
               fmt::format("{} of {} products are faster; {} rows are in {} ({:.0f} s)\n",
                           std::count_if(tuned.begin(), tuned.end(),
                                         [](const TunedTask& t) { return gain(t.result) > 0; }),
                           tuned.size(), rows, file.string(), seconds_now() - start));
}

}  // namespace

void add_tune(CLI::App& app) {
  auto s = std::make_shared<State>();
  CLI::App* c = app.add_subcommand(
      "tune", "Measure how this GPU's kernels best divide a model's products; later loads use the result");
  declare_path(*c, s->path);
  c->add_option("--device", s->device, "The GPU to measure: cuda, cuda:1")
      ->type_name("DEVICE")
      ->capture_default_str();
  c->add_option("--tokens", s->tokens,
                "Numbers of tokens (of a prompt, or sequences that decode together) to measure")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(int64_t{1}, kMostTuneTokens))
      ->type_name("N,N...")
      ->capture_default_str();
  c->add_option("--cache", s->cache,
                "Folder for the result (default: $XDG_CACHE_HOME/roundel or ~/.cache/roundel)")
      ->envname("ROUNDEL_CACHE")
      ->type_name("DIR");
  s->quantize.declare(*c, "--quantize");
  s->json.declare(*c);
  c->callback([s] { run(*s); });
}

}  // namespace roundel::cli
