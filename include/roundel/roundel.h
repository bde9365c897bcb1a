// Roundel as a library: quantize a checkpoint, load one, generate text, measure what quantization cost.
//
//   using namespace roundel::api;
//   quantize("SmolLM2", "SmolLM2-W4", {.scheme = "W4A16:g64"});
//   const Model dense = load("SmolLM2"), model = load("SmolLM2-W4");
//   std::cout << model.generate("Once upon a time", {.max_tokens = 32}).text << "\n";
//   std::cout << model.evaluate(text, {.every = 8}, &dense).against->kl_mean << "\n";
//
// Folders are Hugging Face checkpoints (config.json, safetensors, tokenizer.json). What the options mean is said at length
// in docs/cli.md; they have the same names and defaults. Bad options, files and devices throw roundel::Error (error.h).
// Messages and progress go to stderr (set_log_level).
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "roundel/error.h"
#include "roundel/version.h"

namespace roundel::api {

// ---- what becomes what ----

struct Quantization {
  std::string scheme;      // of all linear layers: "W8A8", "W4A16:g64:asym"; "": the rules say all
  int64_t group_size = 0;  // of schemes with groups that name none; -1: a scale for each row; 0: 128
  // "TARGET=SCHEME": "re:.*down_proj=W8A16". Name before pattern before class; among equals the later rule wins.
  std::vector<std::string> rules;
  std::vector<std::string> ignore;  // targets that stay as they are
  bool ignore_lm_head = true;       // lm_head stays as it is
  // When a group does not divide the columns: error, skip, pad or channel.
  std::string on_indivisible = "error";
  std::filesystem::path recipe;  // of llm-compressor, instead of all above but on_indivisible

