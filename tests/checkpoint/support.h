// What the tests of this folder share: a temporary folder, small files, errors as values.
#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "tensor/tensor.h"

namespace roundel {

class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "roundel-test-XXXXXX").string();
    if (!mkdtemp(pattern.data())) std::abort();
    path_ = std::filesystem::canonical(pattern);
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

inline void write_file(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}
inline std::string read_file(const std::filesystem::path& path) {
  std::ostringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

// The Error that `f` throws; no value when it throws none.
template <class F>
std::optional<Error> error_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e;
  }
  return std::nullopt;
}

// Fails the test unless `f` throws an Error whose text has all the words.
template <class F>
void expect_error(F&& f, const std::vector<std::string>& words) {
  const auto error = error_of(f);
  ASSERT_TRUE(error) << "no error, expected one about " << words[0];
  const std::string text = error->what();
  for (const std::string& word : words)
    EXPECT_NE(text.find(word), std::string::npos) << "\"" << word << "\" is not in: " << text;
}

inline std::string prefix(uint64_t length) {
  std::string out(8, '\0');
  for (size_t i = 0; i < 8; ++i) out[i] = static_cast<char>(length >> (8 * i) & 0xFF);
  return out;
}

// Bytes of a safetensors file with this header text.
inline std::string framed(const std::string& header, const std::string& data) {
  return prefix(header.size()) + header + data;
}

}  // namespace roundel
