// Storage formats: everything that can be encoded comes back, and what files hold is checked.
#include "codec/format.h"

#include <gtest/gtest.h>

#include "tests/codec/codec_test_util.h"

namespace roundel {
namespace {

const char* const kModule = "model.layers.0.mlp.up_proj";

QuantArgs arguments(Strategy strategy, int bits, bool symmetric) {
  QuantArgs args;
  args.num_bits = bits, args.symmetric = symmetric, args.strategy = strategy;
  if (strategy == Strategy::kGroup) args.group_size = 32;
  if (strategy == Strategy::kBlock) args.block_rows = 48, args.block_cols = 40;
  return args;
}

StoredWeight weight(const QuantArgs& args, int64_t rows, int64_t cols,
                    const char* format = "pack-quantized") {
  StoredWeight stored;
  stored.module = kModule;
  stored.scheme.weights = args;
  stored.scheme.format = format;
  stored.rows = rows, stored.cols = cols;
  return stored;
}

std::vector<uint8_t> source(int64_t rows, int64_t cols) {
  std::vector<float> x(static_cast<size_t>(rows * cols));
  uint32_t state = 7;
  for (float& v : x) {
    state = state * 1664525u + 1013904223u;
    v = static_cast<float>(state >> 8) * 0x1p-24f - 0.4f;
  }
  std::vector<uint8_t> bytes(x.size() * 2);
  narrow_from_float(DType::kBF16, x.data(), bytes.data(), x.size());
  return bytes;
}

// A stored module in memory.
struct Saved {
  Saved(const StoredWeight& as, int64_t rows, int64_t cols) : stored(as) {
    ThreadPool pool(1);
    all = encode_whole(*stored.scheme.weights, DType::kBF16, source(rows, cols), rows, cols, pool);
    store_all(format(), stored, all, &tensors);
  }
  const StorageFormat& format() const { return find_format(stored.scheme.format, kModule); }
  // Opens as a reader would, shape unknown unless the model expects one.
  Problems open(int64_t rows = 0, int64_t cols = 0, const std::string& version = "0.20.1") {
    stored.rows = rows, stored.cols = cols;
    Problems problems;
    format().open(&stored, tensors, version, &problems);
    return problems;
  }
  std::string name(const char* suffix) const { return std::string(kModule) + "." + suffix; }
  // The problems name the module, and one of them holds each text.
  void expect_problem(const Problems& problems, std::initializer_list<const char*> texts) const {
    ASSERT_FALSE(problems.empty());
    const std::string all_text = problem_text(problems);
    for (const Problem& p : problems.list()) EXPECT_EQ(p.where, kModule);
    for (const char* text : texts)
      EXPECT_NE(all_text.find(text), std::string::npos) << text << " in: " << all_text;
  }

