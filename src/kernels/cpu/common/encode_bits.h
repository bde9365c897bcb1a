// Packing of codes into a little-endian bit stream, written once over a vector type V (cpu/<isa>/encode.cpp).
//
// A 64-bit lane holds 8 codes, a byte each. Three steps close the gaps between neighbours, each a shift of every other
// piece: 8 x B bits -> 4 x 2B -> 2 x 4B -> 8B bits at the bottom of the lane, that is B bytes of the stream:
//   u7 u6 u5 u4 u3 u2 u1 u0  ->  .u7u6 .u5u4 .u3u2 .u1u0  ->  ..u7u6u5u4 ..u3u2u1u0  ->  ....u7u6u5u4u3u2u1u0
// A byte shuffle joins the two lanes of 16 bytes, which leaves 2B bytes to write. Unpacking is the same backwards.
#pragma once
#include <stdint.h>
#include <string.h>

namespace roundel {

template <class V, int B>
struct EncodeBits {
  using I = typename V::I;
  static constexpr int64_t kCodes = sizeof(I);
  static constexpr int64_t kBytes = kCodes * B / 8;
  static constexpr int kHalves = sizeof(I) / 16;
  static constexpr uint64_t kOffset = uint64_t{0x0101010101010101} << (B - 1);

  // Bits [0, n) of each piece of `width` bits.
  static constexpr uint64_t each(int width, int n) {
    uint64_t mask = 0;
    for (int i = 0; i < 64; i += width) mask |= ((uint64_t{1} << n) - 1) << i;
    return mask;
  }
  struct Shuffle {
    uint8_t join[16], part[16];
  };
  static constexpr Shuffle shuffle() {
    Shuffle s{};
    for (int i = 0; i < 16; ++i) {
      s.join[i] = static_cast<uint8_t>(i < B ? i : i < 2 * B ? i - B + 8 : 0x80);
      const int byte = i % 8;
      s.part[i] = static_cast<uint8_t>(byte < B ? i / 8 * B + byte : 0x80);
    }
    return s;
  }
  static constexpr Shuffle kShuffle = shuffle();

  static void pack_step(const int8_t* codes, char* out) {
    constexpr uint64_t kLow8 = 0x00ff00ff00ff00ff, kLow16 = 0x0000ffff0000ffff, kLow32 = 0x00000000ffffffff;
    I x = V::iand(V::add8(V::iload(codes), V::iset64(kOffset)), V::iset64(each(8, 8) & each(8, B)));
    x = V::ior(V::iand(x, V::iset64(kLow8)), V::template srl16<8 - B>(V::iand(x, V::iset64(~kLow8))));
    x = V::ior(V::iand(x, V::iset64(kLow16)), V::template srl32<16 - 2 * B>(V::iand(x, V::iset64(~kLow16))));
    x = V::ior(V::iand(x, V::iset64(kLow32)), V::template srl64<32 - 4 * B>(V::iand(x, V::iset64(~kLow32))));
    alignas(64) char joined[sizeof(I)];
    V::istore(joined, V::shuffle8(x, kShuffle.join));
    for (int h = 0; h < kHalves; ++h) memcpy(out + h * 2 * B, joined + h * 16, 2 * B);
  }

  // Reads 16 - 2B bytes beyond the kBytes it needs.
  static void unpack_step(const char* in, int8_t* codes) {
    constexpr uint64_t kHigh8 = 0xff00ff00ff00ff00, kHigh16 = 0xffff0000ffff0000,
                       kHigh32 = 0xffffffff00000000;
    I x = V::shuffle8(V::load_halves(in, 2 * B), kShuffle.part);
    x = V::ior(V::iand(x, V::iset64(each(64, 4 * B))),
               V::iand(V::template sll64<32 - 4 * B>(x), V::iset64(kHigh32)));
    x = V::ior(V::iand(x, V::iset64(each(32, 2 * B))),
               V::iand(V::template sll32<16 - 2 * B>(x), V::iset64(kHigh16)));
    x = V::ior(V::iand(x, V::iset64(each(16, B))), V::iand(V::template sll16<8 - B>(x), V::iset64(kHigh8)));
    V::istore(codes, V::sub8(x, V::iset64(kOffset)));
  }

  static int64_t stream_bytes(int64_t n) { return (n * B + 31) / 32 * 4; }

  static void pack(const int8_t* codes, int64_t n, uint32_t* words) {
    char* out = reinterpret_cast<char*>(words);
    int64_t i = 0;
    for (; i + kCodes <= n; i += kCodes, out += kBytes) pack_step(codes + i, out);
    if (i == n) return;
    // The value that becomes 0 fills up the last vector, so that padding bits are 0.
    alignas(64) int8_t rest[kCodes];
    alignas(64) char rest_bytes[kBytes];
    memset(rest, -(1 << (B - 1)), sizeof(rest));
    memcpy(rest, codes + i, static_cast<size_t>(n - i));
    pack_step(rest, rest_bytes);
    memcpy(out, rest_bytes, static_cast<size_t>(stream_bytes(n) - i * B / 8));
  }

  static void unpack(const uint32_t* words, int64_t n, int8_t* codes) {
    const char* in = reinterpret_cast<const char*>(words);
    const int64_t bytes = stream_bytes(n);
    int64_t i = 0, at = 0;
    for (; i + kCodes <= n && at + kBytes + 16 <= bytes; i += kCodes, at += kBytes)
      unpack_step(in + at, codes + i);
    while (i < n) {
      alignas(64) char rest[kBytes + 16] = {};
      alignas(64) int8_t rest_codes[kCodes];
      memcpy(rest, in + at, static_cast<size_t>(bytes - at < kBytes ? bytes - at : kBytes));
      unpack_step(rest, rest_codes);
      memcpy(codes + i, rest_codes, static_cast<size_t>(n - i < kCodes ? n - i : kCodes));
      i += kCodes;
      at += kBytes;
    }
  }
};

template <class V>
struct EncodeAllBits {
  static void pack(const int8_t* codes, int64_t n, int bits, uint32_t* words) {
    using Fn = void (*)(const int8_t*, int64_t, uint32_t*);
    static constexpr Fn kPack[] = {EncodeBits<V, 1>::pack, EncodeBits<V, 2>::pack, EncodeBits<V, 3>::pack,
                                   EncodeBits<V, 4>::pack, EncodeBits<V, 5>::pack, EncodeBits<V, 6>::pack,
                                   EncodeBits<V, 7>::pack, EncodeBits<V, 8>::pack};
    kPack[bits - 1](codes, n, words);
  }
  static void unpack(const uint32_t* words, int64_t n, int bits, int8_t* codes) {
    using Fn = void (*)(const uint32_t*, int64_t, int8_t*);
    static constexpr Fn kUnpack[] = {EncodeBits<V, 1>::unpack, EncodeBits<V, 2>::unpack,
                                     EncodeBits<V, 3>::unpack, EncodeBits<V, 4>::unpack,
                                     EncodeBits<V, 5>::unpack, EncodeBits<V, 6>::unpack,
                                     EncodeBits<V, 7>::unpack, EncodeBits<V, 8>::unpack};
    kUnpack[bits - 1](words, n, codes);
  }
};

}  // namespace roundel
