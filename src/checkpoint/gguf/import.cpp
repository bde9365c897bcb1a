#include "checkpoint/gguf/import.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/process.h"
#include "checkpoint/gguf/config_export.h"
#include "checkpoint/gguf/convert.h"
#include "checkpoint/gguf/model.h"
#include "checkpoint/gguf/reader.h"
#include "checkpoint/gguf/tensor_names.h"
#include "checkpoint/gguf/tokenizer_export.h"
#include "checkpoint/gguf/vocab.h"
#include "checkpoint/output_folder.h"
#include "checkpoint/quoted.h"
#include "checkpoint/tensor_writer.h"

namespace roundel {
namespace {

namespace fs = std::filesystem;

// --force replaces `out`: a source inside it would be lost.
void check_source_outside(const fs::path& file, const fs::path& out) {
  std::error_code error;
  for (fs::path p = fs::weakly_canonical(file, error); !error && p.has_relative_path(); p = p.parent_path()) {
    if (same_file(p, out))
      fail(ErrorCode::kInvalid,
           "{}: the output folder {} holds the source or is the source; choose another folder", file.string(),
           out.string());
  }
}

// Metadata about the model or the tokenizer that nothing here has read: said, not silently dropped.
void warn_of_unread(const GgufMetadata& metadata, const GgufModel& model) {
  // Known, and without a place in the files written: fill-in-the-middle tokens and similar hints.
  constexpr const char* kHints[] = {
      "tokenizer.ggml.fim_",    "tokenizer.ggml.prefix_",       "tokenizer.ggml.suffix_",
      "tokenizer.ggml.middle_", "tokenizer.ggml.seperator_",    "tokenizer.ggml.mask_",
      "tokenizer.ggml.cls_",    "tokenizer.ggml.add_sep_token", "tokenizer.ggml.scores",
      "tokenizer.ggml.merges",  "tokenizer.ggml.pre",           "tokenizer.ggml.token_type_count"};
  for (const std::string& prefix : {std::string(model.arch->name) + ".", std::string("tokenizer.")}) {
    for (const std::string& key : metadata.unread(prefix)) {
      const bool hint = std::any_of(std::begin(kHints), std::end(kHints),
                                    [&](const char* h) { return key.starts_with(h); });
      if (!hint)
        log_warn("{}: {} is not understood and has no effect on the checkpoint", metadata.file(),
                 shortened(key));
    }
  }
}

struct TextFile {
  const char* name;
  std::string text;
};

std::vector<TextFile> make_texts(const GgufModel& model, const GgufVocab& vocab, const std::string& file) {
  std::vector<TextFile> texts;
  texts.push_back({"config.json", dump_json(export_config(model, vocab))});
  texts.push_back({"generation_config.json", dump_json(export_generation_config(vocab))});
  texts.push_back({"tokenizer.json", export_tokenizer(vocab, file)});
  texts.push_back({"tokenizer_config.json", export_tokenizer_config(vocab, file)});
  texts.push_back({"special_tokens_map.json", export_special_tokens_map(vocab)});
  return texts;
}

}  // namespace

GgufImportReport import_gguf(const fs::path& file, const fs::path& out, const GgufImportOptions& options,
                             ThreadPool& pool) {
  const double start = seconds_now();
  const FileBytes bytes(File::open_read(file));
  const GgufFile gguf = read_gguf(bytes);
  const GgufModel model = read_gguf_model(gguf, bytes);
  const std::vector<ImportedTensor> tensors = plan_gguf_tensors(gguf, model);
  const GgufVocab vocab = read_gguf_vocab(gguf, model);
  const std::vector<TextFile> texts = make_texts(model, vocab, bytes.name());
  warn_of_unread(gguf.metadata, model);

  std::vector<TensorSpec> specs;
  for (const ImportedTensor& t : tensors) specs.push_back(t.spec);
  GgufImportReport report;
  report.architecture = model.arch->hf_class;
  report.tensors = static_cast<int64_t>(tensors.size());
  report.bytes_out = TensorWriter::total_bytes(specs);
  for (const ImportedTensor& t : tensors) ++report.source_types[std::string(t.source->type->name)];

  uint64_t needed = report.bytes_out;
  for (const TextFile& t : texts) needed = checked_add(needed, t.text.size(), "output size");
  check_source_outside(file, out);
  OutputFolder folder = OutputFolder::create(out, {.bytes_needed = needed, .force = options.force});
  for (const TextFile& t : texts) write_text_file(folder.work() / t.name, t.text);
  TensorWriter writer(folder.work(), specs, {.max_shard_bytes = options.max_shard_bytes});
  Progress progress("import", report.bytes_out, "B");
  for (const ImportedTensor& t : tensors) {
    throw_if_interrupted();
    convert_to_bf16(t, bytes, writer, pool);
    progress.advance(t.spec.bytes());
  }
  writer.finish();
  folder.commit();
  report.seconds = seconds_now() - start;
  return report;
}

}  // namespace roundel
