#include "checkpoint/tensor_writer.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/shard_plan.h"
#include "support.h"

namespace roundel {
namespace {

namespace fs = std::filesystem;

const std::vector<TensorSpec> kSpecs = {{"b", DType::kBF16, {4, 8}},
                                        {"a", DType::kF32, {10}},
                                        {"empty", DType::kI8, {0, 3}},
                                        {"c", DType::kI8, {100}}};

std::string bytes_of(const TensorSpec& s) {
  std::string out(s.bytes(), '\0');
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<char>(s.name[0] + static_cast<int>(i % 89));
  return out;
}

void write_all(TensorWriter& writer, const std::vector<TensorSpec>& specs) {
  for (const TensorSpec& s : specs) {
    const std::string bytes = bytes_of(s);
    const size_t half = bytes.size() / 2;
    writer.write(s.name, half, bytes.data() + half, bytes.size() - half);
    writer.write(s.name, 0, bytes.data(), half);
  }
}

void expect_complete(const fs::path& folder, const std::vector<TensorSpec>& specs) {
  write_file(folder / "config.json", "{}");
  const Checkpoint c = Checkpoint::open(folder);
  EXPECT_TRUE(c.warnings().empty());
  EXPECT_EQ(c.tensor_names().size(), specs.size());
  for (const TensorSpec& s : specs) {
    const TensorSpec* found = c.find(s.name);
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->dtype, s.dtype);
    EXPECT_EQ(found->shape, s.shape);
    std::string got(s.bytes(), '\0');
    c.read(*found, 0, got.data(), got.size());
    EXPECT_EQ(got, bytes_of(s)) << s.name;
  }
}

TEST(TensorWriter, WritesOneFile) {
  const TempFolder folder;
  TensorWriter writer(folder.path(), kSpecs);
  write_all(writer, kSpecs);
  writer.finish();
  EXPECT_EQ(writer.file_names(), std::vector<std::string>{"model.safetensors"});
  EXPECT_FALSE(fs::exists(folder / "model.safetensors.index.json"));
  EXPECT_NE(read_file(folder / "model.safetensors").find(R"("__metadata__":{"format":"pt"})"),
            std::string::npos);
  expect_complete(folder.path(), kSpecs);
}

TEST(TensorWriter, WritesShardsAndIndex) {
  const TempFolder folder;
  TensorWriter writer(folder.path(), kSpecs, {.max_shard_bytes = 104});
  write_all(writer, kSpecs);
  writer.finish();
  EXPECT_EQ(writer.file_names(), (std::vector<std::string>{"model-00001-of-00002.safetensors",
                                                           "model-00002-of-00002.safetensors"}));
  const std::string expected = R"({
  "metadata": {
    "total_size": 204
  },
  "weight_map": {
    "a": "model-00001-of-00002.safetensors",
    "b": "model-00001-of-00002.safetensors",
    "c": "model-00002-of-00002.safetensors",
    "empty": "model-00001-of-00002.safetensors"
  }
}
)";
  EXPECT_EQ(read_file(folder / "model.safetensors.index.json"), expected);
  expect_complete(folder.path(), kSpecs);
  EXPECT_EQ(TensorWriter::total_bytes(kSpecs), 204u);
}

TEST(TensorWriter, GivesALargeTensorItsOwnShard) {
  const auto shards =
      plan_shards({{"a", DType::kU8, {10}}, {"big", DType::kU8, {1000}}, {"c", DType::kU8, {10}}}, 100);
  ASSERT_EQ(shards.size(), 3u);
  EXPECT_EQ(shards[1].tensors[0].name, "big");
  EXPECT_EQ(plan_shards({{"a", DType::kU8, {50}}, {"b", DType::kU8, {50}}}, 100).size(), 1u);
  EXPECT_EQ(plan_shards({}, 100).size(), 1u);
  expect_error([] { plan_shards({{"a", DType::kU8, {1}}, {"a", DType::kU8, {1}}}, 1); }, {"\"a\""});
  expect_error([] { plan_shards({}, 0); }, {"0 bytes"});
}

