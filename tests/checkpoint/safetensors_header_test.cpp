#include <gtest/gtest.h>

#include <ctime>

#include "base/process.h"
#include "checkpoint/safetensors.h"
#include "support.h"
#include "tests/sanitized.h"

namespace roundel {
namespace {

// Two tensors: a is 16 bytes, b 8.
const std::string kGood =
    R"({"a":{"dtype":"BF16","shape":[4,2],"data_offsets":[0,16]},"b":{"dtype":"F32","shape":[2],"data_offsets":[16,24]}})";

SafetensorsHeader parse(const std::string& json, uint64_t data = 24) {
  return parse_safetensors_header(json, data, "x.safetensors");
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

void expect_rejected(const std::string& json, std::vector<std::string> words, uint64_t data = 24) {
  words.insert(words.begin(), "x.safetensors");
  expect_error([&] { parse(json, data); }, words);
}

TEST(SafetensorsHeader, ReadsEntriesInDataOrder) {
  const auto h =
      parse(R"({"b":{"dtype":"F32","shape":[2],"data_offsets":[16,24]},"__metadata__":{"format":"pt"},)"
            R"("a":{"data_offsets":[0,16],"shape":[4,2],"dtype":"BF16"}}   )");
  ASSERT_EQ(h.tensors.size(), 2u);
  EXPECT_EQ(h.tensors[0].spec.name, "a");
  EXPECT_EQ(h.tensors[0].spec.dtype, DType::kBF16);
  EXPECT_EQ(h.tensors[0].spec.shape, (Shape{4, 2}));
  EXPECT_EQ(h.tensors[1].spec.name, "b");
  EXPECT_EQ(h.tensors[1].begin, 16u);
  EXPECT_EQ(h.metadata.at("format"), "pt");
}

TEST(SafetensorsHeader, AcceptsRankZeroAndEmptyTensors) {
  const auto h = parse(
      R"({"s":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"e":{"dtype":"I64","shape":[0,3],"data_offsets":[4,4]},)"
      R"("f":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
      4);
  ASSERT_EQ(h.tensors.size(), 3u);
  EXPECT_EQ(h.tensors[1].spec.elements(), 1u);
  EXPECT_EQ(parse("{}", 0).tensors.size(), 0u);
  EXPECT_EQ(parse(R"({"z":{"dtype":"F64","shape":[0,9223372036854775807],"data_offsets":[0,0]}})", 0)
                .tensors.size(),
            1u);
}

TEST(SafetensorsHeader, RejectsWhatIsNotAHeader) {
  expect_rejected("", {"does not begin with {"});
  expect_rejected("this is not a header", {"does not begin with {"});
  expect_rejected("[1]", {"does not begin with {"});
  expect_rejected("{", {"not valid JSON"});
  expect_rejected(kGood + "x", {"not valid JSON"});
  expect_rejected(kGood + std::string(1, '\0'), {"not valid JSON"});
  expect_rejected(replaced(kGood, "\"a\"", "\"a\xc3\""), {"not valid JSON", "UTF-8"});
  expect_rejected(R"({"a":5})", {"\"a\"", "is 5", "expected an object"});
  expect_rejected(R"({"a":null})", {"\"a\"", "is null"});
  expect_rejected(R"({"a":1e999})", {"not valid JSON", "number overflow"});
}

TEST(SafetensorsHeader, DoesNotRecurseIntoDeepText) {
  const std::string deep = "{\"a\":" + std::string(100000, '[') + std::string(100000, ']') + "}";
  expect_rejected(deep, {"\"a\"", "is a list"});
  std::string objects;
  for (int i = 0; i < 50000; ++i) objects += "{\"a\":";
  expect_rejected(objects, {"\"a\""});
}

TEST(SafetensorsHeader, RejectsDuplicates) {
  const std::string entry = R"({"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  expect_rejected("{\"a\":" + entry + ",\"a\":" + entry + "}", {"duplicate tensor \"a\""}, 0);
  expect_rejected("{\"a\":" + entry + ",\"\\u0061\":" + entry + "}", {"duplicate tensor \"a\""}, 0);
  expect_rejected(R"({"a":{"dtype":"U8","dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
                  {"\"a\"", "duplicate key dtype"}, 0);
  expect_rejected(R"({"a":{"dtype":"U8","shape":[0],"sh\u0061pe":[0],"data_offsets":[0,0]}})",
                  {"\"a\"", "duplicate key shape"}, 0);
  expect_rejected(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"data_offsets":[0,0]}})",
                  {"\"a\"", "duplicate key data_offsets"}, 0);
  expect_rejected(R"({"__metadata__":{},"__metadata__":{}})", {"duplicate key __metadata__"}, 0);
  expect_rejected(R"({"__metadata__":{"k":"1","k":"2"}})", {"__metadata__", "duplicate key \"k\""}, 0);
}

