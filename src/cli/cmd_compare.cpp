#include <cmath>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/thread_pool.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/table.h"
#include "eval/compare.h"

namespace roundel::cli {

void add_compare(CLI::App& app) {
  struct State {
    std::string a, b;
    int threads = 0;
    JsonOutput json;
  };
  auto s = std::make_shared<State>();
  CLI::App* c = app.add_subcommand(
      "compare", "Per-tensor error between two checkpoints: SQNR, largest error, codes at their limits");
  declare_path(*c, s->a, "A", "Reference checkpoint, usually the dense one");
  declare_path(*c, s->b, "B", "Checkpoint to judge");
  c->add_option("--threads", s->threads, "Threads")->check(CLI::Range(1, 1024))->type_name("N");
  s->json.declare(*c);
  c->callback([s] {
    ThreadPool pool(s->threads);
    const auto rows = compare_weights(open_model(s->a), open_model(s->b), pool);
    Json tensors = Json::array();
    Table table({"module", "shape", "A", "B", "SQNR dB", "relative error", "max error", "at limits %"});
    for (const TensorComparison& r : rows) {
      tensors.push_back(
          {{"name", r.module},
           {"shape", {r.rows, r.cols}},
           {"scheme_a", r.scheme_a},
           {"scheme_b", r.scheme_b},
           {"sqnr_db", std::isfinite(r.sqnr_db) ? Json(r.sqnr_db) : Json(nullptr)},
           {"max_error", r.max_error},
           {"relative_error", r.relative_error},
           {"share_at_limits", r.share_at_limits < 0 ? Json(nullptr) : Json(r.share_at_limits)}});
      table.add({r.module, shape_text({r.rows, r.cols}), r.scheme_a, r.scheme_b,
                 std::isfinite(r.sqnr_db) ? fmt::format("{:.2f}", r.sqnr_db) : "-",
                 fmt::format("{:.6f}", r.relative_error), fmt::format("{:.6g}", r.max_error),
                 r.share_at_limits < 0 ? "-" : fmt::format("{:.3f}", 100 * r.share_at_limits)});
    }
    s->json.write({{"tensors", tensors}});
    if (!s->json.only_json()) write_stdout(table.text());
  });
}

}  // namespace roundel::cli
