#include "codec/formats/old_packing.h"

#include <charconv>

#include "base/checked.h"

namespace roundel {
namespace {

// "0.17.1a2" -> 17; "1.0" -> large; -1 when it is not a version.
int64_t minor_version(const std::string& version) {
  int major = 0, minor = 0;
  const char* end = version.data() + version.size();
  const auto first = std::from_chars(version.data(), end, major);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != '.') return -1;
  if (std::from_chars(first.ptr + 1, end, minor).ec != std::errc()) return -1;
  return int64_t{major} * 1000000 + minor;
}

}  // namespace

int64_t packed_words(int64_t n, int bits, bool old_packing) {
  return old_packing ? ceil_div(n, 32 / bits) : ceil_div(n * bits, 32);
}

void unpack_old(const uint32_t* words, int64_t first, int64_t n, int bits, int8_t* codes) {
  const int64_t per_word = 32 / bits;
  const uint32_t mask = (1u << bits) - 1;
  const int32_t offset = 1 << (bits - 1);
  words += first / per_word;
  int64_t in_word = first % per_word;
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t u = (*words >> (in_word * bits)) & mask;
    codes[i] = static_cast<int8_t>(static_cast<int32_t>(u) - offset);
    if (++in_word == per_word) {
      in_word = 0;
      ++words;
    }
  }
}

bool is_old_packing(int bits, std::initializer_list<PackedLength> lengths,
                    const std::string& writer_version) {
  if (32 % bits == 0) return false;
  for (const PackedLength& length : lengths) {
    const bool dense = length.words == packed_words(length.values, bits, false);
    const bool old = length.words == packed_words(length.values, bits, true);
    if (dense != old) return old;
  }
  const int64_t minor = minor_version(writer_version);
  return minor >= 0 && minor < 18;
}

}  // namespace roundel
