// Calibration data: a text or a JSONL file cut into samples of tokens.
//
// Plain text: the file is one string, tokenised without special tokens; sample i holds the tokens [n i, n i + n).
// JSONL (.jsonl, .ndjson, .json): one object a line with `text` (a string), or `messages` (a conversation, to which the chat
// template is applied); each line is tokenised without special tokens, cut to n tokens, and is one sample. `text` wins where
// a line has both. Lines without tokens are left out and counted.
// Samples come in the order of the file. With a seed they are drawn from the whole file without repetition: the order is a
// Fisher-Yates shuffle with random_u64(seed, i) of base/rng.h.
//
//   CalibrationData data = read_calibration_data({.file = "wiki.txt", .samples = 128}, files, load_tokenizer(files));
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace roundel {

class Tokenizer;

struct CalibrationSource {
  std::filesystem::path file;
  int64_t samples = 512;  // at most; fewer in the file are fewer used
  int64_t seq_len = 512;  // tokens of a sample
  std::optional<uint64_t> seed;
};

struct CalibrationData {
  std::vector<std::vector<int32_t>> samples;  // each of 1 to seq_len ids below the vocabulary size
  CalibrationSource source;
  std::string kind;          // "text" or "jsonl"
  int64_t tokens = 0;        // of all samples
  int64_t cut_lines = 0;     // jsonl: longer than seq_len
  int64_t empty_lines = 0;   // jsonl: without tokens, left out
  uint64_t fingerprint = 0;  // of the ids and where samples end: the same data give the same number
};

// What the tokens must fit, and where the chat template is.
struct CalibrationLimits {
  int64_t vocab_size = 0;
  int64_t max_position = 0;
  std::filesystem::path template_folder;
  uint64_t max_text_bytes = 128ull << 20;  // of a plain text, in memory at a time
  uint64_t max_line_bytes = 16ull << 20;   // of a JSONL line
};

// Error(kInvalid, kLimit, kNotFound) names file, line and field, and what to do: missing, empty or binary file, fewer tokens
// than one sample, a line that is not such an object or too long, a template that refuses, ids beyond the vocabulary.
CalibrationData read_calibration_data(const CalibrationSource& source, const Tokenizer& tokenizer,
                                      const CalibrationLimits& limits);

// "wiki.txt: 128 samples, 65536 tokens (text, in order)".
std::string describe(const CalibrationData& data);
// The same as one line of JSON, for recipe.yaml and for the job's key; with the fingerprint of the tokens.
std::string calibration_record(const CalibrationData& data);

}  // namespace roundel