  StoredWeight stored;
  QuantizedRows all;
  MemoryTensors tensors;
};

void expect_loads_back(Saved& saved) {
  const Problems problems = saved.open();
  ASSERT_TRUE(problems.empty()) << problem_text(problems);
  ASSERT_EQ(saved.stored.rows, saved.all.rows);
  ASSERT_EQ(saved.stored.cols, saved.all.cols);
  QuantizedRows part;
  for (int64_t row0 = 0; row0 < saved.all.rows; row0 += kChunkUnit) {
    const int64_t n = std::min(kChunkUnit, saved.all.rows - row0);
    saved.format().load(saved.stored, saved.tensors, row0, n, &part);
    ASSERT_EQ(part.row0, row0);
    ASSERT_EQ(part.groups, saved.all.groups);
    const auto equal = [&](const auto& some, const auto& all, int64_t width) {
      if (all.empty()) return some.empty();
      return std::vector(all.begin() + row0 * width, all.begin() + (row0 + n) * width) == some;
    };
    EXPECT_TRUE(equal(part.codes, saved.all.codes, saved.all.cols)) << "codes from row " << row0;
    EXPECT_TRUE(equal(part.scales, saved.all.scales, saved.all.groups)) << "scales from row " << row0;
    EXPECT_TRUE(equal(part.zero_points, saved.all.zero_points, saved.all.groups))
        << "zero points from row " << row0;
  }
}

TEST(Format, WhatIsStoredIsLoaded) {
  const std::pair<int64_t, int64_t> shapes[] = {{1, 1}, {5, 40}, {129, 67}, {200, 96}, {300, 33}};
  for (const char* format : {"pack-quantized", "int-quantized", "naive-quantized"}) {
    for (int bits = 2; bits <= 8; ++bits) {
      for (const bool symmetric : {true, false}) {
        for (const Strategy s : {Strategy::kTensor, Strategy::kChannel, Strategy::kGroup, Strategy::kBlock}) {
          for (const auto& [rows, cols] : shapes) {
            SCOPED_TRACE(
                fmt::format("{} {} {}x{}", format, describe(arguments(s, bits, symmetric)), rows, cols));
            Saved saved(weight(arguments(s, bits, symmetric), rows, cols, format), rows, cols);
            expect_loads_back(saved);
            for (const TensorSpec& spec : saved.format().layout(saved.stored)) {  // every byte, once
              EXPECT_EQ(saved.tensors.written(spec.name), spec.bytes()) << spec.name;
            }
          }
        }
      }
    }
  }
}

TEST(Format, FloatsAreStoredAndLoaded) {
  for (const char* format : {"float-quantized", "naive-quantized"}) {
    for (const Strategy s : {Strategy::kTensor, Strategy::kChannel, Strategy::kGroup, Strategy::kBlock}) {
      QuantArgs args = arguments(s, 8, true);
      args.type = NumberType::kFloat;
      SCOPED_TRACE(describe(args));
      Saved saved(weight(args, 200, 67, format), 200, 67);
      EXPECT_EQ(saved.tensors.find(saved.name("weight"))->dtype, DType::kF8E4M3);
      expect_loads_back(saved);
    }
  }
}

TEST(Format, ScalesKeepTheirType) {
  for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF32}) {
    StoredWeight as = weight(arguments(Strategy::kChannel, 8, true), 8, 8, "int-quantized");
    as.scale_dtype = dtype;
    Saved saved(as, 8, 8);
    for (float& s : saved.all.scales) s = 0.0078125f;  // exact in all of them
    store_all(saved.format(), saved.stored, saved.all, &saved.tensors);
    saved.stored.scale_dtype = DType::kBF16;
    expect_loads_back(saved);
    EXPECT_EQ(saved.stored.scale_dtype, dtype);
  }
}

TEST(Format, ZeroPointsArePackedDownTheRows) {
  QuantArgs args = arguments(Strategy::kGroup, 4, false);
  args.group_size = 2;
  Saved saved(weight(args, 3, 4), 3, 4);
  saved.all.zero_points = {-8, 1, 0, 2, 7, -3};
  store_all(saved.format(), saved.stored, saved.all, &saved.tensors);
  EXPECT_EQ(saved.tensors.find(saved.name("weight_zero_point"))->shape, (Shape{1, 2}));
  uint32_t words[2];
  saved.tensors.read(*saved.tensors.find(saved.name("weight_zero_point")), 0, words, 8);
  EXPECT_EQ(words[0], 0x00000f80u);
  EXPECT_EQ(words[1], 0x000005a9u);
}

TEST(Format, PaddingBitsAreZero) {
  for (int bits = 2; bits <= 8; ++bits) {
    Saved saved(weight(arguments(Strategy::kChannel, bits, true), 3, 33), 3, 33);
    const std::vector<uint8_t>& bytes = saved.tensors.bytes(saved.name("weight_packed"));
    const size_t words = bytes.size() / 12;
    for (size_t r = 0; r < 3; ++r) {
      uint32_t last = 0;
      std::memcpy(&last, &bytes[(r * words + words - 1) * 4], 4);
      const int used = 33 * bits - 32 * static_cast<int>(words - 1);
      EXPECT_EQ(used == 32 ? 0 : last >> used, 0u) << bits << " bits";
    }
  }
}

TEST(Format, UnknownNameIsAnErrorThatListsTheKnown) {
  try {
    find_format("zip-quantized", "config.json");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kUnsupported);
    for (const char* text : {"config.json", "zip-quantized", "pack-quantized", "naive-quantized"}) {
      EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what();
    }
  }
}

TEST(Format, NamesTheTensorsThatMayBeThere) {
  for (const StorageFormat* format : storage_formats()) {
    const StoredWeight symmetric = weight(arguments(Strategy::kGroup, 4, true), 8, 32);
    EXPECT_EQ(format->optional_tensors(symmetric),
              (std::vector<std::string>{std::string(kModule) + ".weight_g_idx",
                                        std::string(kModule) + ".weight_zero_point"}));
    const StoredWeight asymmetric = weight(arguments(Strategy::kGroup, 4, false), 8, 32);
    EXPECT_EQ(format->optional_tensors(asymmetric),
              std::vector<std::string>{std::string(kModule) + ".weight_g_idx"});
  }
}

