// The encode operations of each instruction set; kernels/cpu/driver/encode.cpp puts them into EncodeOps.
#pragma once
#include "kernels/api/encode.h"

namespace roundel {

RangeResult avx2_range(SourceType type, const void* x, int64_t n);
void avx2_encode_int(SourceType type, const void* x, int64_t n, float scale, float zero_point, float qmin,
                     float qmax, int8_t* codes);
void avx2_encode_e4m3(SourceType type, const void* x, int64_t n, float scale, uint8_t* codes);
void avx2_pack_bits(const int8_t* codes, int64_t n, int bits, uint32_t* words);
void avx2_unpack_bits(const uint32_t* words, int64_t n, int bits, int8_t* codes);

RangeResult avx512_range(SourceType type, const void* x, int64_t n);
void avx512_encode_int(SourceType type, const void* x, int64_t n, float scale, float zero_point, float qmin,
                       float qmax, int8_t* codes);
void avx512_encode_e4m3(SourceType type, const void* x, int64_t n, float scale, uint8_t* codes);
void avx512_pack_bits(const int8_t* codes, int64_t n, int bits, uint32_t* words);
void avx512_unpack_bits(const uint32_t* words, int64_t n, int bits, int8_t* codes);

}  // namespace roundel
