// What a decode step is made of on the GPU: attention with the rotation in it, and picking the next token.
#include "base/numeric.h"
#include "base/rng.h"
#include "tests/cuda/gpu.h"

namespace roundel {
namespace {

std::vector<float> random_floats(size_t n, uint64_t seed) {
  std::vector<float> x(n);
  for (size_t i = 0; i < n; ++i) x[i] = static_cast<float>(4 * random_unit(seed, i) - 2);
  return x;
}

struct Shape {
  int64_t heads, kv_heads, head_dim, half, window;
  bool norm;
  KvType type;
  std::vector<int32_t> positions;
};

constexpr int64_t kLayer = 1, kParts = 3, kCapacity = 1010;

// Queries, keys and values of some tokens, each of its own sequence, and their caches.
struct Decode {
  explicit Decode(const Shape& shape) : s(shape), tokens(static_cast<int64_t>(s.positions.size())) {
    columns = (s.heads + 2 * s.kv_heads) * s.head_dim;
    per_cache = static_cast<size_t>(4 * s.kv_heads * kCapacity * s.head_dim);
    outputs = static_cast<size_t>(tokens * s.heads * s.head_dim);
    qkv = to_gpu(random_floats(static_cast<size_t>(kParts * tokens * columns), 1));
    kv = kv_bytes(s.type) > 1 ? DeviceKv{s.type} : DeviceKv{s.type, 0.05f, 0.1f, 8};
    row_bytes = s.head_dim * kv_bytes(s.type);
    for (const float v : random_floats(per_cache * static_cast<size_t>(tokens), 2)) {
      const uint16_t bits = float_to_bf16(v);
      if (s.type == KvType::kF32) cache.insert(cache.end(), 2, 0);  // floats that BF16 can hold
      if (kv_bytes(s.type) > 1) cache.push_back(static_cast<uint8_t>(bits & 255));
      cache.push_back(s.type == KvType::kE4M3   ? float_to_e4m3(v / 0.05f)
                      : s.type == KvType::kInt8 ? static_cast<uint8_t>(static_cast<int8_t>(v / 0.05f))
                                                : static_cast<uint8_t>(bits >> 8));
    }
    gain = to_gpu(random_floats(static_cast<size_t>(s.head_dim), 3));
    std::vector<float> cos, sin;
    for (int64_t i = 0; i < tokens * s.half; ++i) {
      const double angle = 6 * random_unit(4, static_cast<uint64_t>(i));
      cos.push_back(static_cast<float>(std::cos(angle))), sin.push_back(static_cast<float>(std::sin(angle)));
    }
    dcos = to_gpu(cos), dsin = to_gpu(sin);
  }
  RopeArgs rope() const {
    RopeArgs r;
    r.tokens = tokens, r.heads = s.heads, r.kv_heads = s.kv_heads, r.head_dim = s.head_dim, r.half = s.half;
    r.layer = kLayer;
    r.q = {qkv.data(), columns, false, static_cast<int>(kParts), tokens * columns};
    r.k = r.v = r.q;
    r.k.data = qkv.as<float>() + s.heads * s.head_dim;
    r.v.data = qkv.as<float>() + (s.heads + s.kv_heads) * s.head_dim;
    r.cos = dcos.as<float>(), r.sin = dsin.as<float>();
    if (s.norm) r.q_norm = r.k_norm = gain.as<float>(), r.eps = 1e-5f;
    r.kv = kv;
    return r;
  }
  // Output and caches after the one kernel, or the two.
  std::pair<std::vector<float>, std::vector<uint8_t>> run(bool together) const {
    const DeviceOps& ops = device_ops(gpu()->info());
    const DeviceBuffer q = poisoned(outputs * 2), result = poisoned(outputs * 2);
    const DeviceBuffer scratch = poisoned(outputs * 4 * 20);
    const DeviceBuffer counters = to_gpu(std::vector<uint32_t>(8192, 0));
    std::vector<TokenInfo> info;
    std::vector<PagedCache> caches;
    const int64_t cache_bytes = static_cast<int64_t>(per_cache) * kv_bytes(s.type);
    for (int64_t t = 0; t < tokens; ++t) {
      const auto from = cache.begin() + t * cache_bytes;
      caches.emplace_back(std::vector<uint8_t>(from, from + cache_bytes), 4 * s.kv_heads, kCapacity,
                          row_bytes);
      info.push_back({0, s.positions[static_cast<size_t>(t)], caches.back().pages()});
    }
    const DeviceBuffer dinfo = to_gpu(info);
    RopeArgs r = rope();
    r.info = dinfo.as<TokenInfo>(), r.q_out = q.as<uint16_t>();
    DeviceAttentionArgs a;
    a.tokens = tokens, a.heads = s.heads, a.kv_heads = s.kv_heads, a.head_dim = s.head_dim, a.layer = kLayer;
    a.scale = 1.0f / std::sqrt(static_cast<float>(s.head_dim));
    a.window = s.window, a.info = r.info, a.kv = kv, a.q = r.q_out, a.out = result.as<uint16_t>();
    a.ldo = s.heads * s.head_dim, a.splits = 4;
    a.scratch = scratch.as<float>(), a.counters = counters.as<uint32_t>();
    if (together) {
      ops.attend_next(r, a, gpu()->stream());
    } else {
      ops.rope(r, gpu()->stream());
      ops.attention(a, gpu()->stream());
    }
    std::vector<float> out;
    for (const uint16_t v : from_gpu<uint16_t>(result, outputs)) out.push_back(bf16_to_float(v));
    std::vector<uint8_t> after;
    for (const PagedCache& c : caches) {
      const auto piece = c.piece();
      after.insert(after.end(), piece.begin(), piece.end());
    }
    return {out, after};
  }