// ---- older spellings ----

TEST(Format, ReadsScalesWithoutTheSecondDimension) {
  for (const char* format : {"int-quantized", "pack-quantized"}) {
    Saved channel(weight(arguments(Strategy::kChannel, 8, true), 130, 16, format), 130, 16);
    channel.tensors.rename_shape(channel.name("weight_scale"), {130});
    expect_loads_back(channel);
    Saved tensor(weight(arguments(Strategy::kTensor, 8, true), 130, 16, format), 130, 16);
    tensor.tensors.rename_shape(tensor.name("weight_scale"), {});
    expect_loads_back(tensor);
  }
}

TEST(Format, ReadsShapesOf32Bits) {
  Saved saved(weight(arguments(Strategy::kGroup, 4, true), 5, 40), 5, 40);
  saved.tensors.set<int32_t>(saved.name("weight_shape"), DType::kI32, {2}, {5, 40});
  expect_loads_back(saved);
}

TEST(Format, IgnoresZeroPointsOfSymmetricSchemesWhenTheyAreZero) {
  for (const char* format : {"int-quantized", "pack-quantized"}) {
    Saved saved(weight(arguments(Strategy::kChannel, 4, true), 5, 40, format), 5, 40);
    saved.tensors.set<int8_t>(saved.name("weight_zero_point"), DType::kI8, {5, 1}, {0, 0, 0, 0, 0});
    expect_loads_back(saved);
    saved.tensors.set<int8_t>(saved.name("weight_zero_point"), DType::kI8, {5, 1}, {0, 0, 3, 0, 0});
    saved.expect_problem(saved.open(), {"weight_zero_point", "symmetric"});
  }
}

TEST(Format, ReadsZeroPointsThatAreNotPacked) {
  Saved saved(weight(arguments(Strategy::kGroup, 4, false), 150, 64), 150, 64);
  saved.tensors.set(saved.name("weight_zero_point"), DType::kI8, {150, 2}, saved.all.zero_points);
  expect_loads_back(saved);
}

// 32 / bits whole values in a word: what compressed-tensors wrote before 0.18.
std::vector<uint32_t> old_words(const std::vector<int8_t>& values, int bits) {
  const size_t per_word = 32u / static_cast<unsigned>(bits);
  std::vector<uint32_t> words((values.size() + per_word - 1) / per_word);
  for (size_t i = 0; i < values.size(); ++i) {
    words[i / per_word] |= static_cast<uint32_t>(values[i] + (1 << (bits - 1)))
                           << (i % per_word * static_cast<size_t>(bits));
  }
  return words;
}

void pack_the_old_way(Saved& saved) {
  const int bits = saved.stored.scheme.weights->num_bits;
  const auto rows = static_cast<size_t>(saved.all.rows), cols = static_cast<size_t>(saved.all.cols);
  std::vector<uint32_t> packed;
  for (size_t r = 0; r < rows; ++r) {
    const auto at = saved.all.codes.begin() + static_cast<int64_t>(r * cols);
    const std::vector<uint32_t> row = old_words({at, at + static_cast<int64_t>(cols)}, bits);
    packed.insert(packed.end(), row.begin(), row.end());
  }
  saved.tensors.set(saved.name("weight_packed"), DType::kI32,
                    {saved.all.rows, static_cast<int64_t>(packed.size() / rows)}, packed);
  if (saved.all.zero_points.empty()) return;
  const auto groups = static_cast<size_t>(saved.all.groups);
  std::vector<uint32_t> zeros;
  for (size_t g = 0; g < groups; ++g) {
    std::vector<int8_t> column;
    for (size_t r = 0; r < rows; ++r) column.push_back(saved.all.zero_points[r * groups + g]);
    const std::vector<uint32_t> words = old_words(column, bits);
    zeros.resize(words.size() * groups);
    for (size_t w = 0; w < words.size(); ++w) zeros[w * groups + g] = words[w];
  }
  saved.tensors.set(saved.name("weight_zero_point"), DType::kI32,
                    {static_cast<int64_t>(zeros.size() / groups), saved.all.groups}, zeros);
}

TEST(Format, ReadsTheOldPackingByItsShape) {
  for (const int bits : {3, 5, 6, 7}) {
    for (const bool symmetric : {true, false}) {
      Saved saved(weight(arguments(Strategy::kGroup, bits, symmetric), 300, 320), 300, 320);
      pack_the_old_way(saved);
      SCOPED_TRACE(bits);
      expect_loads_back(saved);  // whatever the version says
      EXPECT_TRUE(saved.stored.old_packing);
    }
  }
}

