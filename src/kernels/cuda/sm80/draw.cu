// Drawing the next token of each row: temperature, top-k, top-p, min-p and repetition penalty, the same token that
// engine/sampler.cpp draws from the same logits. Tokens are ordered by value, of equals the lower id first; each of the
// three questions (where does top-k end? where top-p? where is the mark?) asks for the token at which a running count or
// sum of weights passes a target, and is answered by a search over the digits of that order, 2048 sums at a time.
// Weights are integers, so that sums are exact in any order. A cluster of blocks shares a row.
#include "kernels/cuda/common/feed.cuh"
#include "kernels/cuda/sm80/kernels.h"

namespace roundel::cuda {
namespace {

// Five digits of 11 bits: 32 bits of value, 23 of the id.
constexpr int kThreads = 1024, kDigitBits = 11, kBins = 1 << kDigitBits, kDigits = 5, kIdBits = 23;

__device__ __forceinline__ void cluster_sync() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
#else
  __syncthreads();
#endif
}
__device__ __forceinline__ uint32_t read_shared_of(const uint32_t* mine, int rank) {
#if __CUDA_ARCH__ >= 900
  uint32_t x;
  asm volatile("{\n.reg .u32 at;\nmapa.shared::cluster.u32 at, %1, %2;\nld.shared::cluster.u32 %0, [at];\n}"
               : "=r"(x)
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(mine))), "r"(rank)
               : "memory");
  return x;
#else
  static_cast<void>(rank);
  return *mine;
#endif
}
__device__ __forceinline__ uint64_t read_shared_of(const uint64_t* mine, int rank) {
  const auto* words = reinterpret_cast<const uint32_t*>(mine);
  return read_shared_of(words, rank) | uint64_t{read_shared_of(words + 1, rank)} << 32;
}