TEST(SafetensorsHeader, RejectsUnknownAndMissingKeys) {
  expect_rejected(replaced(kGood, "\"shape\"", "\"extra\":1,\"shape\""), {"\"a\"", "unknown key \"extra\""});
  expect_rejected(R"({"a":{"dtype":"U8","shape":[0]}})", {"\"a\"", "data_offsets is missing"}, 0);
  expect_rejected(R"({"a":{"shape":[0],"data_offsets":[0,0]}})", {"\"a\"", "dtype is missing"}, 0);
  expect_rejected(R"({"a":{"dtype":"U8","data_offsets":[0,0]}})", {"\"a\"", "shape is missing"}, 0);
  expect_rejected(R"({"a":{}})", {"\"a\"", "is missing"}, 0);
  expect_rejected(R"({"__metadata__":{"k":1}})", {"__metadata__", "\"k\"", "is 1", "a string"}, 0);
  expect_rejected(R"({"__metadata__":["k"]})", {"__metadata__", "a list"}, 0);
  expect_rejected(R"({"__metadata__":{"k":{}}})", {"__metadata__", "\"k\"", "an object"}, 0);
}

TEST(SafetensorsHeader, TakesOnlyPlainIntegers) {
  for (const std::string bad :
       {"-1", "-64", "4.0", "4e0", "\"4\"", "null", "true", "[4]", "{}", "18446744073709551616"}) {
    expect_rejected(replaced(kGood, "[4,2]", "[" + bad + ",2]"), {"\"a\"", "shape"});
    expect_rejected(replaced(kGood, "[0,16]", "[0," + bad + "]"), {"\"a\"", "data_offsets"});
  }
  expect_rejected(replaced(kGood, "[4,2]", "[64.0,2]"), {"64.0"});
  expect_rejected(replaced(kGood, "[4,2]", "8"), {"shape is 8", "a list of integers"});
  expect_rejected(replaced(kGood, "[4,2]", "\"8\""), {"shape is \"8\""});
  expect_rejected(replaced(kGood, "\"BF16\"", "5"), {"dtype is 5", "a string"});
  expect_rejected(replaced(kGood, "\"BF16\"", "[]"), {"dtype is a list"});
  // 2^53 + 1 is no double: it has to be judged as written.
  expect_rejected(replaced(kGood, "[4,2]", "[1,9007199254740993]"), {"9007199254740993"});
  expect_rejected(replaced(kGood, "[4,2]", "[9223372036854775808,0]"), {"9223372036854775808", "overflow"});
  expect_rejected(replaced(kGood, "[0,16]", "[0]"), {"holds 1 integers"});
  expect_rejected(replaced(kGood, "[0,16]", "[]"), {"holds 0 integers"});
  expect_rejected(replaced(kGood, "[0,16]", "[0,16,16]"), {"more than two"});
}

TEST(SafetensorsHeader, RejectsSizesThatOverflow) {
  for (const std::string shape : {"[4,4611686018427387904]", "[4611686018427387904,4,0]",
                                  "[2,9223372036854775807]", "[4294967296,4294967296]"}) {
    expect_rejected(replaced(kGood, "[4,2]", shape), {"\"a\"", "overflows 64 bits"});
  }
  std::string many = "1";
  for (int i = 0; i < 64; ++i) many += ",1";
  expect_rejected(replaced(kGood, "[4,2]", "[" + many + "]"), {"more than 64 dimensions"});
}

