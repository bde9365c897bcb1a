// The packing of compressed-tensors before 0.18: 32 / bits whole values in a word, the top bits unused. Read only.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <string>

namespace roundel {

// Words for n values: dense, or the old way.
int64_t packed_words(int64_t n, int bits, bool old_packing);
// n codes from value `first` of a stream on.
void unpack_old(const uint32_t* words, int64_t first, int64_t n, int bits, int8_t* codes);

struct PackedLength {
  int64_t values = 0;
  int64_t words = -1;  // -1: not known
};
// Which packing a module has: what the first length that can only be one of them says, else the version of the writer
// (dense from 0.18 on, and when there is none).
bool is_old_packing(int bits, std::initializer_list<PackedLength> lengths, const std::string& writer_version);

}  // namespace roundel
