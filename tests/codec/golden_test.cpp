// Encoding, storing and loading against files that the original libraries wrote (tests/data/golden). With
// ROUNDEL_GOLDEN=<full set> over all of its cases.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/numeric.h"
#include "scheme/plan.h"
#include "scheme/quant_config.h"
#include "tests/codec/codec_test_util.h"

namespace roundel {
namespace {

namespace fs = std::filesystem;

struct Case {
  std::string name;
  fs::path folder, dense;  // dense: model.safetensors of the source; empty when there is none
  bool rtn = false;        // plain rounding of the dense weights
};

bool starts_with_any(const std::string& name, std::initializer_list<const char*> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(), [&](const char* p) { return name.starts_with(p); });
}

std::vector<Case> cases() {
  const char* full = std::getenv("ROUNDEL_GOLDEN");
  const fs::path root = full && *full ? fs::path(full) : fs::path(ROUNDEL_TEST_DATA) / "golden";
  std::vector<Case> list;
  for (const fs::path& where : {root, root / "layers"}) {
    if (!fs::exists(where)) continue;
    for (const auto& entry : fs::directory_iterator(where)) {
      if (!fs::exists(entry.path() / "model.safetensors")) continue;
      Case c{entry.path().filename().string(), entry.path(), {}, false};
      std::string model = "tiny_llama";
      for (const char* other : {"qwen2", "qwen3", "mixtral"}) {
        if (c.name.starts_with(other)) model = std::string("tiny_") + other;
      }
      c.dense = root / "dense" / model / "model.safetensors";
      c.rtn = !starts_with_any(c.name, {"gptq", "awq", "smoothquant"});
      list.push_back(c);
    }
  }
  std::sort(list.begin(), list.end(), [](const Case& a, const Case& b) { return a.name < b.name; });
  return list;
}

// The quantized linear layers of a case with their schemes, as the plan of its config says.
struct Golden {
  explicit Golden(const Case& c) : tensors(c.folder / "model.safetensors") {
    const Json config = read_json_file(c.folder / "config.json");
    const auto stored = read_quant_config(config, "config.json");
    CHECK(stored.has_value());
    version = stored->version;
    std::vector<ModuleInfo> modules;
    constexpr std::string_view kScale = ".weight_scale";
    for (const SafetensorsEntry& entry : tensors.header().tensors) {
      const std::string& name = entry.spec.name;
      if (!name.ends_with(kScale)) continue;
      ModuleInfo module{name.substr(0, name.size() - kScale.size()), "Linear"};
      const TensorSpec* plain = tensors.find(module.name + ".weight");
      if (plain) {
        module.rows = plain->shape[0], module.cols = plain->shape[1];
      } else {
        int64_t shape[2];
        tensors.read(*tensors.find(module.name + ".weight_shape"), 0, shape, sizeof(shape));
        module.rows = shape[0], module.cols = shape[1];
      }
      modules.push_back(module);
    }
    plan = make_plan(modules, stored->request("config.json")).plan;
  }