TEST(Format, TheVersionDecidesWhereShapesDoNot) {
  const int64_t rows = 5, cols = 10;  // 3 bits: one word either way
  QuantArgs args = arguments(Strategy::kChannel, 3, true);
  Saved saved(weight(args, rows, cols), rows, cols);
  for (const char* version : {"0.18.0", "0.20.1", "1.2", "", "unknown"}) {
    EXPECT_TRUE(saved.open(0, 0, version).empty());
    EXPECT_FALSE(saved.stored.old_packing) << version;
  }
  for (const char* version : {"0.17.1", "0.9.4", "0.17.1a20260601"}) {
    EXPECT_TRUE(saved.open(0, 0, version).empty());
    EXPECT_TRUE(saved.stored.old_packing) << version;
  }
}

// ---- what does not fit ----

TEST(Format, MissingTensorsAreNamed) {
  for (const char* suffix : {"weight_packed", "weight_scale", "weight_shape", "weight_zero_point"}) {
    Saved saved(weight(arguments(Strategy::kGroup, 4, false), 5, 64), 5, 64);
    saved.tensors.remove(saved.name(suffix));
    saved.expect_problem(saved.open(), {suffix, "missing"});
  }
  for (const char* suffix : {"weight", "weight_scale", "weight_zero_point"}) {
    Saved saved(weight(arguments(Strategy::kChannel, 8, false), 5, 64, "int-quantized"), 5, 64);
    saved.tensors.remove(saved.name(suffix));
    saved.expect_problem(saved.open(), {suffix, "missing"});
  }
}

TEST(Format, GroupSizeOfTheConfigMustFitTheScales) {
  for (const char* format : {"int-quantized", "pack-quantized"}) {
    Saved saved(weight(arguments(Strategy::kGroup, 4, true), 64, 64, format), 64, 64);
    saved.stored.scheme.weights->group_size = 16;
    saved.expect_problem(saved.open(), {"weight_scale", "[64, 2]", "[64, 4]", "group_size 16"});
    saved.stored.scheme.weights = arguments(Strategy::kChannel, 4, true);
    saved.expect_problem(saved.open(), {"weight_scale", "[64, 1]", "channel"});
    saved.stored.scheme.weights = arguments(Strategy::kTensor, 4, true);
    saved.expect_problem(saved.open(), {"weight_scale", "[1]", "tensor"});
  }
}

TEST(Format, PackedWidthMustFitTheShape) {
  Saved saved(weight(arguments(Strategy::kGroup, 4, true), 64, 64), 64, 64);
  saved.tensors.set<int64_t>(saved.name("weight_shape"), DType::kI64, {2}, {64, 96});
  saved.expect_problem(saved.open(), {"weight_packed", "[64, 8]", "[64, 12]", "96"});
  saved.tensors.set<int64_t>(saved.name("weight_shape"), DType::kI64, {2}, {32, 64});
  saved.expect_problem(saved.open(), {"weight_packed", "32 rows"});
}

TEST(Format, ShapesThatCannotBeAreRefused) {
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{64, -1}, {0, 64}, {64, int64_t{1} << 62}, {INT64_MIN, INT64_MAX}}) {
    Saved saved(weight(arguments(Strategy::kGroup, 4, true), 64, 64), 64, 64);
    saved.tensors.set(saved.name("weight_shape"), DType::kI64, {2}, shape);
    saved.expect_problem(saved.open(), {"weight_shape"});
  }
}

TEST(Format, TheModelsShapeMustFit) {
  for (const char* format : {"int-quantized", "pack-quantized"}) {
    Saved saved(weight(arguments(Strategy::kGroup, 4, true), 64, 64, format), 64, 64);
    EXPECT_TRUE(saved.open(64, 64).empty());
    saved.expect_problem(saved.open(64, 128), {"[64, 64]", "[64, 128]"});
    saved.expect_problem(saved.open(32, 64), {"[64, 64]", "[32, 64]"});
  }
}