__device__ double unit_of(uint64_t seed, uint64_t index) {  // random_unit() of base/rng.h
  uint64_t z = seed + (index + 1) * 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

struct Shared {
  uint32_t count[2][kBins], low[2][kBins], high[2][kBins];  // of two searches' steps in turn
  uint64_t exchange[2], warp_sums[32];
  uint32_t warp_counts[32];
  uint64_t bin, before, sum;
  uint32_t in_bin, count_before;
};

// Where a running sum passes its target: the tokens of `found` under `mask`, and the sum up to and with them.
struct Place {
  uint64_t found = 0, mask = 0, sum = 0;
};

// One row, seen by all threads of a cluster.
class Row {
 public:
  __device__ Row(const DrawArgs& a, Shared& shared)
      : a_(a),
        s_(shared),
        row_(blockIdx.y),
        vocab_(a.next.vocab),
        rank_(blockIdx.x),
        cluster_(gridDim.x),
        logits_(a.logits + row_ * a.next.ldl),
        weights_(a.weights + row_ * a.next.vocab) {}

  template <class F>
  __device__ void each(F&& f) const {
#pragma unroll 4
    for (int64_t i = rank_ * kThreads + threadIdx.x; i < vocab_; i += int64_t{cluster_} * kThreads) f(i);
  }
  __device__ uint64_t order_of(int64_t i) const {
    return uint64_t{ordered(logits_[i])} << 32 | ((1u << kIdBits) - 1 - static_cast<uint32_t>(i)) << 9;
  }

  // Sum or maximum over the row, the same in every thread.
  template <bool kMax>
  __device__ uint64_t reduce(uint64_t x) {
    const auto join = [](uint64_t p, uint64_t q) { return kMax ? max(p, q) : p + q; };
    for (int d = 16; d > 0; d /= 2) x = join(x, __shfl_xor_sync(~0u, x, d));
    __syncthreads();
    if (threadIdx.x % 32 == 0) s_.warp_sums[threadIdx.x / 32] = x;
    __syncthreads();
    x = s_.warp_sums[threadIdx.x % 32];
    for (int d = 16; d > 0; d /= 2) x = join(x, __shfl_xor_sync(~0u, x, d));
    const int turn = turn_++ & 1;
    if (threadIdx.x == 0) s_.exchange[turn] = x;
    cluster_sync();
    x = 0;
    for (int r = 0; r < cluster_; ++r) x = join(x, read_shared_of(&s_.exchange[turn], r));
    return x;
  }

  __device__ void penalize(double penalty) {
    if (penalty == 1) return;
    const uint32_t* seen = a_.seen + row_ * ((vocab_ + 31) / 32);
    each([&](int64_t i) {
      if (!(seen[i / 32] >> (i % 32) & 1)) return;
      const double l = logits_[i];
      logits_[i] = static_cast<float>(l > 0 ? l / penalty : l * penalty);
    });
  }

  // Weights of all tokens; returns their sum. The largest is 2^shift.
  __device__ uint64_t weigh(double temperature, int shift) {
    weighed_ = true;
    uint64_t most = 0;
    each([&](int64_t i) { most = max(most, uint64_t{ordered(logits_[i])}); });
    most = reduce<true>(most);
    const uint32_t bits = static_cast<uint32_t>(most);
    const double top = __uint_as_float(bits & 0x80000000u ? bits & 0x7fffffffu : ~bits);
    uint64_t sum = 0;
    each([&](int64_t i) {
      const double w = exp((static_cast<double>(logits_[i]) - top) / temperature);
      const uint64_t fixed = w > 0 ? static_cast<uint64_t>(ldexp(w, shift) + 0.5) : 0;  // NaN: 0
      weights_[i] = fixed;
      sum += fixed;
    });
    return reduce<false>(sum);
  }

  // The sum of weights of at least `least`.
  __device__ uint64_t sum_from(uint64_t least) {
    uint64_t sum = 0;
    each([&](int64_t i) { sum += weights_[i] >= least ? weights_[i] : 0; });
    return reduce<false>(sum);
  }

  // The first place where the count (or the sum of weights) is at least `target`, which is at least 1 and at most all.
  template <bool kCount>
  __device__ Place search(uint64_t target) {
    Place p;
    uint32_t count_before = 0;
    for (int digit = 0; digit < kDigits; ++digit) {
      const int turn = turn_++ & 1, shift = 64 - kDigitBits * (digit + 1);
      for (int i = threadIdx.x; i < kBins; i += kThreads)
        s_.count[turn][i] = s_.low[turn][i] = s_.high[turn][i] = 0;
      __syncthreads();
      each([&](int64_t i) {
        const uint64_t order = order_of(i);
        if ((order & p.mask) != p.found) return;
        const int bin = static_cast<int>(order >> shift & (kBins - 1));
        const uint64_t w = weighed_ ? weights_[i] : 0;
        const auto low = static_cast<uint32_t>(w);
        atomicAdd(&s_.count[turn][bin], 1u);
        if (w == 0) return;
        const uint32_t was = atomicAdd(&s_.low[turn][bin], low);
        const uint32_t high = static_cast<uint32_t>(w >> 32) + (was + low < was);
        if (high) atomicAdd(&s_.high[turn][bin], high);
      });
      cluster_sync();
      choose_bin<kCount>(turn, target, p.sum, count_before);
      p.found |= s_.bin << shift;
      p.mask |= uint64_t{kBins - 1} << shift;
      const bool done = s_.in_bin == 1 || digit + 1 == kDigits;
      p.sum = done ? s_.before + s_.sum : s_.before;
      count_before = s_.count_before;
      if (done) break;
    }
    return p;
  }

  // The id of the one token at `p`.
  __device__ int32_t id_at(const Place& p) {
    uint64_t id = 0;
    each([&](int64_t i) {
      if ((order_of(i) & p.mask) == p.found) id = static_cast<uint64_t>(i);
    });
    return static_cast<int32_t>(reduce<true>(id));
  }

  __device__ void finish(int32_t id) {
    if (rank_ == 0) {
      if (threadIdx.x == 0 && a_.seen) a_.seen[row_ * ((vocab_ + 31) / 32) + id / 32] |= 1u << (id % 32);
      feed_next(a_.next, row_, id);
    }
    cluster_sync();  // shared memory stays until all have read it
  }

 private:
  // The row's bins from the highest down, two a thread; the one thread that meets the target writes it down.
  template <bool kCount>
  __device__ void choose_bin(int turn, uint64_t target, uint64_t before, uint32_t count_before) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, high_bin = kBins - 1 - 2 * threadIdx.x;
    uint32_t count[2] = {};
    uint64_t sum[2] = {};
    for (int j = 0; j < 2; ++j)
      for (int r = 0; r < cluster_; ++r) {
        count[j] += read_shared_of(&s_.count[turn][high_bin - j], r);
        sum[j] += read_shared_of(&s_.low[turn][high_bin - j], r) +
                  (uint64_t{read_shared_of(&s_.high[turn][high_bin - j], r)} << 32);
      }
    uint32_t count_to = count[0] + count[1];  // with this thread's
    uint64_t sum_to = sum[0] + sum[1];
    for (int d = 1; d < 32; d *= 2) {
      const uint32_t c = __shfl_up_sync(~0u, count_to, d);
      const uint64_t w = __shfl_up_sync(~0u, sum_to, d);
      if (lane >= d) count_to += c, sum_to += w;
    }
    __syncthreads();
    if (lane == 31) s_.warp_counts[warp] = count_to, s_.warp_sums[warp] = sum_to;
    __syncthreads();
    count_to += count_before, sum_to += before;
    for (int w = 0; w < warp; ++w) count_to += s_.warp_counts[w], sum_to += s_.warp_sums[w];
    uint32_t c = count_to - count[0] - count[1];
    uint64_t w = sum_to - sum[0] - sum[1];
    for (int j = 0; j < 2; ++j) {
      if ((kCount ? c : w) < target && (kCount ? c + count[j] : w + sum[j]) >= target) {
        s_.bin = static_cast<uint64_t>(high_bin - j);
        s_.before = w, s_.sum = sum[j];
        s_.count_before = c, s_.in_bin = count[j];
      }
      c += count[j], w += sum[j];
    }
    __syncthreads();
  }

  const DrawArgs& a_;
  Shared& s_;
  int64_t row_, vocab_;
  int rank_, cluster_;
  float* logits_;
  uint64_t* weights_;
  int turn_ = 0;
  bool weighed_ = false;
};