  FileTensors tensors;
  Plan plan;
  std::string version;
};

std::string dense_name(std::string module) {
  const std::pair<const char*, const char*> experts[] = {
      {".gate_proj", ".w1"}, {".up_proj", ".w3"}, {".down_proj", ".w2"}};
  if (module.find(".experts.") != std::string::npos) {
    for (const auto& [ours, theirs] : experts) {
      const size_t at = module.rfind(ours);
      if (at != std::string::npos) module.replace(at, std::string::npos, theirs);
    }
  }
  return module + ".weight";
}

struct Counts {
  uint64_t modules = 0, codes = 0, scales = 0, zero_points = 0, different = 0;
};

// Compares what was written with the file; elements are those of the tensor's dtype.
void compare(MemoryTensors& ours, const FileTensors& theirs, Counts* counts) {
  for (const std::string& name : ours.names()) {
    const TensorSpec* spec = theirs.find(name);
    ASSERT_NE(spec, nullptr) << name;
    ASSERT_EQ(spec->dtype, ours.find(name)->dtype) << name;
    ASSERT_EQ(spec->shape, ours.find(name)->shape) << name;
    const std::vector<uint8_t> expected = theirs.bytes(name);
    const size_t size = dtype_size(spec->dtype);
    uint64_t different = 0;
    for (size_t i = 0; i < expected.size(); i += size) {
      different += std::memcmp(&expected[i], &ours.bytes(name)[i], size) != 0;
    }
    EXPECT_EQ(different, 0u) << name << ": of " << spec->elements() << " elements";
    EXPECT_EQ(ours.written(name), expected.size()) << name;
    counts->different += different;
    uint64_t& count = name.ends_with("scale")        ? counts->scales
                      : name.ends_with("zero_point") ? counts->zero_points
                                                     : counts->codes;
    if (!name.ends_with("shape")) count += spec->elements();
  }
}

std::vector<uint8_t> dense_rows(const FileTensors& dense, const StoredWeight& stored) {
  const std::string name = dense_name(stored.module);
  const TensorSpec* spec = dense.find(name);
  if (!spec || spec->dtype != DType::kBF16 || spec->shape[1] != stored.cols || spec->shape[0] < stored.rows) {
    ADD_FAILURE() << name << " is not the source of " << stored.module;
    return {};
  }
  std::vector<uint8_t> bytes(static_cast<size_t>(stored.rows * stored.cols * 2));
  dense.read(*spec, 0, bytes.data(), bytes.size());
  return bytes;
}

StoredWeight open_module(const Golden& golden, const PlanEntry& entry) {
  StoredWeight stored;
  stored.module = entry.module.name;
  stored.scheme = entry.scheme;
  Problems problems;
  find_format(stored.scheme.format, stored.module).open(&stored, golden.tensors, golden.version, &problems);
  EXPECT_TRUE(problems.empty()) << problem_text(problems);
  EXPECT_EQ(stored.rows, entry.module.rows);
  EXPECT_EQ(stored.cols, entry.module.cols);
  EXPECT_EQ(stored.scale_dtype, DType::kBF16);
  EXPECT_FALSE(stored.old_packing);
  return stored;
}

void print(const char* what, const Counts& n) {
  std::printf("%s: %llu modules, %llu code elements, %llu scales, %llu zero points; %llu different\n", what,
              static_cast<unsigned long long>(n.modules), static_cast<unsigned long long>(n.codes),
              static_cast<unsigned long long>(n.scales), static_cast<unsigned long long>(n.zero_points),
              static_cast<unsigned long long>(n.different));
}

TEST(Golden, RtnWritesTheBytesOfTheOriginal) {
  ThreadPool pool(2);
  Counts counts;
  size_t rtn_cases = 0;
  for (const Case& c : cases()) {
    if (!c.rtn) continue;
    SCOPED_TRACE(c.name);
    ++rtn_cases;
    const Golden golden(c);
    const FileTensors dense(c.dense);
    ASSERT_FALSE(golden.plan.entries.empty());
    for (const PlanEntry& entry : golden.plan.entries) {
      ASSERT_TRUE(entry.scheme.weights.has_value()) << entry.module.name;
      const StoredWeight stored = open_module(golden, entry);
      const StorageFormat& format = find_format(stored.scheme.format, stored.module);
      MemoryTensors ours;
      for (const TensorSpec& spec : format.layout(stored)) ours.reserve(spec);
      WeightEncoder encoder(*stored.scheme.weights, stored.rows, stored.cols, DType::kBF16, stored.module);
      encode_all(encoder, dense_rows(dense, stored), stored.rows, kChunkUnit, pool,
                 [&](const QuantizedRows& rows) { format.store(stored, rows, ours.sink()); });
      compare(ours, golden.tensors, &counts);
      ++counts.modules;
    }
  }
  EXPECT_GE(rtn_cases, 20u);
  print("encoded", counts);
}

TEST(Golden, LoadingAndStoringGivesTheSameBytes) {
  Counts counts;
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const Golden golden(c);
    for (const PlanEntry& entry : golden.plan.entries) {
      const StoredWeight stored = open_module(golden, entry);
      const StorageFormat& format = find_format(stored.scheme.format, stored.module);
      MemoryTensors ours;
      for (const TensorSpec& spec : format.layout(stored)) ours.reserve(spec);
      QuantizedRows rows;
      for (int64_t row0 = 0; row0 < stored.rows; row0 += kChunkUnit) {
        format.load(stored, golden.tensors, row0, std::min(kChunkUnit, stored.rows - row0), &rows);
        format.store(stored, rows, ours.sink());
      }
      compare(ours, golden.tensors, &counts);
      ++counts.modules;
    }
  }
  print("loaded and stored", counts);
}

TEST(Golden, DequantizesLikeTheOriginal) {
  uint64_t values = 0;
  for (const Case& c : cases()) {
    if (!fs::exists(c.folder / "logits.safetensors")) continue;
    SCOPED_TRACE(c.name);
    const Golden golden(c);
    const FileTensors logits(c.folder / "logits.safetensors");
    for (const PlanEntry& entry : golden.plan.entries) {
      const std::string name = "dequant." + entry.module.name + ".weight";
      const TensorSpec* spec = logits.find(name);
      if (!spec) continue;
      const StoredWeight stored = open_module(golden, entry);
      if (!load_group_index(stored, golden.tensors).empty()) continue;  // columns of a group lie apart
      QuantizedRows rows;
      find_format(stored.scheme.format, name).load(stored, golden.tensors, 0, spec->shape[0], &rows);
      std::vector<float> ours(spec->elements());
      dequantize(*stored.scheme.weights, stored.scale_dtype, rows, ours.data());
      const std::vector<uint8_t> theirs = logits.bytes(name);
      for (size_t i = 0; i < ours.size(); ++i) {
        uint16_t bits = 0;
        std::memcpy(&bits, &theirs[2 * i], 2);
        ASSERT_EQ(ours[i], bf16_to_float(bits)) << name << " " << i;
      }
      values += ours.size();
    }
  }
  EXPECT_GE(values, 4000u);
  std::printf("dequantized: %llu values\n", static_cast<unsigned long long>(values));
}

TEST(Golden, ReadsTheGroupIndexOfAnOlderWriter) {
  for (const Case& c : cases()) {
    if (c.name != "gptq_w4a16_g32_actorder_group") continue;
    const Golden golden(c);
    for (const PlanEntry& entry : golden.plan.entries) {
      const StoredWeight stored = open_module(golden, entry);
      const std::vector<int32_t> index = load_group_index(stored, golden.tensors);
      ASSERT_EQ(index.size(), static_cast<size_t>(stored.cols));
      std::vector<int32_t> expected(index.size());
      const std::vector<uint8_t> bytes = golden.tensors.bytes(stored.module + ".weight_g_idx");
      std::memcpy(expected.data(), bytes.data(), bytes.size());
      EXPECT_EQ(index, expected);
    }
    return;
  }
  FAIL() << "the case is missing";
}

}  // namespace
}  // namespace roundel
