#include "base/cpu_features.h"
#include "base/thread_pool.h"
#include "cli/command.h"
#include "kernels/list.h"
#include "model/architecture.h"
#include "roundel/version.h"
#include "scheme/presets.h"

namespace roundel::cli {

void add_version(CLI::App& app) {
  auto verbose = std::make_shared<bool>(false);
  CLI::App* c = app.add_subcommand(
      "version", "Version; with --verbose also instruction sets, kernels, schemes, architectures");
  c->add_flag("--verbose,-v", *verbose, "Everything");
  c->callback([verbose] {
    std::string text = fmt::format("roundel {}\n", kVersion);
    if (*verbose) {
      text +=
          fmt::format("compiler: {}\ninstruction sets: {}\ncores: {}\ndevices: cpu\nkernels:", __VERSION__,
                      describe(cpu_features()), usable_cores());
      for (const LinearKernel* k : linear_kernels()) text += std::string(" ") + k->name;
      text += fmt::format("\noperations: {} {} {}\nschemes:", vector_ops().name, attention_kernel().name,
                          encode_ops().name);
      for (const Preset& p : presets())
        if (p.refusal.empty()) text += " " + p.name;
      text += "\narchitectures:";
      for (const Architecture* a : architectures()) text += fmt::format(" {} ({})", a->name, a->models);
      text += "\n";
    }
    write_stdout(text);
  });
}

}  // namespace roundel::cli