__global__ void __launch_bounds__(kThreads) draw_kernel(const DrawArgs a) {
  extern __shared__ __align__(16) uint8_t memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  wait_for_previous();
  const DrawRow d = a.draw[blockIdx.y];
  Row row(a, shared);
  row.penalize(d.repetition_penalty);
  if (d.temperature <= 0) {
    row.finish(row.id_at(row.search<true>(1)));
    return;
  }
  const int shift = 62 - (64 - __clzll(a.next.vocab - 1));
  uint64_t kept = row.weigh(d.temperature, shift);
  if (d.top_k > 0 && d.top_k < a.next.vocab) kept = row.search<true>(static_cast<uint64_t>(d.top_k)).sum;
  if (d.top_p < 1) {
    const double target = ceil(d.top_p * static_cast<double>(kept));
    kept = row.search<false>(max(uint64_t{1}, min(kept, static_cast<uint64_t>(target)))).sum;
  }
  if (d.min_p > 0) kept = min(kept, row.sum_from(static_cast<uint64_t>(ceil(ldexp(d.min_p, shift)))));
  const uint64_t step = d.step + static_cast<uint64_t>(*static_cast<const volatile int32_t*>(a.next.step));
  const auto mark = static_cast<uint64_t>(unit_of(d.seed, step) * static_cast<double>(kept));
  row.finish(row.id_at(row.search<false>(min(kept, mark + 1))));
}

}  // namespace

void draw(const DrawArgs& a, DeviceStream stream) {
  unsigned cluster = early_start() ? 8 : 1;  // compute capability 9.0 has clusters
  while (cluster > 1 && a.next.rows * cluster > 264) cluster /= 2;
  launch_in_clusters(cluster, draw_kernel, dim3(cluster, static_cast<unsigned>(a.next.rows)), kThreads,
                     sizeof(Shared), stream, "drawing", a);
}

}  // namespace roundel::cuda
