#include "checkpoint/gguf/reader.h"

#include <limits>

#include "gguf_test_util.h"

namespace roundel {
namespace {

using Words = std::vector<std::string>;

void expect_unreadable(const std::vector<uint8_t>& file, const Words& words,
                       ErrorCode code = ErrorCode::kInvalid) {
  expect_refused([&] { read_memory(file); }, code, words);
}

GgufBuilder with_tensor() {
  GgufBuilder b;
  b.text("general.architecture", "llama");
  b.f32_tensor("a", {4, 2}, std::vector<float>(8, 1.0f));
  return b;
}

TEST(GgufReader, ReadsEveryKindOfValue) {
  GgufBuilder b;
  b.number<uint8_t>("u8", 0, 200);
  b.number<int8_t>("i8", 1, -100);
  b.number<uint16_t>("u16", 2, 60000);
  b.number<int16_t>("i16", 3, -30000);
  b.u32("u32", 4000000000u);
  b.number<int32_t>("i32", 5, -2000000000);
  b.f32("f32", 1.5f);
  b.flag("yes", 1);
  b.text("text", "gr\xC3\xBC\xC3\x9F");
  b.number<uint64_t>("u64", 10, 1ull << 62);
  b.number<int64_t>("i64", 11, -(1ll << 62));
  b.number<double>("f64", 12, 0.1);
  b.texts("texts", {"one", "", "three"});
  b.numbers<uint16_t>("shorts", 2, {1, 2, 65535});
  b.numbers<float>("floats", 6, {0.5f, -1.0f});
  const GgufFile file = read_memory(b.build());
  const GgufMetadata& m = file.metadata;
  EXPECT_EQ(m.require_int("u8", 0, 255), 200);
  EXPECT_EQ(m.require_int("i8", -128, 127), -100);
  EXPECT_EQ(m.require_int("u16", 0, 65535), 60000);
  EXPECT_EQ(m.require_int("i16", -32768, 0), -30000);
  EXPECT_EQ(m.require_int("u32", 0, INT64_MAX), 4000000000);
  EXPECT_EQ(m.require_int("i32", INT64_MIN, 0), -2000000000);
  EXPECT_EQ(m.require_int("u64", 0, INT64_MAX), int64_t{1} << 62);
  EXPECT_EQ(m.require_int("i64", INT64_MIN, 0), -(int64_t{1} << 62));
  EXPECT_EQ(m.require_number("f32", 0, 2), 1.5);
  EXPECT_EQ(m.require_number("f64", 0, 2), 0.1);
  EXPECT_EQ(m.require_number("u8", 0, 255), 200.0);
  EXPECT_EQ(m.optional_bool("yes"), true);
  EXPECT_EQ(m.require_string("text"), "gr\xC3\xBC\xC3\x9F");
  const GgufArray& texts = *m.optional_strings("texts");
  ASSERT_EQ(texts.count, 3u);
  EXPECT_EQ(texts.string_at(0), "one");
  EXPECT_EQ(texts.string_at(1), "");
  EXPECT_EQ(texts.string_at(2), "three");
  EXPECT_EQ(m.optional_ints("shorts")->int_at(2), 65535);
  EXPECT_EQ(m.optional_numbers("floats")->number_at(1), -1.0);
  EXPECT_EQ(m.optional_int("absent", 0, 1), std::nullopt);
  EXPECT_EQ(m.unread(""), std::vector<std::string>());
}

TEST(GgufReader, ReadsTensorsOfBothVersionsWithShapeAndPlace) {
  for (const uint32_t version : {2u, 3u}) {
    GgufBuilder b = with_tensor();
    b.version = version;
    b.tensor("b", {64, 3}, 8, std::string(34 * 6, '\1'));
    const std::vector<uint8_t> bytes = b.build();
    const GgufFile file = read_memory(bytes);
    EXPECT_EQ(file.version, version);
    ASSERT_EQ(file.tensors.size(), 2u);
    const GgufTensor* t = file.find("b");
    ASSERT_NE(t, nullptr);
    EXPECT_EQ(t->shape, (Shape{3, 64}));
    EXPECT_EQ(t->bytes, 34u * 6);
    EXPECT_EQ(bytes[t->begin], 1);
    EXPECT_EQ(bytes[t->begin - 1], 0x3f);  // the last byte of the float 1.0
    EXPECT_EQ(file.find("c"), nullptr);
  }
}

TEST(GgufReader, ObeysTheAlignment) {
  GgufBuilder b;
  b.alignment = 128;
  b.u32("general.alignment", 128);
  b.f32_tensor("a", {1}, {1.0f});
  b.f32_tensor("b", {1}, {2.0f});
  const GgufFile file = read_memory(b.build());
  EXPECT_EQ(file.data_start % 128, 0u);
  EXPECT_EQ(file.tensors[1].begin, file.data_start + 128);

  for (const uint32_t bad : {0u, 24u, 1u << 31}) {
    GgufBuilder other = with_tensor();
    other.u32("general.alignment", bad);
    expect_unreadable(other.build(), {"general.alignment"});
  }
}

TEST(GgufReader, SaysWhatAnotherFileIs) {
  const auto text = [](std::string s) { return std::vector<uint8_t>(s.begin(), s.end()); };
  expect_unreadable(text(""), {"too short"});
  expect_unreadable(text("GG"), {"too short"});
  expect_unreadable(text("version https://git-lfs.github.com/spec/v1\noid sha256:1"), {"LFS"});
  expect_unreadable(text("<!doctype html><html>"), {"HTML"});
  expect_unreadable(text(std::string("\x10\0\0\0\0\0\0\0{\"a\":1}", 15)), {"safetensors"});
  expect_unreadable(text("tjgg1234567890"), {"before GGUF"});
  GgufBuilder b;
  b.version = 1;
  expect_unreadable(b.build(), {"version 1"}, ErrorCode::kUnsupported);
  b.version = 4;
  expect_unreadable(b.build(), {"version 4"}, ErrorCode::kUnsupported);
  b.version = 0x03000000;
  expect_unreadable(b.build(), {"big-endian"}, ErrorCode::kUnsupported);
}

TEST(GgufReader, RefusesEveryTruncation) {
  GgufBuilder b = with_tensor();
  b.texts("texts", {"one", "two"});
  b.numbers<uint32_t>("numbers", 4, {1, 2, 3});
  const std::vector<uint8_t> whole = b.build();
  ASSERT_NO_THROW(read_memory(whole));
  for (size_t n = 0; n < whole.size(); ++n) {
    const std::vector<uint8_t> part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n));
    EXPECT_THROW(read_memory(part), Error) << n;
  }
}