// Readers map files: an offset that is no multiple of the element size gives them unaligned tensors.
TEST(TensorWriter, KeepsTensorsAligned) {
  const auto sorted =
      plan_shards({{"i", DType::kI32, {3}}, {"l", DType::kI64, {2}}, {"h", DType::kBF16, {1}}}, 1000);
  ASSERT_EQ(sorted[0].tensors.size(), 3u);
  EXPECT_EQ(sorted[0].tensors[0].name, "l");
  EXPECT_EQ(sorted[0].tensors[1].name, "i");
  const auto kept =
      plan_shards({{"i", DType::kI32, {2}}, {"l", DType::kI64, {2}}, {"h", DType::kBF16, {1}}}, 1000);
  EXPECT_EQ(kept[0].tensors[0].name, "i");
  for (const auto& plan : {sorted, kept}) {
    uint64_t at = plan[0].header.size();
    for (const TensorSpec& t : plan[0].tensors) {
      EXPECT_EQ(at % dtype_size(t.dtype), 0u) << t.name;
      at += t.bytes();
    }
    EXPECT_EQ(at, plan[0].file_bytes);
  }
}

TEST(TensorWriter, WritesFromManyThreadsIntoManyShards) {
  const TempFolder folder;
  std::vector<TensorSpec> specs;
  for (int i = 0; i < 300; ++i)
    specs.push_back({fmt::format("{}.w{}", 'a' + i % 26, i), DType::kU8, {64 + i}});
  rlimit old{}, low{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
  low = old;
  low.rlim_cur = 64;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  {
    TensorWriter writer(folder.path(), specs, {.max_shard_bytes = 100});
    EXPECT_GT(writer.file_names().size(), 250u);
    std::vector<std::thread> threads;
    for (size_t t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        for (size_t i = t; i < specs.size(); i += 4) write_all(writer, {specs[i]});
      });
    for (std::thread& t : threads) t.join();
    writer.flush();
    writer.finish();
  }
  setrlimit(RLIMIT_NOFILE, &old);
  expect_complete(folder.path(), specs);
}

TEST(TensorWriter, KeepsWhatAnEarlierRunWrote) {
  const TempFolder folder;
  const TensorWriterOptions shards{.max_shard_bytes = 104};
  {
    TensorWriter first(folder.path(), kSpecs, shards);
    write_all(first, {kSpecs[0], kSpecs[1]});
    first.flush();
  }
  {
    TensorWriterOptions keep = shards;
    keep.keep_existing = true;
    TensorWriter second(folder.path(), kSpecs, keep);
    write_all(second, {kSpecs[2], kSpecs[3]});
    second.finish();
  }
  expect_complete(folder.path(), kSpecs);
}

TEST(TensorWriter, RefusesToResumeAnotherLayout) {
  const TempFolder folder;
  { TensorWriter first(folder.path(), kSpecs); }
  const std::string before = read_file(folder / "model.safetensors");
  auto other = kSpecs;
  other[1].name = "x";  // the same sizes
  expect_error([&] { TensorWriter(folder.path(), other, {.keep_existing = true}); },
               {"model.safetensors", "header", "--resume"});
  other[1].shape = {11};
  expect_error([&] { TensorWriter(folder.path(), other, {.keep_existing = true}); },
               {"model.safetensors", "bytes"});
  EXPECT_EQ(read_file(folder / "model.safetensors"), before);
  fs::remove(folder / "model.safetensors");
  expect_error([&] { TensorWriter(folder.path(), kSpecs, {.keep_existing = true}); },
               {"missing", "--resume"});
}

TEST(TensorWriter, ZeroesWhatIsNotWritten) {
  const TempFolder folder;
  write_file(folder / "model.safetensors", std::string(100000, 'x'));
  TensorWriter writer(folder.path(), kSpecs);
  writer.finish();
  const std::string bytes = read_file(folder / "model.safetensors");
  EXPECT_EQ(bytes.substr(bytes.size() - 204), std::string(204, '\0'));
}

TEST(TensorWriter, FindsAFullDiskAtTheStart) {
  const TempFolder folder;
  rlimit old{}, low{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  low = old;
  low.rlim_cur = 4096;
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
  const auto error = error_of([&] { TensorWriter(folder.path(), {{"w", DType::kU8, {100000}}}); });
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kNoSpace);
  EXPECT_NE(std::string(error->what()).find("model.safetensors"), std::string::npos);
}

TEST(TensorWriter, NoticesWhenItsFilesAreTakenAway) {
  const TempFolder folder;
  TensorWriter writer(folder.path(), kSpecs);
  fs::remove(folder / "model.safetensors");
  expect_error([&] { writer.finish(); }, {"model.safetensors", "during this run"});
  expect_error([&] { writer.finish(); }, {"an earlier flush failed"});
}

}  // namespace
}  // namespace roundel
