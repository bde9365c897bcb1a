#include "model/loaded_model.h"

#include "base/log.h"
#include "base/process.h"
#include "kernels/device_list.h"
#include "model/tile_file.h"

namespace roundel {

LoadedModel load_model(const std::filesystem::path& folder, const LoadOptions& options) {
  const double start = seconds_now();
  LoadedModel m;
  std::unique_ptr<Device> device =
      options.gpu ? open_device(*options.gpu) : nullptr;  // says at once what is wrong
  if (device) use_tuned_tiles(*device, options.cache);
  m.files = std::make_unique<ModelFiles>(open_model(folder, options.rotation));
  for (const std::string& w : m.files->warnings) log_warn("{}", w);
  if (options.quantize) {
    PlanResult result = plan_model(*m.files, *options.quantize);
    for (const std::string& w : result.warnings) log_warn("{}", w);
    result.problems.throw_if_any("cannot quantize " + folder.string() + " as asked");
    m.plan = std::move(result.plan);
  } else {
    m.plan = m.files->stored_plan;
  }
  if (options.int8_activations) require_int8_activations(m.plan, folder);
  m.pool = std::make_unique<ThreadPool>(options.threads);
  m.model = device ? Model::load(*m.files, m.plan, *m.pool, std::move(device))
                   : Model::load(*m.files, m.plan, *m.pool, options.cache);
  m.model->set_kv_type(options.kv_type);
  m.load_seconds = seconds_now() - start;
  return m;
}

void require_int8_activations(Plan& plan, const std::filesystem::path& folder) {
  if (use_int8_activations(plan) > 0) return;
  fail(ErrorCode::kUsage,
       "--int8-activations: no linear module of {} has integer weights and activations that are not "
       "quantized, "
       "as W4A16 and W8A16 have; leave the option out",
       folder.string());
}

Tokenizer load_tokenizer(const ModelFiles& files) {
  Tokenizer tokenizer = Tokenizer::load(files.checkpoint.folder());
  if (tokenizer.id_limit() > files.config.vocab_size)
    fail(
        ErrorCode::kInvalid,
        "{}: token \"{}\" has the id {}, but config.json says vocab_size {}: the embedding has no row for it",
        (files.checkpoint.folder() / "tokenizer.json").string(), tokenizer.token(tokenizer.id_limit() - 1),
        tokenizer.id_limit() - 1, files.config.vocab_size);
  return tokenizer;
}

}  // namespace roundel
