#include <nlohmann/json.hpp>

#include "base/log.h"
#include "cli/calibration_flags.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/plan_table.h"
#include "kernels/device_list.h"
#include "model/tile_file.h"
#include "model/tile_tuning.h"
#include "quantize/recipe_plan.h"

namespace roundel::cli {

void add_plan(CLI::App& app) {
  struct State {
    std::string path, recipe, device = "cpu", cache;
    QuantFlags quant;
    std::string on_load;
    bool explain = false, int8_activations = false;
    JsonOutput json;
  };
  auto s = std::make_shared<State>();
  CLI::App* c = app.add_subcommand("plan", "Show what every module gets, and all problems, without doing it");
  declare_path(*c, s->path);
  s->quant.declare(*c, "--scheme,--quantize");
  c->add_option("--recipe", s->recipe, "llm-compressor recipe instead of flags")->type_name("FILE");
  c->add_option("--device", s->device, "Where it would run: cpu, cuda or cuda:N")->type_name("DEVICE");
  c->add_option("--cache", s->cache, "Folder of what `roundel tune` measured")
      ->envname("ROUNDEL_CACHE")
      ->type_name("DIR");
  declare_int8_activations(*c, s->int8_activations);
  c->add_flag("--explain", s->explain,
              "Why better kernels refused, for every kind of module; on a GPU also "
              "where the tiles of its linears come from");
  s->json.declare(*c);
  c->callback([s, c] {
    const std::optional<int> index = device_index(s->device);
    const std::unique_ptr<Device> gpu = index ? open_device(*index) : nullptr;
    const ModelFiles files = open_model(s->path, s->quant.rotation());
    for (const std::string& w : files.warnings) log_warn("{}", w);
    PlanResult result;
    if (!s->recipe.empty()) {
      result = plan_recipe(files, recipe_file(s->recipe, s->quant, *c)).result;
    } else if (s->quant.any()) {
      result = plan_model(files, s->quant.request("--scheme", true));
    } else {
      result.plan = files.stored_plan;
    }
    if (s->int8_activations) require_int8_activations(result.plan, s->path);
    for (const std::string& w : result.warnings) log_warn("{}", w);
    Json json = plan_json(result, gpu.get());
    std::string text = plan_text(result.plan, s->explain, gpu.get());
    if (gpu && s->explain && result.problems.list().empty()) {
      use_tuned_tiles(*gpu, s->cache);
      const std::vector<TileTask> tasks = tile_tasks(files, result.plan, gpu->info(), kTuneTokens);
      json["tiles"] = Json::array();
      for (const TileTask& t : tasks) json["tiles"].push_back(tile_task_json(t));
      text += tile_table(tasks);
    }
    s->json.write(json);
    if (!s->json.only_json()) write_stdout(text);
    result.problems.throw_if_any("the plan has problems");
  });
}

}  // namespace roundel::cli