TEST(SafetensorsHeader, ComparesShapeAndRange) {
  expect_rejected(replaced(kGood, "[4,2]", "[4,3]"), {"\"a\"", "[4, 3]", "24 bytes", "are 16"});
  expect_rejected(replaced(kGood, "[0,16]", "[16,0]"), {"\"a\"", "data_offsets [16, 0]"});
}

TEST(SafetensorsHeader, RangesCoverTheDataExactly) {
  auto two = [](int a0, int a1, int b0, int b1) {
    return fmt::format(R"({{"a":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}},)"
                       R"("b":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}}}})",
                       a1 - a0, a0, a1, b1 - b0, b0, b1);
  };
  EXPECT_EQ(parse(two(0, 16, 16, 24)).tensors.size(), 2u);
  EXPECT_EQ(parse(two(8, 24, 0, 8)).tensors[0].spec.name, "b");
  expect_rejected(two(4, 16, 16, 24), {"hole", "\"a\""});
  expect_rejected(two(0, 16, 20, 24), {"hole of 4 bytes", "\"b\""});
  expect_rejected(two(0, 16, 12, 24), {"overlap", "\"a\"", "\"b\""});
  expect_rejected(two(0, 24, 0, 24), {"overlap"});
  expect_rejected(two(0, 24, 8, 16), {"overlap"});
  expect_rejected(two(0, 24, 8, 8), {"overlap"});  // an empty one inside another
  expect_rejected(two(0, 16, 16, 20), {"4 trailing bytes", "\"b\""});
  expect_rejected(two(0, 16, 16, 28), {"file is short by 4 bytes", "\"b\""});
  expect_rejected("{}", {"24 trailing bytes"});
}

TEST(SafetensorsHeader, NamesUnsupportedDtypes) {
  expect_rejected(replaced(kGood, "BF16", "F128"), {"\"a\"", "unknown dtype \"F128\"", "F8_E4M3"});
  expect_rejected(replaced(kGood, "BF16", "bf16"), {"unknown dtype \"bf16\"", "spells it BF16"});
  expect_rejected(replaced(kGood, "BF16", "F4"), {"\"a\"", "dtype F4 is not supported"});
  expect_rejected(replaced(kGood, "BF16", "F6_E2M3"), {"F6_E2M3 is not supported"});
  expect_rejected(replaced(kGood, "BF16", "C64"), {"C64 is not supported"});
  EXPECT_EQ(error_of([] { parse(replaced(kGood, "BF16", "F4")); })->code(), ErrorCode::kUnsupported);
}

TEST(SafetensorsHeader, ShortensAndEscapesNamesInMessages) {
  const std::string text = replaced(kGood, "\"a\"", "\"evil\\n" + std::string(100000, 'x') + "\"");
  const auto error = error_of([&] { parse(replaced(text, "BF16", "F4")); });
  ASSERT_TRUE(error);
  EXPECT_LT(std::string(error->what()).size(), 1000u);
  EXPECT_EQ(std::string(error->what()).find('\n'), std::string::npos);
}

TEST(SafetensorsFile, RejectsSizesBeforeReading) {
  const TempFolder folder;
  auto read = [&](const std::string& bytes) {
    write_file(folder / "m.safetensors", bytes);
    return read_safetensors_header(File::open_read(folder / "m.safetensors"));
  };
  for (size_t n = 0; n < 8; ++n)
    expect_error([&] { read(std::string(n, 'a')); }, {"m.safetensors", "takes 8"});
  const std::string good = framed(kGood, std::string(24, '\1'));
  EXPECT_EQ(read(good).data_start, 8 + kGood.size());
  for (const uint64_t n : {uint64_t{100'000'001}, uint64_t{1} << 63, UINT64_MAX, UINT64_MAX - 7})
    expect_error([&] { read(prefix(n) + good.substr(8)); },
                 {"m.safetensors", "header length", "at most 100000000"});
  for (const uint64_t n : {good.size() - 7, good.size(), size_t{99'000'000}})
    expect_error([&] { read(prefix(n) + good.substr(8)); }, {"m.safetensors", "short by"});
  expect_error([&] { read(prefix(0) + good.substr(8)); }, {"begin with {"});
  for (size_t cut = 1; cut < 16; ++cut) {
    const size_t keep = good.size() * cut / 16;
    expect_error([&] { read(good.substr(0, keep)); }, {"m.safetensors", "short by"});
  }
  expect_error([&] { read(good.substr(0, good.size() - 1)); }, {"file is short by 1 bytes"});
  expect_error([&] { read(good + "PK\x03\x04trailing...."); }, {"16 trailing bytes"});
}