TEST(Format, DtypesAreChecked) {
  Saved saved(weight(arguments(Strategy::kChannel, 8, true), 8, 8, "int-quantized"), 8, 8);
  saved.tensors.set_dtype(saved.name("weight"), DType::kF8E4M3);
  saved.expect_problem(saved.open(), {"weight has dtype F8_E4M3", "I8"});
  Saved scales(weight(arguments(Strategy::kChannel, 8, true), 8, 8), 8, 8);
  scales.tensors.set_dtype(scales.name("weight_scale"), DType::kI16);
  scales.expect_problem(scales.open(), {"weight_scale has dtype I16", "BF16"});
  Saved words(weight(arguments(Strategy::kChannel, 8, true), 8, 8), 8, 8);
  words.tensors.set_dtype(words.name("weight_packed"), DType::kF32);
  words.expect_problem(words.open(), {"weight_packed has dtype F32", "I32"});
  Saved three(weight(arguments(Strategy::kChannel, 8, true), 8, 8, "int-quantized"), 8, 8);
  three.tensors.rename_shape(three.name("weight"), {2, 4, 8});
  three.expect_problem(three.open(), {"weight has shape [2, 4, 8]"});
}

TEST(Format, ZeroPointShapeIsChecked) {
  Saved saved(weight(arguments(Strategy::kGroup, 4, false), 64, 64), 64, 64);
  saved.tensors.rename_shape(saved.name("weight_zero_point"), {4, 4});
  saved.expect_problem(saved.open(), {"weight_zero_point", "[4, 4]", "[8, 2]"});
}

// Runs load() of all rows and returns the message of its error.
std::string load_error(Saved& saved) {
  EXPECT_TRUE(saved.open().empty());
  QuantizedRows rows;
  try {
    saved.format().load(saved.stored, saved.tensors, 0, saved.stored.rows, &rows);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kInvalid);
    return e.what();
  }
  ADD_FAILURE() << "loaded";
  return "";
}

TEST(Format, ValuesBeyondTheBitsAreRefused) {
  Saved saved(weight(arguments(Strategy::kChannel, 4, true), 8, 8, "int-quantized"), 8, 8);
  saved.tensors.bytes(saved.name("weight"))[3 * 8 + 5] = 8;
  EXPECT_EQ(load_error(saved),
            std::string(kModule) + ".weight: value 8 at [3, 5] is outside [-8, 7], the range of 4 bits");
  Saved zeros(weight(arguments(Strategy::kChannel, 4, false), 8, 8, "int-quantized"), 8, 8);
  zeros.tensors.bytes(zeros.name("weight_zero_point"))[2] = 100;
  EXPECT_NE(load_error(zeros).find("weight_zero_point: value 100"), std::string::npos);
}

TEST(Format, ScalesThatAreNotFiniteAreRefused) {
  for (const char* format : {"int-quantized", "pack-quantized"}) {
    Saved saved(weight(arguments(Strategy::kGroup, 4, true), 8, 64, format), 8, 64);
    saved.tensors.write(saved.name("weight_scale"), 2 * (3 * 2 + 1), "\x80\x7f", 2);  // BF16 infinity
    const std::string text = load_error(saved);
    EXPECT_NE(text.find("weight_scale: the value at row 3, group 1 is inf"), std::string::npos) << text;
  }
}

// ---- weight_g_idx ----

class GroupIndex : public testing::Test {
 protected:
  std::vector<int32_t> load(const std::vector<int32_t>& index) {
    tensors_.set(std::string(kModule) + ".weight_g_idx", DType::kI32, {static_cast<int64_t>(index.size())},
                 index);
    return load_group_index(stored_, tensors_);
  }
  void refused(const std::vector<int32_t>& index, const char* text) {
    try {
      load(index);
      ADD_FAILURE() << "accepted";
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find(std::string(kModule) + ".weight_g_idx"), std::string::npos)
          << e.what();
    }
  }
  StoredWeight stored_ = [] {
    StoredWeight stored = weight(arguments(Strategy::kGroup, 4, true), 2, 6);
    stored.scheme.weights->group_size = 2;
    return stored;
  }();
  MemoryTensors tensors_;
};

TEST_F(GroupIndex, IsReadAndChecked) {
  EXPECT_TRUE(load_group_index(stored_, tensors_).empty());
  EXPECT_EQ(load({2, 0, 1, 1, 0, 2}), (std::vector<int32_t>{2, 0, 1, 1, 0, 2}));
  EXPECT_TRUE(load({2, 0, -1, 1, 0, 2}).empty());
  EXPECT_TRUE(load({0, 0, 1, 1, 2, 2}).empty());
  refused({0, 0, 0, 1, 2, 2}, "group 0 has 3 columns");
  refused({0, 0, 1, 1, 2, 3}, "column 5 is in group 3");
  refused({0, 1, 0, 1, 2, -2}, "column 5 is in group -2");
  refused({0, 1, 0, 1}, "expected I32 [6]");
}

}  // namespace
}  // namespace roundel