TEST(GgufReader, SaysHowManyBytesAreMissing) {
  GgufBuilder b;
  b.tensor("weights", {1024}, 0, std::string(1000, 'x'));
  std::vector<uint8_t> file = b.build();  // 1024 bytes of data with the padding
  expect_unreadable(file, {"3072 bytes are missing", "weights"});
  file.resize(20);
  expect_unreadable(file, {"4 bytes are missing"});
}

TEST(GgufReader, RefusesCountsAndLengthsLargerThanTheFile) {
  for (const uint64_t bad : {uint64_t{1000}, uint64_t{1} << 32, uint64_t{1} << 61, UINT64_MAX}) {
    GgufBuilder tensors = with_tensor();
    tensors.tensor_count = bad;
    expect_unreadable(tensors.build(), {"tensors are declared"});
    GgufBuilder keys = with_tensor();
    keys.key_count = bad;
    expect_unreadable(keys.build(), {"keys are declared"});
    for (const uint32_t type : {4u, 8u, 9u, 10u}) {
      std::string value;
      GgufBuilder::put(value, type);
      GgufBuilder::put(value, bad);
      GgufBuilder array = with_tensor();
      array.raw("list", 9, value);
      const auto error = error_of([&] { read_memory(array.build()); });
      ASSERT_TRUE(error);
      const std::string text = error->what();
      EXPECT_TRUE(text.find("missing") != std::string::npos || text.find("overflows") != std::string::npos)
          << text;
    }
    std::string length;
    GgufBuilder::put(length, bad);
    GgufBuilder text = with_tensor();
    text.raw("text", 8, length);
    expect_unreadable(text.build(), {"missing"});
  }
}

TEST(GgufReader, RefusesBadMetadata) {
  GgufBuilder twice = with_tensor();
  twice.u32("general.architecture", 1);
  expect_unreadable(twice.build(), {"duplicate", "general.architecture"});
  GgufBuilder type = with_tensor();
  type.raw("x", 13, "");
  expect_unreadable(type.build(), {"value type 13"});
  GgufBuilder flag = with_tensor();
  flag.flag("x", 2);
  expect_unreadable(flag.build(), {"expected 0 or 1"});
  GgufBuilder empty = with_tensor();
  empty.u32("", 1);
  expect_unreadable(empty.build(), {"empty"});
  GgufBuilder lengthy = with_tensor();
  lengthy.u32(std::string(70000, 'k'), 1);
  expect_unreadable(lengthy.build(), {"70000 bytes"}, ErrorCode::kLimit);
}

std::string nested_array(int depth) {
  std::string value;
  for (int i = 0; i < depth; ++i) {
    GgufBuilder::put<uint32_t>(value, i + 1 == depth ? 4 : 9);
    GgufBuilder::put<uint64_t>(value, 1);
  }
  GgufBuilder::put<uint32_t>(value, 7);
  return value;
}

TEST(GgufReader, LimitsTheNestingOfArrays) {
  for (const int depth : {1, 2, 4}) {
    GgufBuilder b = with_tensor();
    b.raw("nested", 9, nested_array(depth));
    EXPECT_NO_THROW(read_memory(b.build())) << depth;
  }
  GgufBuilder b = with_tensor();
  b.raw("nested", 9, nested_array(100000));
  expect_unreadable(b.build(), {"deeper than 4"}, ErrorCode::kLimit);
}

