// What the tests of calibration share: the tiny Llama of the golden set, its calibration tokens, temporary folders.
#pragma once
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/numeric.h"
#include "base/thread_pool.h"
#include "model/loaded_model.h"
#include "quantize/quantize_job.h"
#include "scheme/presets.h"
#include "scheme/scheme_text.h"

namespace roundel {

inline std::filesystem::path golden(const std::string& name) {
  return std::filesystem::path(ROUNDEL_TEST_DATA) / "golden" / name;
}

// The first samples * length tokens of WikiText-2's test split, as the golden set was calibrated.
inline std::vector<std::vector<int32_t>> golden_samples(size_t samples = 16, size_t length = 64) {
  const Tokenizer tokenizer = Tokenizer::load(golden("dense/tiny_llama"));
  const std::string text =
      read_text_file(std::filesystem::path(ROUNDEL_TEST_DATA) / "wikitext-2/wiki.test.raw", 1 << 24);
  const std::vector<int32_t> ids = tokenizer.encode(text.substr(0, 1 << 16));
  std::vector<std::vector<int32_t>> out;
  for (size_t i = 0; i < samples; ++i)
    out.emplace_back(ids.begin() + static_cast<std::ptrdiff_t>(i * length),
                     ids.begin() + static_cast<std::ptrdiff_t>((i + 1) * length));
  return out;
}

// A folder that is removed at the end of the test; `path` itself does not exist at first.
struct TemporaryFolder {
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "roundel_calibration_XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) fail(ErrorCode::kIo, "cannot make {}", name);
    root = name;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(root); }
  std::filesystem::path root;
};

inline Plan plan_for(const ModelFiles& files, const Scheme& scheme) {
  PlanRequest request;
  request.groups = {{"", {"Linear"}, scheme}};
  request.default_ignore = {"lm_head"};
  PlanResult result = plan_model(files, request);
  result.problems.throw_if_any("plan");
  return std::move(result.plan);
}

inline Scheme w4_groups(int64_t size, bool symmetric = true) {
  Scheme scheme = find_preset("W4A16", "test").scheme;
  scheme.weights->group_size = size;
  scheme.weights->symmetric = symmetric;
  return scheme;
}

}  // namespace roundel
