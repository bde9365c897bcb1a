// The file that keeps measured tiles, and where the user's cache is.
#include "model/tile_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"

namespace roundel {
namespace {

namespace fs = std::filesystem;

TileRow row(int64_t m, bool whole, Tiles tiles, const char* kernel = "a", const char* weights = "int4.g128") {
  return {{kernel, weights, 6144, 4096, m, whole}, tiles, 7.5, 8.25};
}

class TileFile : public testing::Test {
 protected:
  TileFile() : folder_(fs::path(testing::TempDir()) / ("roundel_tiles_" + std::to_string(::getpid()))) {
    fs::remove_all(folder_);
    info_.name = "NVIDIA H200", info_.major = 9, info_.minor = 0;
    table_.put(row(1, true, {2, 1, 8, 3, 1}));
    table_.put(row(64, false, {2, 2, 4, 2, 0}, "b", "e4m3.row"));
  }
  ~TileFile() override { fs::remove_all(folder_); }
  fs::path file() const { return tile_file(folder_ / "deeper", info_); }
  std::string write() const {
    write_tiles(file(), info_, table_);
    return read_text_file(file(), 1 << 20);
  }
  // Whether a file of this text is used; says what the warning was.
  bool used(const std::string& text) {
    write_text_file(file(), text);
    testing::internal::CaptureStderr();
    const bool there = read_tiles(file(), info_).has_value();
    warning_ = testing::internal::GetCapturedStderr();
    return there;
  }
  fs::path folder_;
  DeviceInfo info_;
  TileTable table_;
  std::string warning_;
};

TEST_F(TileFile, HoldsWhatWasWritten) {
  EXPECT_FALSE(read_tiles(file(), info_)) << "there is none";
  write();
  EXPECT_EQ(file().filename(), "tiles-nvidia-h200-9.0.json");
  const auto again = read_tiles(file(), info_);
  ASSERT_TRUE(again);
  ASSERT_EQ(again->rows.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(again->rows[i].key, table_.rows[i].key);
    EXPECT_EQ(again->rows[i].tiles, table_.rows[i].tiles);
    EXPECT_EQ(again->rows[i].us, 7.5);
    EXPECT_EQ(again->rows[i].default_us, 8.25);
  }
  size_t files = 0;
  for (const auto& entry : fs::directory_iterator(file().parent_path())) files += entry.is_regular_file();
  EXPECT_EQ(files, 1u) << "temporary files were left";
}

TEST_F(TileFile, IsLeftOutWithAWarningWhenItIsNotForHere) {
  const Json good = parse_json(write(), "test");
  EXPECT_TRUE(used(good.dump()));
  EXPECT_EQ(warning_, "");
  for (const auto& [field, value] : {std::pair<const char*, Json>{"program", "0.0.1"},
                                     {"kernels", kTileVersion + 1},
                                     {"gpu", "NVIDIA H100"},
                                     {"compute_capability", "8.0"},
                                     {"format", "other"}}) {
    Json other = good;
    other[field] = value;
    EXPECT_FALSE(used(other.dump())) << field;
    EXPECT_NE(warning_.find(field), std::string::npos) << warning_;
    EXPECT_EQ(std::count(warning_.begin(), warning_.end(), '\n'), 1) << warning_;
    other.erase(field);
    EXPECT_FALSE(used(other.dump())) << field;
  }
}

TEST_F(TileFile, IsLeftOutWithAWarningWhenItIsDamaged) {
  const std::string text = write();
  const Json good = parse_json(text, "test");
  std::vector<std::string> bad = {"",
                                  "[]",
                                  "null",
                                  "\x7f"
                                  "ELF",
                                  text.substr(0, text.size() / 2),
                                  text + "{}"};
  const auto change = [&](auto&& f) {
    Json other = good;
    f(other["rows"]);
    bad.push_back(other.dump());
  };
  change([](Json& rows) { rows = 3; });
  change([](Json& rows) { rows[0] = "row"; });
  change([](Json& rows) { rows[0].erase("whole"); });
  change([](Json& rows) { rows[0].erase("tiles"); });
  change([](Json& rows) { rows[0]["tiles"] = {1, 2, 3}; });
  change([](Json& rows) { rows[0]["tiles"] = {1, 2, 3, 4, -5}; });
  change([](Json& rows) { rows[0]["tiles"] = {1, 2, 3, 4, 5.5}; });
  change([](Json& rows) { rows[0]["m"] = 0; });
  change([](Json& rows) { rows[0]["n"] = "6144"; });
  change([](Json& rows) { rows[0]["kernel"] = nullptr; });
  for (const std::string& b : bad) {
    EXPECT_FALSE(used(b)) << b;
    EXPECT_EQ(std::count(warning_.begin(), warning_.end(), '\n'), 1) << b << ": " << warning_;
    EXPECT_NE(warning_.find(file().filename()), std::string::npos) << warning_;
  }
  fs::remove(file());
  fs::create_directory(file());
  EXPECT_FALSE(read_tiles(file(), info_)) << "a folder under that name";
}

TEST_F(TileFile, AFolderThatCannotBeMadeIsAnError) {
  fs::create_directories(folder_);
  write_text_file(folder_ / "deeper", "a file");
  EXPECT_THROW(write_tiles(file(), info_, table_), Error);
}

struct Variable {
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* now = std::getenv(name)) before_ = now;
    value ? setenv(name, value, 1) : unsetenv(name);
  }
  ~Variable() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }
  const char* name_;
  std::optional<std::string> before_;
};

TEST(UserCache, FollowsTheEnvironment) {
  const Variable home("HOME", "/home/somebody");
  {
    const Variable xdg("XDG_CACHE_HOME", "/caches");
    EXPECT_EQ(user_cache_folder(), "/caches/roundel");
  }
  for (const char* not_absolute : {"", "caches", static_cast<const char*>(nullptr)}) {
    const Variable xdg("XDG_CACHE_HOME", not_absolute);
    EXPECT_EQ(user_cache_folder(), "/home/somebody/.cache/roundel");
  }
  const Variable xdg("XDG_CACHE_HOME", nullptr), none("HOME", nullptr);
  EXPECT_EQ(user_cache_folder(), "");
}

}  // namespace
}  // namespace roundel
