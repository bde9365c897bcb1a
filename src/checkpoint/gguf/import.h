// GGUF file -> Hugging Face checkpoint folder in BF16, tokenizer and chat template included. Weights are dequantized in
// FP32 and rounded once, to nearest even. Memory stays bounded: a few megabytes a thread, besides the tokenizer.
//
//   GgufImportReport report = import_gguf("model.gguf", "model", {}, pool);
//   // model/: config.json generation_config.json model.safetensors tokenizer.json tokenizer_config.json
//   //         special_tokens_map.json
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "base/thread_pool.h"

namespace roundel {

struct GgufImportOptions {
  bool force = false;  // replace an existing folder that holds a checkpoint
  uint64_t max_shard_bytes = 5ull << 30;
};

struct GgufImportReport {
  std::string architecture;  // "LlamaForCausalLM"
  int64_t tensors = 0;
  uint64_t bytes_out = 0;                       // of the tensors
  std::map<std::string, int64_t> source_types;  // "Q4_1" -> number of tensors
  double seconds = 0;
};

// Everything about the file is checked before `out` is touched, and `out` is complete or absent. Throws Error: kInvalid
// for a damaged file, kUnsupported for an architecture, tensor type or tokenizer that is not imported (naming it), and
// what OutputFolder and TensorWriter throw.
GgufImportReport import_gguf(const std::filesystem::path& file, const std::filesystem::path& out,
                             const GgufImportOptions& options, ThreadPool& pool);

}  // namespace roundel