  bool empty() const { return scheme.empty() && rules.empty() && recipe.empty(); }
};

struct PlannedModule {
  std::string name;
  int64_t rows = 0, cols = 0;  // [out, in]
  std::string scheme;          // "W4A16 g64", or the dtype of a module that stays dense: "BF16"
  std::string format;          // storage format: "pack-quantized", "dense"
  std::string kernel;          // that would run it on this machine
  std::string note;            // why it is dense, or was changed
  uint64_t bytes = 0;          // stored
};

struct PlanReport {
  std::vector<PlannedModule> modules;  // in the model's order
  uint64_t total_bytes = 0;
  double bits_per_weight = 0;         // of the quantized modules, scales and zero points included
  std::vector<std::string> problems;  // what quantize() and load() would refuse
  std::vector<std::string> warnings;
};

// What every module would get, without doing it; with an empty Quantization: what the checkpoint is. Reads no weights.
PlanReport plan(const std::filesystem::path& folder, const Quantization& how = {});

// ---- to disk ----

struct QuantizeOptions {
  int threads = 0;             // 0: one for each usable core
  bool force = false;          // replace an existing checkpoint at the destination
  bool resume = false;         // take up an interrupted run of the same job
  bool allow_nan = false;      // NaN and infinities in weights are a warning instead of an error
  bool measure_error = false;  // fill in relative_error
  uint64_t max_shard_bytes = 5'000'000'000;  // of an output file; at least 1'000'000
};

struct QuantizedModule {
  std::string name, scheme, format;
  int64_t rows = 0, cols = 0;
  std::optional<double> relative_error;  // sqrt(sum (w - q)^2 / sum w^2)
};

struct QuantizeReport {
  std::vector<QuantizedModule> modules;
  std::vector<std::pair<std::string, std::string>> skipped;  // linear layers that stay dense: name, reason
  uint64_t input_bytes = 0, output_bytes = 0;                // of the tensors
  double bits_per_weight = 0;                                // of the quantized modules
  double model_bits_per_weight = 0;                          // of everything
  double seconds = 0;
  bool resumed = false;
};

// Writes `source`, quantized, to `destination` in the compressed-tensors format: complete or not at all, and the same bytes
// for any number of threads. Memory does not depend on the model's size.
QuantizeReport quantize(const std::filesystem::path& source, const std::filesystem::path& destination,
                        const Quantization& how, const QuantizeOptions& options = {});

// ---- running ----

struct GenerateOptions {
  int64_t max_tokens = 128;
  // Left open: as the model's generation_config.json says, else greedy.
  std::optional<double> temperature;                      // 0: greedy
  std::optional<double> top_p;                            // smallest set of tokens with this probability
  std::optional<int64_t> top_k;                           // 0: no limit
  uint64_t seed = 0;                                      // same seed, same text
  std::function<void(const std::string& piece)> on_text;  // as the text comes, whole characters
  std::optional<double> min_p;                            // least share of the likeliest token's probability
};

struct Generation {
  std::string text;
  std::vector<int32_t> ids;  // new tokens, without the stop token
  std::string finish;        // "stop", "length" (max_tokens) or "context" (the model's positions are used up)
  int64_t prompt_tokens = 0;
  double prefill_seconds = 0, decode_seconds = 0;
};

struct Message {
  std::string role;  // "system", "user", "assistant"
  std::string content;
};

struct EvalOptions {
  int64_t window = 512;  // tokens in a window; windows do not overlap, the incomplete last one is left out
  int64_t every = 1;     // windows 0, K, 2K, ...
  int64_t limit_windows = 0;  // 0: all
};

struct Divergence {
  double baseline_perplexity = 0;
  double kl_mean = 0, kl_p99 = 0;  // KL(baseline || model) in nats at every predicted token
  double top1_agreement = 0;       // share of tokens where both have the same favourite
};

struct EvalReport {
  double perplexity = 0, mean_nll = 0;  // exp(mean_nll); natural logarithm
  int64_t tokens = 0, windows = 0;      // predicted tokens: all but the first of each window
  double seconds = 0, tokens_per_second = 0;
  std::optional<Divergence> against;  // with a baseline
};

struct LoadOptions {
  int threads = 0;        // 0: one for each usable core
  Quantization quantize;  // of a dense checkpoint while it is loaded; empty: as stored
  std::filesystem::path
      cache;  // folder for packed weights: later loads map what the first wrote; empty: none
  bool float_kv_cache = false;  // keys and values as float32, in twice the memory, instead of bfloat16
};

struct ModelInfo {
  std::string architecture;  // "LlamaForCausalLM"
  int64_t layers = 0, hidden_size = 0, vocab_size = 0, max_position = 0;
  uint64_t weight_bytes = 0;  // packed, in memory
  double load_seconds = 0;
};

// A loaded model with its threads and its tokenizer. One call at a time on one object; several objects are independent.
class Model {
 public:
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;
  ~Model();

  // Continues a text; the tokenizer adds its begin token.
  Generation generate(const std::string& prompt, const GenerateOptions& options = {}) const;
  // Answers the last of the messages, through the chat template of the folder.
  Generation chat(const std::vector<Message>& messages, const GenerateOptions& options = {}) const;
  // Perplexity of a text that is tokenised whole, without special tokens. The baseline must have the same tokenizer.
  EvalReport evaluate(const std::string& text, const EvalOptions& options = {},
                      const Model* baseline = nullptr) const;

  std::vector<int32_t> encode(const std::string& text, bool add_special = false) const;
  std::string decode(const std::vector<int32_t>& ids, bool skip_special = true) const;
  ModelInfo info() const;

 private:
  friend Model load(const std::filesystem::path& folder, const LoadOptions& options);
  struct Impl;
  explicit Model(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Checks the whole folder, then reads the weights. The float model is never held when it is quantized on the way.
Model load(const std::filesystem::path& folder, const LoadOptions& options = {});

// ---- the process ----

enum class LogLevel { kDebug, kInfo, kWarn, kError };
// Messages below the level are not written; progress is shown up to kInfo, on a terminal. kInfo unless set.
void set_log_level(LogLevel level);

// Asks all running calls, from any thread or a signal handler, to end with Error(kInterrupted); quantize() with `resume`
// keeps what the next run needs. Calls that begin later end too, until interrupt(false).
void interrupt(bool on = true);

}  // namespace roundel::api
