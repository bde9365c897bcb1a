// Packing: unpack after pack is the identity, padding bits are zero, all instruction sets agree, and nobody writes beyond
// the words that a stream needs. First byte: bits and the instruction set; the rest: codes.
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "base/cpu_features.h"
#include "kernels/list.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace roundel;
  if (size < 1) return 0;
  const int bits = data[0] % 8 + 1;
  const auto list = encode_ops_list();
  const EncodeOps& ops = *list[data[0] / 8 % list.size()];
  if (!ops.supports(cpu_features()).ok) return 0;
  const int64_t n = static_cast<int64_t>(size) - 1;
  std::vector<int8_t> codes(static_cast<size_t>(n)), back(codes.size());
  for (size_t i = 0; i < codes.size(); ++i) {
    codes[i] = static_cast<int8_t>((data[i + 1] & ((1 << bits) - 1)) - (1 << (bits - 1)));
  }
  const size_t count = (codes.size() * static_cast<size_t>(bits) + 31) / 32;
  std::vector<uint32_t> words(count), expected(count);
  ops.pack_bits(codes.data(), n, bits, words.data());
  list.back()->pack_bits(codes.data(), n, bits, expected.data());
  if (words != expected) std::abort();
  ops.unpack_bits(words.data(), n, bits, back.data());
  if (back != codes) std::abort();
  const size_t used = codes.size() * static_cast<size_t>(bits) % 32;
  if (used && words.back() >> used) std::abort();
  return 0;
}