TEST(SafetensorsFile, SaysWhatTheFileLooksLike) {
  const TempFolder folder;
  auto expect_kind = [&](const std::string& bytes, const std::string& kind) {
    write_file(folder / "m.safetensors", bytes);
    expect_error([&] { read_safetensors_header(File::open_read(folder / "m.safetensors")); },
                 {"m.safetensors", kind});
  };
  expect_kind("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 273312\n",
              "Git LFS pointer");
  expect_kind("<!DOCTYPE html>\n<html><head></head></html>\n", "an HTML page");
  expect_kind("\n<HTML>Please sign in</HTML>", "an HTML page");
  expect_kind("{\"error\":\"Repository not found\"}", "JSON text");
  expect_kind(std::string("PK\x03\x04\x14\0\0\0\x08\0", 10) + std::string(40, 'z'), "a zip archive");
  expect_kind("GGUF\x03" + std::string(40, '\0'), "roundel import");
  expect_kind(std::string(4096, '\0'), "zero bytes");
  expect_kind("\x80\x02}q" + std::string(40, 'z'), "pickle");
}

TEST(SafetensorsFile, StaysSmallForManyTensors) {
  const TempFolder folder;
  constexpr size_t kCount = 200'000;
  std::string json = "{";
  json.reserve(kCount * 70);
  for (size_t i = 0; i < kCount; ++i)
    json +=
        fmt::format("{}\"x.{}\":{{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}", i ? "," : "", i);
  json += "}";
  const uint64_t before = peak_rss_bytes();
  const std::clock_t start = std::clock();  // of this process: the machine may be busy
  const auto header = parse_safetensors_header(json, 0, "x.safetensors");
  EXPECT_EQ(header.tensors.size(), kCount);
  if (!kSanitized) {
    EXPECT_LT(peak_rss_bytes() - before, 5 * json.size());
    EXPECT_LT(std::clock() - start, 10 * CLOCKS_PER_SEC);
  }
}

TEST(SafetensorsFile, HeaderIsMadeAndReadBack) {
  const std::vector<TensorSpec> specs = {{"w\"\\\n\u00e9", DType::kI8, {3, 5}},
                                         {"s", DType::kBF16, {}},
                                         {"none", DType::kF64, {0, 7}},
                                         {"z", DType::kI64, {2}}};
  const std::string bytes = make_safetensors_header(specs, {{"format", "pt"}});
  EXPECT_EQ(bytes.size() % 8, 0u);
  const auto header = parse_safetensors_header(bytes.substr(8), 15 + 2 + 16, "x");
  ASSERT_EQ(header.tensors.size(), specs.size());
  uint64_t begin = 0;
  for (size_t i = 0; i < specs.size(); ++i) {
    EXPECT_EQ(header.tensors[i].spec.name, specs[i].name);
    EXPECT_EQ(header.tensors[i].spec.dtype, specs[i].dtype);
    EXPECT_EQ(header.tensors[i].spec.shape, specs[i].shape);
    EXPECT_EQ(header.tensors[i].begin, begin);
    begin += specs[i].bytes();
  }
  EXPECT_EQ(header.data_start, bytes.size());
  expect_error(
      [] {
        make_safetensors_header({{"a", DType::kU8, {1}}, {"a", DType::kU8, {1}}}, {});
      },
      {"\"a\""});
  expect_error([] { make_safetensors_header({{"__metadata__", DType::kU8, {1}}}, {}); }, {"__metadata__"});
}

}  // namespace
}  // namespace roundel
