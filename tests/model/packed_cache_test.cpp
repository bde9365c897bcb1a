// Packed weights that a first load wrote and later loads map.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <thread>

#include "model/loaded_model.h"
#include "scheme/scheme_text.h"
#include "tests/checkpoint/support.h"

namespace roundel {
namespace {

namespace fs = std::filesystem;

class PackedCacheTest : public testing::Test {
 protected:
  PackedCacheTest() {
    fs::copy(ROUNDEL_TEST_DATA "/golden/dense/tiny_llama", model_, fs::copy_options::recursive);
  }

  LoadedModel load(const char* scheme = "W4A16:g32", bool cached = true, Rotation rotation = {}) const {
    LoadOptions options;
    options.threads = 2;
    options.rotation = rotation;
    options.quantize.emplace();
    options.quantize->groups.push_back({"", {"Linear"}, parse_scheme_text(scheme, "test").scheme});
    options.quantize->default_ignore = {"lm_head"};
    if (cached) options.cache = cache_;
    return load_model(model_, options);
  }
  static std::vector<float> states(const LoadedModel& m) {
    const std::vector<int32_t> tokens = {1, 20, 300, 4, 50, 6};
    KvCache cache = m.model->make_cache(1);
    std::vector<float> hidden(tokens.size() * static_cast<size_t>(m.model->hidden_ld()));
    const SequenceStep step{0, tokens};
    m.model->forward({&step, 1}, cache, hidden.data(), *m.pool);
    return hidden;
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> list;
    if (fs::is_directory(cache_))
      for (const auto& entry : fs::directory_iterator(cache_)) list.push_back(entry.path());
    return list;
  }
  // Other numbers in the second half of the file: weights, since the key at its beginning is short.
  static void spoil(const fs::path& file) {
    const uintmax_t size = fs::file_size(file);
    std::fstream f(file, std::ios::in | std::ios::out | std::ios::binary);
    f.seekp(static_cast<std::streamoff>(size / 2));
    f << std::string(size / 2, '\x3c');
  }

  TempFolder temp_;
  fs::path model_ = temp_.path() / "model", cache_ = temp_.path() / "cache";
};

TEST_F(PackedCacheTest, LaterLoadsReadWhatTheFirstWrote) {
  const std::vector<float> wanted = states(load("W4A16:g32", false));
  EXPECT_TRUE(files().empty());
  EXPECT_EQ(states(load()), wanted);
  ASSERT_EQ(files().size(), 1u);
  EXPECT_EQ(files()[0].extension(), ".packed");
  EXPECT_EQ(states(load()), wanted);
  EXPECT_EQ(files().size(), 1u);
  spoil(files()[0]);
  EXPECT_NE(states(load()), wanted) << "the file was not read";
}

TEST_F(PackedCacheTest, FileThatIsNotWholeIsMadeAgain) {
  const std::vector<float> wanted = states(load());
  const fs::path file = files().at(0);
  const uintmax_t whole = fs::file_size(file);
  for (const uintmax_t size : {whole - 1, whole / 2, uintmax_t{100}, uintmax_t{0}}) {
    fs::resize_file(file, size);
    EXPECT_EQ(states(load()), wanted) << size;
    EXPECT_EQ(fs::file_size(file), whole) << size;
  }
  std::fstream(file, std::ios::in | std::ios::out | std::ios::binary) << "something else";
  EXPECT_EQ(states(load()), wanted);
  EXPECT_EQ(states(load()), wanted);
}

TEST_F(PackedCacheTest, OtherSchemesKernelsAndFilesHaveTheirOwn) {
  load();
  load("W8A8");
  EXPECT_EQ(files().size(), 2u);
  setenv("ROUNDEL_FORCE_KERNEL", "reference", 1);
  load();
  unsetenv("ROUNDEL_FORCE_KERNEL");
  EXPECT_EQ(files().size(), 3u);
  const fs::path weights = model_ / "model.safetensors";
  fs::last_write_time(weights, fs::last_write_time(weights) + std::chrono::seconds(1));
  load();
  EXPECT_EQ(files().size(), 4u);
  load("W4A16:g32", true, {.residual = false, .heads = true});
  EXPECT_EQ(files().size(), 5u);
}

TEST_F(PackedCacheTest, WritersAtTheSameTimeLeaveOneWholeFile) {
  const std::vector<float> wanted = states(load("W4A16:g32", false));
  std::vector<std::vector<float>> got(4);
  std::vector<std::thread> threads;
  for (auto& g : got) threads.emplace_back([&] { g = states(load()); });
  for (std::thread& t : threads) t.join();
  for (const auto& g : got) EXPECT_EQ(g, wanted);
  ASSERT_EQ(files().size(), 1u);
  EXPECT_EQ(states(load()), wanted);
}

TEST_F(PackedCacheTest, FolderThatCannotBeIsAWarning) {
  std::ofstream(cache_) << "a file";
  EXPECT_EQ(states(load()), states(load("W4A16:g32", false)));
}

}  // namespace
}  // namespace roundel