TEST(GgufReader, RefusesBadTensors) {
  const auto one = [](const std::vector<uint64_t>& ne, uint32_t type,
                      std::optional<uint64_t> offset = std::nullopt) {
    GgufBuilder b = with_tensor();
    b.tensor("bad", ne, type, std::string(512, '\0'), offset);
    return b.build();
  };
  expect_unreadable(one({}, 0), {"0 dimensions"});
  expect_unreadable(one({1, 1, 1, 1, 1}, 0), {"5 dimensions"});
  expect_unreadable(one({4, 0}, 0), {"dimension of 0"});
  expect_unreadable(one({UINT64_MAX}, 0), {"dimension of"});
  expect_unreadable(one({1ull << 62, 4, 1}, 0), {"overflows"});
  expect_unreadable(one({1ull << 62}, 0), {"overflows"});
  expect_unreadable(one({1ull << 61, 1}, 0), {"missing"});
  expect_unreadable(one({(1ull << 61) - 1024, 2}, 1), {"missing"});
  expect_unreadable(one({33}, 8), {"rows of 33"});
  expect_unreadable(one({128}, 12), {"rows of 128"});
  expect_unreadable(one({32}, 77), {"type 77"});
  expect_unreadable(one({256}, 23), {"IQ4_XS", "Q4_K"}, ErrorCode::kUnsupported);
  expect_unreadable(one({8}, 0, 33), {"multiple of the alignment"});
  expect_unreadable(one({8}, 0, 0), {"overlap", "bad"});
  expect_unreadable(one({8}, 0, 1ull << 40), {"missing"});
  expect_unreadable(one({8}, 0, (1ull << 63) - 32), {"missing"});
  expect_unreadable(one({8}, 0, UINT64_MAX - 31), {"overflows"});

  GgufBuilder twice = with_tensor();
  twice.f32_tensor("a", {1}, {1.0f});
  expect_unreadable(twice.build(), {"duplicate tensor a"});
  GgufBuilder lengthy = with_tensor();
  lengthy.f32_tensor(std::string(65, 'n'), {1}, {1.0f});
  expect_unreadable(lengthy.build(), {"65 bytes"}, ErrorCode::kLimit);
}

TEST(GgufReader, RefusesAHeaderThatIsTooLongWithoutReadingIt) {
  // A sparse file: 1 TiB is declared for one string, and there.
  TempFolder folder;
  GgufBuilder b;
  std::string length;
  GgufBuilder::put<uint64_t>(length, 1ull << 40);
  b.raw("text", 8, length);
  const std::filesystem::path path = folder / "huge.gguf";
  const std::vector<uint8_t> start = b.build();
  write_file(path, std::string(start.begin(), start.end()));
  std::error_code unsupported;
  std::filesystem::resize_file(path, (1ull << 40) + 4096, unsupported);
  if (unsupported) GTEST_SKIP() << "the file system has no sparse files of a terabyte";
  expect_refused([&] { read_gguf(FileBytes(File::open_read(path))); }, ErrorCode::kLimit,
                 {"a header may have"});
}

TEST(GgufMetadata, NamesKeyValueAndRule) {
  GgufBuilder b;
  b.u32("n", 7);
  b.text("s", "x");
  b.numbers<uint32_t>("same", 4, {3, 3, 3});
  b.numbers<uint32_t>("mixed", 4, {3, 3, 4});
  b.numbers<float>("floats", 6, {std::numeric_limits<float>::quiet_NaN()});
  b.f32("nan", std::numeric_limits<float>::quiet_NaN());
  b.text("broken", "\xC3");
  const GgufFile file = read_memory(b.build());
  const GgufMetadata& m = file.metadata;
  expect_refused([&] { m.require_int("n", 8, 9); }, ErrorCode::kInvalid,
                 {"test.gguf: n is 7", "from 8 to 9"});
  expect_refused([&] { m.require_int("s", 0, 9); }, ErrorCode::kInvalid, {"s is \"x\""});
  expect_refused([&] { m.require_int("gone", 0, 9); }, ErrorCode::kInvalid, {"gone is missing"});
  expect_refused([&] { m.require_string("n"); }, ErrorCode::kInvalid, {"expected a string"});
  expect_refused([&] { m.require_string("broken"); }, ErrorCode::kInvalid, {"UTF-8"});
  expect_refused([&] { m.optional_bool("n"); }, ErrorCode::kInvalid, {"true or false"});
  expect_refused([&] { m.optional_strings("same"); }, ErrorCode::kInvalid, {"array of strings"});
  expect_refused([&] { m.optional_ints("floats"); }, ErrorCode::kInvalid, {"array of integers"});
  expect_refused([&] { m.optional_number("nan", 0, 1); }, ErrorCode::kInvalid, {"nan"});
  EXPECT_EQ(m.optional_same_int("same", 0, 9), 3);
  EXPECT_EQ(m.optional_same_int("n", 0, 9), 7);
  expect_refused([&] { m.optional_same_int("mixed", 0, 9); }, ErrorCode::kUnsupported,
                 {"differs between layers"});
}

}  // namespace
}  // namespace roundel
