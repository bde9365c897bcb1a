#include "checkpoint/checkpoint.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "support.h"

namespace roundel {
namespace {

namespace fs = std::filesystem;

std::string data_of(const std::string& name, size_t bytes) {
  std::string out(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) out[i] = static_cast<char>(name.back() * 7 + static_cast<int>(i));
  return out;
}

struct Toy {
  std::string name;
  Shape shape;
};

std::string file_with(const std::vector<Toy>& tensors) {
  std::vector<TensorSpec> specs;
  std::string data;
  for (const Toy& t : tensors) {
    specs.push_back({t.name, DType::kU8, t.shape});
    data += data_of(t.name, specs.back().bytes());
  }
  return make_safetensors_header(specs, {{"format", "pt"}}) + data;
}

void write_index(const fs::path& folder, const Json& index) {
  write_file(folder / "model.safetensors.index.json", index.dump(2));
}

std::string shard(int i, int n = 3) {
  return fmt::format("model-{:05}-of-{:05}.safetensors", i, n);
}

// Three shards: t1, t2 | t3 | t4, t5.
Json write_sharded(const fs::path& folder) {
  fs::create_directories(folder);
  write_file(folder / "config.json", "{}");
  write_file(folder / shard(1), file_with({{"t1", {3}}, {"t2", {2, 2}}}));
  write_file(folder / shard(2), file_with({{"t3", {5}}}));
  write_file(folder / shard(3), file_with({{"t4", {0}}, {"t5", {1}}}));
  Json index = {{"metadata", {{"total_size", 13}}},
                {"weight_map",
                 {{"t1", shard(1)}, {"t2", shard(1)}, {"t3", shard(2)}, {"t4", shard(3)}, {"t5", shard(3)}}}};
  write_index(folder, index);
  return index;
}

std::string read_all(const Checkpoint& c, const std::string& name) {
  const TensorSpec* spec = c.find(name);
  if (!spec) return "absent";
  std::string out(spec->bytes(), '\0');
  c.read(*spec, 0, out.data(), out.size());
  return out;
}

void expect_open_fails(const fs::path& folder, const std::vector<std::string>& words) {
  expect_error([&] { Checkpoint::open(folder); }, words);
}

// The file of the safetensors package with every dtype; reference.json holds the same in hex.
TEST(Checkpoint, ReadsWhatTheOriginalWrites) {
  const TempFolder folder;
  const fs::path data = fs::path(ROUNDEL_TEST_DATA) / "safetensors";
  write_file(folder / "config.json", "{}");
  fs::copy_file(data / "reference.safetensors", folder / "model.safetensors");
  const Json expected = read_json_file(data / "reference.json");
  const Checkpoint c = Checkpoint::open(folder.path());
  EXPECT_EQ(c.tensor_names().size(), expected.size());
  for (const auto& [name, e] : expected.items()) {
    const TensorSpec* spec = c.find(name);
    ASSERT_NE(spec, nullptr) << name;
    EXPECT_EQ(dtype_name(spec->dtype), e["dtype"].get<std::string>());
    EXPECT_EQ(spec->shape, e["shape"].get<Shape>());
    std::string hex;
    for (const char b : read_all(c, name)) hex += fmt::format("{:02x}", static_cast<unsigned char>(b));
    EXPECT_EQ(hex, e["data"].get<std::string>()) << name;
  }
}

TEST(Checkpoint, ReadsShardsAndParts) {
  const TempFolder folder;
  write_sharded(folder.path());
  const Checkpoint c = Checkpoint::open(folder.path());
  EXPECT_EQ(c.tensor_names(), (std::vector<std::string>{"t1", "t2", "t3", "t4", "t5"}));
  EXPECT_EQ(c.total_tensor_bytes(), 13u);
  ASSERT_EQ(c.files().size(), 3u);
  EXPECT_EQ(c.files()[2].name, shard(3));
  EXPECT_EQ(c.files()[2].tensors, (std::vector<std::string>{"t4", "t5"}));
  EXPECT_EQ(c.files()[1].size, fs::file_size(folder / shard(2)));
  EXPECT_TRUE(c.warnings().empty());
  for (const std::string name : {"t1", "t2", "t3", "t4", "t5"})
    EXPECT_EQ(read_all(c, name), data_of(name, c.find(name)->bytes()));
  char two[2];
  c.read(*c.find("t3"), 2, two, 2);
  EXPECT_EQ(std::string(two, 2), data_of("t3", 5).substr(2, 2));
  EXPECT_EQ(c.find("t6"), nullptr);
}

TEST(Checkpoint, ReadsUnalignedData) {
  const TempFolder folder;
  write_file(folder / "config.json", "{}");
  std::string header = R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  header += std::string((11 - header.size() % 8) % 8, ' ');
  ASSERT_EQ(header.size() % 8, 3u);
  const float values[2] = {1.5f, -0.25f};
  write_file(folder / "model.safetensors", framed(header, {reinterpret_cast<const char*>(values), 8}));
  const Checkpoint c = Checkpoint::open(folder.path());
  float got[2];
  c.read(*c.find("w"), 0, got, 8);
  EXPECT_EQ(got[0], 1.5f);
  EXPECT_EQ(got[1], -0.25f);
}

TEST(Checkpoint, ListsEveryMissingShard) {
  const TempFolder folder;
  write_sharded(folder.path());
  fs::remove(folder / shard(1));
  fs::remove(folder / shard(3));
  expect_open_fails(folder.path(), {"2 of the 3 shards", shard(1), shard(3)});
  fs::create_symlink("../blobs/gone", folder / shard(1));
  expect_open_fails(folder.path(), {shard(1), "link to ../blobs/gone", shard(3)});
}

TEST(Checkpoint, ComparesIndexAndShardsBothWays) {
  const TempFolder folder;
  Json index = write_sharded(folder.path());
  Json more = index;
  more["weight_map"]["extra.weight"] = shard(2);
  write_index(folder.path(), more);
  expect_open_fails(folder.path(), {"index.json", "\"extra.weight\"", "not in " + shard(2)});

  Json less = index;
  less["weight_map"].erase("t2");
  less["weight_map"]["t5"] = shard(2);
  write_index(folder.path(), less);
  expect_open_fails(folder.path(), {"\"t2\"", "not in the index", "\"t5\"", "the index says " + shard(2)});

  write_index(folder.path(), index);
  write_file(folder / shard(2), file_with({{"t3", {5}}, {"t1", {3}}}));
  expect_open_fails(folder.path(), {"\"t1\"", "two shards", shard(1), shard(2)});
}

TEST(Checkpoint, WarnsOfAWrongTotalSize) {
  const TempFolder folder;
  Json index = write_sharded(folder.path());
  index["metadata"]["total_size"] = 12345;
  write_index(folder.path(), index);
  const Checkpoint c = Checkpoint::open(folder.path());
  ASSERT_EQ(c.warnings().size(), 1u);
  EXPECT_NE(c.warnings()[0].find("12345"), std::string::npos);
  index["metadata"]["total_size"] = "lots";
  write_index(folder.path(), index);
  EXPECT_EQ(Checkpoint::open(folder.path()).warnings().size(), 1u);
}

TEST(Checkpoint, RefusesAmbiguousFolders) {
  const TempFolder folder;
  write_sharded(folder.path());
  write_file(folder / "model.safetensors", file_with({{"t1", {3}}}));
  expect_open_fails(folder.path(), {"ambiguous", "model.safetensors"});
  fs::remove(folder / "model.safetensors");
  write_file(folder / shard(4, 5), file_with({{"t9", {3}}}));
  expect_open_fails(folder.path(), {"ambiguous", shard(4, 5)});
  fs::remove(folder / "model.safetensors.index.json");
  expect_open_fails(folder.path(), {"model.safetensors.index.json is missing", shard(1)});
  write_file(folder / "model.safetensors", file_with({{"t1", {3}}}));
  expect_open_fails(folder.path(), {"ambiguous", shard(1)});
}

TEST(Checkpoint, AcceptsAnIndexOfOneFileAndNamesWhatItDoesNotRead) {
  const TempFolder folder;
  write_file(folder / "config.json", "{}");
  write_file(folder / "model.safetensors", file_with({{"t1", {3}}}));
  write_file(folder / "consolidated.safetensors", "anything");
  write_index(folder.path(), {{"weight_map", {{"t1", "model.safetensors"}}}});
  const Checkpoint c = Checkpoint::open(folder.path());
  ASSERT_EQ(c.warnings().size(), 1u);
  EXPECT_NE(c.warnings()[0].find("consolidated.safetensors"), std::string::npos);
}

TEST(Checkpoint, OpensOnlyPlainNamesInItsFolder) {
  const TempFolder root;
  const fs::path folder = root / "model";
  const Json index = write_sharded(folder);
  fs::create_directory(root / "other");
  fs::rename(folder / shard(3), root / "other" / "model.safetensors");
  const std::string absolute = (root / "other" / "model.safetensors").string();
  for (const std::string& name :
       {std::string("../other/model.safetensors"), absolute, std::string("a/b.safetensors"),
        std::string("..\\\\x.safetensors"), std::string(""), std::string(".."),
        std::string("x\0.safetensors", 14), std::string(5000, 'x') + ".safetensors"}) {
    Json bad = index;
    bad["weight_map"]["t4"] = name;
    bad["weight_map"]["t5"] = name;
    write_index(folder, bad);
    expect_open_fails(folder, {"index.json", "weight_map", "\"t4\"", "\"t5\"", "plain name"});
  }
}

TEST(Checkpoint, ReadsTheLayoutOfTheHuggingFaceCache) {
  const TempFolder root;
  write_sharded(root / "plain");
  fs::create_directories(root / "blobs");
  fs::create_directories(root / "snapshots/rev");
  for (const auto& entry : fs::directory_iterator(root / "plain")) {
    const std::string blob = "blob-" + entry.path().filename().string();
    fs::rename(entry.path(), root / "blobs" / blob);
    fs::create_symlink("../../blobs/" + blob, root / "snapshots/rev" / entry.path().filename());
  }
  fs::create_directory_symlink("snapshots/rev", root / "model");
  const Checkpoint c = Checkpoint::open(root / "model");
  EXPECT_EQ(read_all(c, "t3"), data_of("t3", 5));
}

TEST(Checkpoint, RejectsBrokenIndexes) {
  const TempFolder folder;
  const Json index = write_sharded(folder.path());
  auto expect_text_fails = [&](const std::string& text, const std::vector<std::string>& words) {
    write_file(folder / "model.safetensors.index.json", text);
    expect_open_fails(folder.path(), words);
  };
  expect_text_fails(index.dump(2).substr(0, 100), {"model.safetensors.index.json", "not valid JSON"});
  expect_text_fails("", {"model.safetensors.index.json", "empty"});
  expect_text_fails("[]", {"weight_map"});
  expect_text_fails("{}", {"weight_map is missing"});
  expect_text_fails(R"({"weight_map":{}})", {"weight_map"});
  expect_text_fails(R"({"weight_map":["a"]})", {"weight_map"});
  expect_text_fails(R"({"weight_map":{"t1":5}})", {"\"t1\"", "not a string"});
  expect_text_fails(R"({"weight_map":{"t1":"a.safetensors","t1":"a.safetensors"}})", {"duplicate key"});
  expect_text_fails(R"({"weight_map":{"t1":"model.bin"}})", {"does not end in .safetensors"});
  fs::remove(folder / "model.safetensors.index.json");
  ASSERT_EQ(mkfifo((folder / "model.safetensors.index.json").c_str(), 0600), 0);
  expect_open_fails(folder.path(), {"FIFO"});
}

TEST(Checkpoint, RejectsFilesThatAreNoFiles) {
  const TempFolder folder;
  write_file(folder / "config.json", "{}");
  const fs::path weights = folder / "model.safetensors";
  ASSERT_EQ(mkfifo(weights.c_str(), 0600), 0);
  expect_open_fails(folder.path(), {"model.safetensors", "FIFO"});
  fs::remove(weights);
  fs::create_directory(weights);
  expect_open_fails(folder.path(), {"model.safetensors", "directory"});
  fs::remove(weights);
  fs::create_symlink("model.safetensors", weights);
  expect_open_fails(folder.path(), {"model.safetensors", "cannot open"});
  fs::remove(weights);
  fs::create_symlink("/dev/zero", weights);
  expect_open_fails(folder.path(), {"model.safetensors", "special file"});
}

TEST(Checkpoint, SaysWhatAFolderHoldsInstead) {
  const TempFolder folder;
  expect_open_fails(folder / "nowhere", {"nowhere", "no such folder"});
  write_file(folder / "x.gguf", "GGUF");
  expect_open_fails(folder / "x.gguf", {"not a folder", "roundel import"});
  expect_open_fails(folder.path(), {"config.json is missing"});
  write_file(folder / "config.json", "[]");
  expect_open_fails(folder.path(), {"config.json", "expected an object"});
  write_file(folder / "config.json", "{\"a\": 1,\n}");
  expect_open_fails(folder.path(), {"config.json", "line 2"});
  write_file(folder / "config.json", std::string("{}\n\0{}", 6));
  expect_open_fails(folder.path(), {"config.json", "line 2", "zero byte"});
  write_file(folder / "config.json", "{}");
  expect_open_fails(folder.path(), {"no weights", "GGUF"});
  write_file(folder / "pytorch_model.bin", "x");
  write_file(folder / "adapter_config.json", "{}");
  write_file(folder / "adapter_model.safetensors", "x");
  expect_open_fails(folder.path(), {"no weights", "pickle", "adapter", "adapter_model.safetensors"});
}

TEST(Checkpoint, NoticesAFileThatShrinks) {
  const TempFolder folder;
  write_file(folder / "config.json", "{}");
  write_file(folder / "model.safetensors", file_with({{"t1", {100000}}}));
  const Checkpoint c = Checkpoint::open(folder.path());
  read_all(c, "t1");
  fs::resize_file(folder / "model.safetensors", 5000);
  expect_error([&] { read_all(c, "t1"); }, {"model.safetensors", "file is short by"});
  expect_open_fails(folder.path(), {"model.safetensors", "file is short by"});
}

TEST(Checkpoint, NoticesAFileThatWasReplaced) {
  const TempFolder folder;
  write_file(folder / "config.json", "{}");
  write_file(folder / "model.safetensors", file_with({{"t1", {100}}}));
  const Checkpoint c = Checkpoint::open(folder.path());
  write_file(folder / "other", file_with({{"t1", {100}}}));
  fs::rename(folder / "other", folder / "model.safetensors");
  expect_error([&] { read_all(c, "t1"); }, {"model.safetensors", "changed"});
}

// 600 shards, 64 file descriptors, 4 threads.
TEST(Checkpoint, NeedsFewOpenFiles) {
  const TempFolder folder;
  constexpr int kShards = 600;
  write_file(folder / "config.json", "{}");
  Json map = Json::object();
  for (int i = 1; i <= kShards; ++i) {
    const std::string name = fmt::format("layer.{}", i);
    write_file(folder / shard(i, kShards), file_with({{name, {8}}}));
    map[name] = shard(i, kShards);
  }
  write_index(folder.path(), {{"weight_map", map}});
  rlimit old{}, low{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
  low = old;
  low.rlim_cur = 64;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  std::atomic<int> wrong{0};
  {
    const Checkpoint c = Checkpoint::open(folder.path());
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        for (int i = 1; i <= kShards; ++i) {
          const std::string name = fmt::format("layer.{}", (i * 7 + t * 150) % kShards + 1);
          wrong += read_all(c, name) != data_of(name, 8);
        }
      });
    for (std::thread& t : threads) t.join();
  }
  setrlimit(RLIMIT_NOFILE, &old);
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace roundel
