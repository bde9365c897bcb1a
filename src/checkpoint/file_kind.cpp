#include "checkpoint/file_kind.h"

#include <algorithm>
#include <array>

namespace roundel {
namespace {

struct Kind {
  std::string_view magic;
  std::string_view text;
};

using namespace std::string_view_literals;
constexpr std::array kMagic = {
    Kind{"version https://git-lfs"sv,
         "a Git LFS pointer (the weights were not downloaded; run 'git lfs pull')"sv},
    Kind{"PK\x03\x04"sv, "a zip archive (perhaps PyTorch weights; convert them to safetensors)"sv},
    Kind{"\x80\x02"sv, "a Python pickle (convert it to safetensors)"sv},
    Kind{"GGUF"sv, "a GGUF file (use 'roundel import')"sv},
    Kind{"\x89HDF\r\n"sv, "an HDF5 file"sv},
    Kind{"\x1f\x8b"sv, "a gzip archive"sv},
    Kind{"BZh"sv, "a bzip2 archive"sv},
    Kind{"\xfd"
         "7zXZ"sv,
         "an xz archive"sv},
    Kind{"\x28\xb5\x2f\xfd"sv, "a zstd archive"sv},
    Kind{"%PDF-"sv, "a PDF file"sv},
};

bool begins_with_word(std::string_view text, std::string_view lower) {
  if (text.size() < lower.size()) return false;
  return std::equal(lower.begin(), lower.end(), text.begin(), [](char want, char have) {
    return want == (have >= 'A' && have <= 'Z' ? static_cast<char>(have - 'A' + 'a') : have);
  });
}

}  // namespace

std::string_view file_kind(std::string_view bytes) {
  for (const Kind& k : kMagic)
    if (bytes.starts_with(k.magic)) return k.text;
  if (!bytes.empty() && std::all_of(bytes.begin(), bytes.end(), [](char c) { return c == 0; }))
    return "a file of zero bytes (an interrupted download)";
  if (bytes.starts_with("\xEF\xBB\xBF")) bytes.remove_prefix(3);
  const size_t start = bytes.find_first_not_of(" \t\r\n");
  if (start == std::string_view::npos) return "";
  bytes.remove_prefix(start);
  for (const std::string_view tag : {"<!doctype html", "<html", "<head", "<body"})
    if (begins_with_word(bytes, tag)) return "an HTML page (perhaps a log-in or error page that was saved)";
  if (bytes.starts_with("<?xml")) return "an XML document (perhaps an error page that was saved)";
  if (bytes.starts_with("{") || bytes.starts_with("["))
    return "JSON text (perhaps an error message that was saved)";
  return "";
}

}  // namespace roundel
