#include "base/log.h"
#include "base/thread_pool.h"
#include "checkpoint/gguf/import.h"
#include "cli/command.h"

namespace roundel::cli {

void add_import(CLI::App& app) {
  struct State {
    std::string file, out;
    GgufImportOptions options;
    int threads = 0;
  };
  auto s = std::make_shared<State>();
  CLI::App* c = app.add_subcommand("import", "Turn a GGUF file into a Hugging Face checkpoint in BF16");
  c->add_option("FILE", s->file, "GGUF file (F32 F16 BF16 Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Q4_K Q5_K Q6_K)")
      ->required();
  c->add_option("-o,--output", s->out, "Folder to write; must not exist yet")->required()->type_name("DIR");
  c->add_flag("--force", s->options.force, "Replace an existing checkpoint");
  c->add_option("--threads", s->threads, "Threads")->check(CLI::Range(1, 1024))->type_name("N");
  c->callback([s] {
    ThreadPool pool(s->threads);
    const GgufImportReport r = import_gguf(s->file, s->out, s->options, pool);
    std::string types;
    for (const auto& [type, count] : r.source_types)
      types += fmt::format("{}{} {}", types.empty() ? "" : ", ", count, type);
    write_stdout(fmt::format("{}: {}, {} tensors ({}), {} written in {:.1f} s\n", s->out, r.architecture,
                             r.tensors, types, format_bytes(r.bytes_out), r.seconds));
  });
}

}  // namespace roundel::cli