  const Shape& s;
  int64_t tokens, columns, row_bytes = 0;
  size_t per_cache, outputs;
  DeviceKv kv;
  DeviceBuffer qkv, gain, dcos, dsin;
  std::vector<uint8_t> cache;
};

// One kernel against two: same output up to the order of sums, same entries in the cache but for contracted sums.
TEST(DeviceDecode, AttentionWithRotationIsRotationThenAttention) {
  NEEDS_GPU();
  constexpr KvType kWide = KvType::kBF16, kFp8 = KvType::kE4M3, kInt = KvType::kInt8;
  for (const Shape& s :
       {Shape{4, 2, 64, 32, 0, false, kWide, {0}}, Shape{32, 8, 128, 64, 0, false, kWide, {300}},
        Shape{9, 3, 64, 32, 0, false, kWide, {5, 70, 0, 33}},
        Shape{32, 8, 128, 64, 0, true, kWide, {1000, 3, 200, 64, 1}},
        Shape{28, 4, 128, 64, 0, false, kFp8, {129, 31}}, Shape{9, 3, 64, 32, 0, true, kFp8, {64, 0, 700}},
        Shape{4, 4, 80, 20, 50, false, kInt, {200, 49, 50}},
        Shape{4, 4, 80, 20, 50, false, kWide, {200, 49, 50}},
        Shape{32, 8, 128, 64, 0, true, KvType::kF32, {1000, 3, 64}},
        Shape{2, 1, 256, 128, 0, false, KvType::kF32, {90, 17}},
        Shape{2, 1, 256, 128, 0, false, kWide, {90, 17}}, Shape{2, 1, 256, 128, 0, false, kFp8, {90, 17}},
        Shape{16, 8, 128, 64, 0, false, kWide, std::vector<int32_t>(40, 77)}}) {
    const Decode decode(s);
    const auto [want, want_cache] = decode.run(false);
    const auto [out, cache] = decode.run(true);
    EXPECT_LT(relative_error(out, want), 5e-3) << "heads " << s.heads << " head_dim " << s.head_dim
                                               << " tokens " << decode.tokens << " window " << s.window;
    size_t differ = 0, changed = 0;
    for (size_t i = 0; i < cache.size(); ++i) {
      differ += want_cache[i] != cache[i];
      changed += cache[i] != decode.cache[i];
    }
    if (s.type == KvType::kF32) {  // floats differ in their last bits
      EXPECT_LE(differ, changed / 2);
    } else {
      EXPECT_LE(differ, static_cast<size_t>(decode.tokens * s.kv_heads)) << "head_dim " << s.head_dim;
    }
    EXPECT_GT(changed,
              static_cast<size_t>(decode.tokens * s.kv_heads * s.head_dim));  // bytes of keys and values
  }
}

TEST(DeviceDecode, PicksTheFirstOfTheLargestAndFeedsTheNextStep) {
  NEEDS_GPU();
  const DeviceOps& ops = device_ops(gpu()->info());
  for (const auto& [rows, vocab] :
       {std::pair<int64_t, int64_t>{1, 50}, {3, 128256}, {32, 49152}, {64, 17000}}) {
    constexpr int64_t kSteps = 3, kHalf = 40;
    std::vector<TokenInfo> info(static_cast<size_t>(rows));
    for (size_t i = 0; i < info.size(); ++i) info[i] = {-1, static_cast<int32_t>(10 * i), nullptr};
    const DeviceBuffer dinfo = to_gpu(info), step = to_gpu(std::vector<int32_t>(1, 0));
    const DeviceBuffer ids = poisoned(static_cast<size_t>(kSteps * rows) * 4);
    const std::vector<float> next_cos = random_floats(static_cast<size_t>(2 * rows * kHalf), 7);
    const std::vector<float> next_sin = random_floats(static_cast<size_t>(2 * rows * kHalf), 8);
    const DeviceBuffer dnext_cos = to_gpu(next_cos), dnext_sin = to_gpu(next_sin);
    const DeviceBuffer cos = poisoned(static_cast<size_t>(rows * kHalf) * 4),
                       sin = poisoned(static_cast<size_t>(rows * kHalf) * 4);
    const DeviceBuffer scratch = poisoned(static_cast<size_t>(rows * kPickBlocks) * 8);
    const DeviceBuffer counters = to_gpu(std::vector<uint32_t>(128, 0));
    for (int32_t s = 0; s < kSteps; ++s) {
      std::vector<float> logits = random_floats(static_cast<size_t>(rows * vocab), static_cast<uint64_t>(s));
      logits[1] = NAN;
      logits[static_cast<size_t>(vocab - 1)] = logits[static_cast<size_t>(vocab / 2)] = 2.5f;  // equals
      const DeviceBuffer dlogits = to_gpu(logits);
      PickArgs p;
      p.rows = rows, p.vocab = p.ldl = vocab, p.logits = dlogits.as<float>(), p.info = dinfo.as<TokenInfo>();
      p.step = step.as<int32_t>(), p.ids = ids.as<int32_t>(), p.half = kHalf, p.steps = kSteps;
      p.cos = cos.as<float>(), p.sin = sin.as<float>();
      p.next_cos = dnext_cos.as<float>(), p.next_sin = dnext_sin.as<float>();
      p.scratch = scratch.as<uint64_t>(), p.counters = counters.as<uint32_t>();
      ops.pick(p, gpu()->stream());
      const auto picked = from_gpu<int32_t>(ids, static_cast<size_t>(kSteps * rows));
      const auto after = from_gpu<TokenInfo>(dinfo, info.size());
      const auto now = from_gpu<float>(cos, static_cast<size_t>(rows * kHalf));
      for (int64_t r = 0; r < rows; ++r) {
        int32_t want = -1;
        for (int64_t i = 0; i < vocab; ++i) {
          const float v = logits[static_cast<size_t>(r * vocab + i)];
          if (v == v && (want < 0 || v > logits[static_cast<size_t>(r * vocab + want)]))
            want = static_cast<int32_t>(i);
        }
        ASSERT_EQ(picked[static_cast<size_t>(s * rows + r)], want) << "row " << r << " step " << s;
        EXPECT_EQ(after[static_cast<size_t>(r)].id, want);
        EXPECT_EQ(after[static_cast<size_t>(r)].position, 10 * r + s + 1);
        if (s + 1 < kSteps) {
          EXPECT_EQ(now[static_cast<size_t>(r * kHalf)],
                    next_cos[static_cast<size_t>((s * rows + r) * kHalf)]);
        }
      }
      EXPECT_EQ(from_gpu<int32_t>(step, 1)[0], s + 1);
    }
    for (const uint32_t c : from_gpu<uint32_t>(counters, 128)) EXPECT_EQ(c, 0u);
  }
}

}  // namespace
}  // namespace roundel
