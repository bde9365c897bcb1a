#include <nlohmann/json.hpp>

#include "base/file.h"
#include "checkpoint/safetensors.h"
#include "cli/command.h"
#include "cli/options.h"

namespace roundel::cli {
namespace {

// {"input_ids": [[...], ...]} or [[...], ...]: rows of equal length.
std::vector<std::vector<int32_t>> read_rows(const std::string& path, int64_t vocab) {
  Json json = read_json_file(path);
  const Json& rows = json.is_object() && json.contains("input_ids") ? json["input_ids"] : json;
  if (!rows.is_array() || rows.empty())
    fail(ErrorCode::kInvalid, "{}: expected rows of token ids: [[1, 2], [3, 4]]", path);
  std::vector<std::vector<int32_t>> out;
  for (const Json& row : rows) {
    if (!row.is_array() || row.empty())
      fail(ErrorCode::kInvalid, "{}: row {} is not a list of token ids", path, out.size());
    std::vector<int32_t> ids;
    for (const Json& id : row) {
      if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() >= vocab)
        fail(ErrorCode::kInvalid, "{}: row {} holds {}, expected ids from 0 to {}", path, out.size(),
             id.dump(), vocab - 1);
      ids.push_back(id.get<int32_t>());
    }
    if (!out.empty() && ids.size() != out[0].size())
      fail(ErrorCode::kInvalid, "{}: row {} has {} ids, row 0 has {}; rows must be of equal length", path,
           out.size(), ids.size(), out[0].size());
    out.push_back(std::move(ids));
  }
  return out;
}

struct State {
  std::string path, ids, out;
  LoadFlags load;
};

void run(const State& s) {
  const LoadedModel loaded = load_model(s.path, s.load.options());
  const Model& model = *loaded.model;
  const int64_t vocab = model.config().vocab_size;
  const auto rows = read_rows(s.ids, vocab);
  const int64_t tokens = static_cast<int64_t>(rows[0].size());
  if (tokens > model.config().max_position)
    fail(ErrorCode::kInvalid, "{}: rows of {} tokens, the model has {} positions", s.ids, tokens,
         model.config().max_position);
  const TensorSpec spec{"logits", DType::kF32, {static_cast<int64_t>(rows.size()), tokens, vocab}};
  const std::string header = make_safetensors_header({spec}, {});
  const std::string temporary = s.out + ".new";
  File file = File::open_write(temporary);
  file.write_at(0, header.data(), header.size());
  std::vector<float> hidden(static_cast<size_t>(tokens * model.hidden_ld())),
      logits(static_cast<size_t>(tokens * vocab));
  KvCache cache = model.make_cache(1);
  uint64_t at = header.size();
  for (const auto& ids : rows) {
    cache.clear(0);
    const SequenceStep step{0, ids};
    model.forward({&step, 1}, cache, hidden.data(), *loaded.pool);
    model.logits(hidden.data(), tokens, logits.data(), vocab, *loaded.pool);
    file.write_at(at, logits.data(), logits.size() * 4);
    at += logits.size() * 4;
  }
  file.sync();
  file.close();
  std::filesystem::rename(temporary, s.out);
  write_stdout(fmt::format("{}: logits {}\n", s.out, shape_text(spec.shape)));
}

}  // namespace

void add_logits(CLI::App& app) {
  auto s = std::make_shared<State>();
  CLI::App* c =
      app.add_subcommand("logits", "FP32 logits of rows of token ids, to compare with other programs");
  declare_path(*c, s->path);
  c->add_option("--input-ids", s->ids, "JSON: [[ids], [ids]], rows of equal length")
      ->required()
      ->type_name("FILE");
  c->add_option("-o,--output", s->out, "safetensors file with the tensor logits [batch, tokens, vocab]")
      ->required()
      ->type_name("FILE");
  s->load.declare(*c);
  c->callback([s] { run(*s); });
}

}  // namespace roundel::cli
