#include "model/model_files.h"

#include <algorithm>
#include <unordered_set>

#include "base/log.h"
#include "model/model_checks.h"

namespace roundel {

const StoredWeight* ModelFiles::find_stored(const std::string& module) const {
  for (const StoredWeight& s : stored_weights)
    if (s.module == module) return &s;
  return nullptr;
}

namespace {

[[noreturn]] void refuse_quantized(const ModelFiles& files) {
  fail(ErrorCode::kInvalid,
       "{}: this checkpoint is quantized already ({}); quantizing needs the original weights",
       files.checkpoint.folder().string(), files.stored->format);
}

}  // namespace

ModelFiles open_model(const std::filesystem::path& folder, const Rotation& rotation) {
  Checkpoint checkpoint = Checkpoint::open(folder);
  const std::string where = (folder / "config.json").string();
  const Architecture& architecture = find_architecture(checkpoint.config(), where);
  ModelConfig config = parse_model_config(checkpoint.config(), where);
  // Every layer has tensors; a count beyond them must not cost memory first.
  const int64_t tensors = static_cast<int64_t>(checkpoint.tensor_names().size());
  if (config.layers > tensors)
    fail(ErrorCode::kInvalid, "{}: num_hidden_layers is {}, but the checkpoint holds only {} tensors", where,
         config.layers, tensors);

  ModelFiles files{std::move(checkpoint), std::move(config), &architecture, {}, {}, {}, {}, {}, {}, rotation};
  files.traits = architecture.traits(files.config);
  files.stored = read_quant_config(files.checkpoint.config(), where);
  if (rotation.any()) {
    if (files.stored) refuse_quantized(files);
    rotate_model(files.checkpoint, files.config, files.traits, rotation);
  }
  files.layout = make_layout(files.traits, files.config);
  files.warnings = files.checkpoint.warnings();
  check_model_files(files, where);
  return files;
}

PlanResult plan_model(const ModelFiles& files, const PlanRequest& request) {
  if (files.stored) refuse_quantized(files);
  return make_plan(files.layout.modules, request);
}

}  // namespace roundel
