// Times the GPU's small linear kernel with every choice of tiles, for the four linears of Llama-3-8B (or given shapes),
// weights cold: each call of a recorded graph reads another copy, together over 4 times the L2 cache. Every choice is
// checked first, against unpacked weights and cuBLASLt, from a poisoned output.
//
//   bench_device_tiles [--m 1,8,16] [--shape N,K]... [--bits 4] [--channel] [--all] [--gated] [--early]
//                      [--wide | --many | --bytes | --chosen] [--fp8]
// --wide: the warpgroup kernel (wide.cuh) instead; --many: that of more than 64 tokens (many.cuh), and last unpacking
// with cuBLASLt; --bytes: that of codes by codes (bytes.cuh), with --channel --bits 8
// or --fp8 (E4M3); --chosen: what the program runs for bf16 in and out, and BF16 weights by cuBLASLt beside it.
// --early: each call may start while the one before ends (programmatic dependent launch).
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/numeric.h"
#include "base/rng.h"
#include "kernels/cuda/common/launch.h"
#include "kernels/cuda/sm80/kernels.h"
#include "kernels/cuda/sm90/bytes.h"
#include "kernels/cuda/sm90/many.h"
#include "kernels/cuda/sm90/small.h"
#include "kernels/cuda/sm90/wide.h"
#include "kernels/device_list.h"

namespace roundel::cuda {
namespace {

struct Shape {
  const char* name;
  int64_t n, k;
};

enum class Way { kSmall, kWide, kMany, kBytes, kChosen };

class Bench {
 public:
  Bench(Device& device, const Shape& shape, int bits, bool channel, bool fp8) : d_(device) {
    p_.n = shape.n, p_.k = shape.k, p_.code = fp8 ? CodeType::kE4M3 : CodeType::kInt, p_.bits = bits;
    p_.has_scale = true;
    p_.group = channel ? shape.k : 128;
    u_ = unit_layout(p_);
    std::vector<int8_t> codes(static_cast<size_t>(p_.n * p_.k));
    const int mask = (1 << bits) - 1;
    for (size_t i = 0; i < codes.size(); i += 8) {
      const uint64_t r = random_u64(1, i);
      for (size_t j = 0; j < 8; ++j)
        codes[i + j] = static_cast<int8_t>(static_cast<int>(r >> (8 * j) & static_cast<uint64_t>(mask)) -
                                           (mask + 1) / 2);
    }
    if (fp8)  // no code is NaN
      for (int8_t& code : codes) code = (code & 0x7f) == 0x7f ? int8_t{0} : code;
    std::vector<float> scales(static_cast<size_t>(p_.n * p_.groups()));
    for (size_t i = 0; i < scales.size(); ++i)
      scales[i] = round_bf16(static_cast<float>(0.001 + 0.002 * random_unit(2, i)));
    const DeviceBuffer dcodes = upload(codes), dscales = upload(scales);
    packed_bytes_ = static_cast<size_t>((u_.bytes + 255) / 256 * 256);
    copies_ = std::max<int64_t>(2, static_cast<int64_t>((260ull << 20) / packed_bytes_) + 1);
    packed_ = DeviceBuffer(d_, packed_bytes_ * static_cast<size_t>(copies_), "weights");
    d_.clear(packed_.data(), packed_bytes_);
    DeviceWeightRows rows;
    rows.rows = p_.n, rows.codes = dcodes.data(), rows.scales = dscales.as<float>();
    pack_units(p_, rows, packed_.data(), d_.stream());
    for (int64_t i = 1; i < copies_; ++i)
      d_.copy(packed_.data() + static_cast<size_t>(i) * packed_bytes_, packed_.data(), packed_bytes_);
    d_.synchronize();
  }

  // The program's own choice, complete, beside dense BF16.
  void compare(int64_t m) {
    std::vector<uint16_t> x(static_cast<size_t>(m * p_.k));
    for (size_t i = 0; i < x.size(); ++i) x[i] = float_to_bf16(static_cast<float>(2 * random_unit(3, i) - 1));
    x_ = upload(x);
    y_ = DeviceBuffer(d_, static_cast<size_t>(m * p_.n) * 2, "y");
    LinearProblem dense;
    dense.n = p_.n, dense.k = dense.group = p_.k, dense.code = CodeType::kBF16, dense.bits = 16;
    const size_t dense_bytes = static_cast<size_t>(p_.n * p_.k) * 2;
    const int64_t dense_copies = std::max<int64_t>(2, static_cast<int64_t>((260ull << 20) / dense_bytes) + 1);
    const DeviceBuffer weights(d_, dense_bytes * static_cast<size_t>(dense_copies), "weights");
    for (int64_t i = 0; i < dense_copies; ++i)
      unpack_units(p_, packed_.data(), 0, p_.n,
                   reinterpret_cast<uint16_t*>(weights.data() + static_cast<size_t>(i) * dense_bytes), p_.k,
                   d_.stream());
    std::vector<std::vector<uint16_t>> results;
    DeviceBuffer space[2];
    DeviceGraph graphs[2];
    const int64_t calls = m > 512 ? 8 : 48;
    for (const bool is_dense : {false, true}) {
      const LinearProblem& p = is_dense ? dense : p_;
      const DeviceLinearKernel& kernel = choose_device_linear(p, d_.info());
      space[is_dense] = DeviceBuffer(d_, kernel.workspace_bytes(p, m), "workspace");
      DeviceLinearArgs a;
      a.m = m, a.x = x_.data(), a.ldx = p.k, a.y = y_.data(), a.ldy = p.n, a.y_bf16 = true;
      a.part_stride = m * p.n, a.workspace = space[is_dense].data(),
      a.workspace_bytes = space[is_dense].size();
      const auto call = [&](int64_t i) {
        const uint8_t* w = is_dense ? weights.data() + static_cast<size_t>(i % dense_copies) * dense_bytes
                                    : packed_.data() + static_cast<size_t>(i % copies_) * packed_bytes_;
        kernel.run(p, w, a, d_.info(), d_.stream());
      };
      const std::vector<uint8_t> poison(static_cast<size_t>(m * p.n) * 2, 0xff);
      d_.upload(y_.data(), poison.data(), poison.size());
      call(0);
      results.emplace_back(static_cast<size_t>(m * p.n));
      d_.download(results.back().data(), y_.data(), poison.size());
      graphs[is_dense] = record(call, calls);
    }
    // In turns: the card's clock follows its load.
    std::vector<double> times[2];
    for (int i = 0; i < 12; ++i) times[i % 2].push_back(replay(graphs[i % 2], calls));
    const double us[2] = {median(times[0]), median(times[1])};
    for (const DeviceGraph graph : graphs) d_.release_graph(graph);
    double error = 0, size = 0;
    for (size_t i = 0; i < results[0].size(); ++i) {
      const double want = bf16_to_float(results[1][i]), got = bf16_to_float(results[0][i]);
      error += (got - want) * (got - want), size += want * want;
    }
    std::printf("N %6lld K %6lld M %4lld chosen %8.2f us, BF16 %8.2f us%s\n", static_cast<long long>(p_.n),
                static_cast<long long>(p_.k), static_cast<long long>(m), us[0], us[1],
                std::sqrt(error / size) < 6e-3 ? "" : " WRONG");
    std::fflush(stdout);
  }

  void run(int64_t m, bool all, bool gated, Way way) {
    if (way == Way::kChosen) return compare(m);
    way_ = way == Way::kWide && !wide_weights(u_) ? Way::kSmall : way;
    prepare(m);
    std::vector<Result> results = measure_all(m, all, gated);
    std::sort(results.begin(), results.end(), [](const Result& a, const Result& b) { return a.us < b.us; });
    const double floor = 2 + static_cast<double>(u_.bytes) / 4.69e6;
    const auto print = [&](const char* what, const Result& r) {
      std::printf(
          "N %6lld K %6lld M %3lld %-9s %7.2f us %3.0f %% of floor: rt %d wn %d wk %2d st %d splits %d\n",
          static_cast<long long>(p_.n), static_cast<long long>(p_.k), static_cast<long long>(m), what, r.us,
          100 * floor / r.us, r.tiles.row_tiles, r.tiles.warps_n, r.tiles.warps_k, r.tiles.stages,
          r.tiles.splits);
    };
    for (const int splits : {1, 2, 4, 8}) {
      int shown = 0;
      for (const Result& r : results)
        if (r.tiles.splits == splits && shown++ < (way_ == Way::kMany ? 20 : splits == 1 ? 3 : 1))
          print(splits == 1 ? "whole" : "parts", r);
    }
    if (way_ != Way::kSmall) return static_cast<void>(std::fflush(stdout));
    const SmallTiles chosen = choose_small_tiles(u_, m, gated ? 1 : 8, gated, d_.info());
    if (chosen.stages > 0) print("chosen", {measure(chosen, gated), chosen});
    std::fflush(stdout);
  }

 private:
  // Activations in the form that the kernel takes, and what is right.
  void prepare(int64_t m) {
    std::vector<uint16_t> x(static_cast<size_t>(m * p_.k));
    for (size_t i = 0; i < x.size(); ++i) x[i] = float_to_bf16(static_cast<float>(2 * random_unit(3, i) - 1));
    x_ = upload(x);
    args_ = {};
    args_.m = m, args_.x = x_.data(), args_.ldx = p_.k, args_.ldy = p_.n, args_.part_stride = m * p_.n;
    args_.max_parts = 8;
    y_ = DeviceBuffer(d_, static_cast<size_t>(8 * m * p_.n) * 4, "y");
    args_.y = y_.data();
    space_ = DeviceBuffer(d_, std::max(unpacked_workspace(p_, m), many_workspace()), "workspace");
    args_.workspace = space_.data(), args_.workspace_bytes = space_.size();
    QuantizeArgs q;
    q.rows = m, q.cols = p_.k, q.x = x_.as<uint16_t>(), q.ldx = p_.k;
    if (way_ == Way::kBytes) {  // the rounded activations are part of what is right
      q.form.kind = p_.code == CodeType::kE4M3 ? DeviceForm::Kind::kE4M3 : DeviceForm::Kind::kInt8;
      DeviceBuffer values(d_, static_cast<size_t>(m * p_.k) * 2, "x");
      q.codes.y = values.as<uint16_t>(), q.codes.ldy = p_.k;
      device_ops(d_.info()).quantize(q, d_.stream());
      args_.x = values.data();
      multiply_unpacked(p_, packed_.data(), args_, unpack_units, d_.stream());
      want_ = download(1);
      x16_ = DeviceBuffer(d_, static_cast<size_t>(m * row_bytes(u_)), "x8");
      scale_ = DeviceBuffer(d_, static_cast<size_t>(m) * 4, "scales");
      q.codes = {};
      q.codes.x8 = x16_.data(), q.codes.ld8 = row_bytes(u_), q.codes.token_scale = scale_.as<float>();
      device_ops(d_.info()).quantize(q, d_.stream());
      args_.x = nullptr;
      args_.x8 = q.codes.x8, args_.ldx8 = q.codes.ld8, args_.token_scale = q.codes.token_scale;
    } else {
      multiply_unpacked(p_, packed_.data(), args_, unpack_units, d_.stream());
      want_ = download(1);
    }
    if (m > 1 && way_ == Way::kSmall) {  // as the kernels before leave them
      const int64_t ld = p_.k;
      x16_ = DeviceBuffer(d_, static_cast<size_t>(m * ld) * 2, "x16");
      scale_ = DeviceBuffer(d_, static_cast<size_t>(m * ld / kScaleColumns) * 4, "scales");
      q.form.kind = DeviceForm::Kind::kHalf, q.form.group = kScaleColumns;
      q.codes.x16 = x16_.as<uint16_t>(), q.codes.x_scale = scale_.as<float>(), q.codes.ld16 = ld;
      device_ops(d_.info()).quantize(q, d_.stream());
      args_.x16 = x16_.data(), args_.x_scale = scale_.as<float>(), args_.ld16 = p_.k, args_.x = nullptr;
    }
  }

  struct Result {
    double us;
    SmallTiles tiles;
  };
  std::vector<Result> measure_all(int64_t m, bool all, bool gated) {
    std::vector<Result> results;
    if (way_ == Way::kBytes) {  // row_tiles: rows of a warpgroup
      for (const int rows : {32, 64, 96, 112, 128})
        for (const int splits : {1, 2, 4, 8})
          for (const int stages : {2, 3, 4, 5, 6, 8}) {
            const BytesTiles tiles{rows, stages, splits};
            const int64_t blocks = (u_.n + 2 * rows - 1) / (2 * rows) * splits;
            if (!bytes_tiles_exist(u_, tiles) || bytes_shared_bytes(m, tiles) > d_.info().shared_memory)
              continue;
            if ((gated && splits > 1) || blocks < 60 || blocks > 500) continue;
            const SmallTiles t{rows, 2, 1, stages, splits};
            results.push_back({measure(t, gated), t});
          }
      return results;
    }
    if (way_ == Way::kMany) {  // row_tiles: of 64 rows of a warpgroup; warps_n: tokens; 0: unpacked
      for (const auto& [tiles, tokens] : {std::pair(1, 128), {2, 128}, {1, 256}})
        for (int stages = 6; stages >= 3; --stages) {
          if (!many_tiles_exist(u_, {tiles, tokens, stages}, d_.info())) continue;
          const SmallTiles t{tiles, tokens, 1, stages, 1};
          results.push_back({measure(t, gated), t});
          if (!all) break;
        }
      const SmallTiles unpacked{0, 0, 0, 0, 1};
      if (!gated) results.push_back({measure(unpacked, false), unpacked});
      return results;
    }
    if (way_ == Way::kWide) {  // warps_n: warpgroups
      for (const int groups : {1, 2, 4})
        for (const int splits : {1, 2, 4, 8})
          for (const int stages : {2, 3, 4, 6, 8}) {
            const int64_t blocks = (u_.units_n + groups * 4 - 1) / (groups * 4) * splits;
            if (!wide_tiles_exist(u_, {groups, stages, splits})) continue;
            if (wide_shared_bytes(u_, m, {groups, stages, splits}) > d_.info().shared_memory) continue;
            if ((gated && splits > 1) || blocks < 60 || blocks > 600) continue;
            const SmallTiles t{4, groups, 1, stages, splits};
            results.push_back({measure(t, gated), t});
          }
      return results;
    }
    for (const int rt : {1, 2, 3, 4, 7}) {
      if (!small_tiles_exist(u_, m, rt)) continue;
      for (const int wn : {1, 2, 3, 4, 6, 8})
        for (const int wk : {1, 2, 4, 6, 8, 12, 16})
          for (const int splits : {1, 2, 4, 8})
            for (const int stages : {2, 3, 4, 6}) {
              if (wn * wk < 4 || wn * wk > 16 || (gated && splits > 1)) continue;
              const SmallTiles t{rt, wn, wk, stages, splits};
              const size_t shared = small_shared_bytes(u_, m, t);
              const int64_t blocks = (u_.units_n + rt * wn - 1) / (rt * wn) * splits;
              if (shared > d_.info().shared_memory || splits * 2 > u_.units_k) continue;
              if (blocks < 90 || blocks > 600 || u_.units_k / splits < wk) continue;
              if (!all && stages == 6) continue;
              results.push_back({measure(t, gated), t});
            }
    }
    return results;
  }

  template <class T>
  DeviceBuffer upload(const std::vector<T>& host) {
    DeviceBuffer b(d_, host.size() * sizeof(T), "data");
    d_.upload(b.data(), host.data(), host.size() * sizeof(T));
    return b;
  }
  std::vector<float> download(int parts) {
    const size_t count = static_cast<size_t>(args_.part_stride);
    std::vector<float> all(count * static_cast<size_t>(parts)), sum(count);
    d_.download(all.data(), y_.data(), all.size() * 4);
    for (size_t i = 0; i < all.size(); ++i) sum[i % count] += all[i];
    return sum;
  }

  void start(const uint8_t* packed, const DeviceLinearArgs& a, const SmallTiles& t) {
    if (way_ == Way::kBytes)
      run_bytes(u_, packed, a, {t.row_tiles, t.stages, t.splits}, d_.stream());
    else if (way_ == Way::kMany && t.row_tiles == 0)
      multiply_units(p_, packed, a, d_.info(), d_.stream());
    else if (way_ == Way::kMany)
      run_many(u_, packed, a, {t.row_tiles, t.warps_n, t.stages}, d_.info(), d_.stream());
    else if (way_ == Way::kWide)
      run_wide(u_, packed, a, {t.warps_n, t.stages, t.splits}, d_.stream());
    else
      run_small(u_, packed, a, t, d_.stream());
  }
  double measure(const SmallTiles& t, bool gated) {
    std::vector<uint8_t> poison(static_cast<size_t>(args_.part_stride) * 4, 0xff);
    DeviceLinearArgs a = args_;
    for (int i = 0; i < t.splits; ++i)
      d_.upload(y_.data() + static_cast<size_t>(i) * poison.size(), poison.data(), poison.size());
    start(packed_.data(), a, t);
    const std::vector<float> got = download(t.splits);
    double error = 0, size = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      error += (static_cast<double>(got[i]) - want_[i]) * (static_cast<double>(got[i]) - want_[i]);
      size += static_cast<double>(want_[i]) * want_[i];
    }
    if (!(std::sqrt(error / size) < 4e-3)) {
      std::printf("WRONG: rt %d wn %d wk %d st %d splits %d: error %g\n", t.row_tiles, t.warps_n, t.warps_k,
                  t.stages, t.splits, std::sqrt(error / size));
      std::exit(1);
    }
    a.y_bf16 = t.splits == 1;
    a.gated = gated;
    return time(
        [&](int64_t i) { start(packed_.data() + static_cast<size_t>(i % copies_) * packed_bytes_, a, t); },
        std::max<int64_t>(copies_, args_.m > 512 ? 8 : 50));
  }
  DeviceGraph record(const auto& call, int64_t calls) {
    d_.begin_record();
    for (int64_t i = 0; i < calls; ++i) call(i);
    return d_.end_record();
  }
  double replay(DeviceGraph graph, int64_t calls) {  // us of a call
    d_.start_timer();
    d_.launch(graph);
    return d_.stop_timer() / static_cast<double>(calls) * 1e6;
  }
  static double median(std::vector<double> times) {  // without the first
    std::sort(times.begin() + 1, times.end());
    return times[(times.size() + 1) / 2];
  }
  // us of each of `calls` calls in a recorded graph, the median of five.
  double time(const auto& call, int64_t calls) {
    const DeviceGraph graph = record(call, calls);
    std::vector<double> times;
    for (int i = 0; i < 6; ++i) times.push_back(replay(graph, calls));
    d_.release_graph(graph);
    return median(times);
  }

  Device& d_;
  LinearProblem p_;
  UnitLayout u_;
  size_t packed_bytes_ = 0;
  int64_t copies_ = 0;
  DeviceBuffer packed_, x_, x16_, scale_, y_, space_;
  DeviceLinearArgs args_;
  Way way_ = Way::kSmall;
  std::vector<float> want_;
};

std::vector<int64_t> numbers(const char* text) {
  std::vector<int64_t> list;
  for (const char* at = text; *at;) {
    char* end = nullptr;
    list.push_back(std::strtoll(at, &end, 10));
    at = *end ? end + 1 : end;
  }
  return list;
}

int run(int argc, char** argv) {
  std::vector<int64_t> ms = {1, 8, 16, 32, 64};
  std::vector<Shape> shapes;
  int bits = 4;
  bool all = false, gated = false, channel = false, early = false, fp8 = false;
  Way way = Way::kSmall;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--all") {
      all = true;
    } else if (flag == "--gated") {
      gated = true;
    } else if (flag == "--wide") {
      way = Way::kWide;
    } else if (flag == "--many") {
      way = Way::kMany;
    } else if (flag == "--bytes") {
      way = Way::kBytes;
    } else if (flag == "--chosen") {
      way = Way::kChosen;
    } else if (flag == "--fp8") {
      fp8 = channel = true;
      bits = 8;
    } else if (flag == "--early") {
      early = true;
    } else if (flag == "--channel") {
      channel = true;
    } else if (i + 1 < argc && flag == "--m") {
      ms = numbers(argv[++i]);
    } else if (i + 1 < argc && flag == "--bits") {
      bits = std::atoi(argv[++i]);
    } else if (i + 1 < argc && flag == "--shape") {
      const auto n = numbers(argv[++i]);
      shapes.push_back({"given", n.at(0), n.at(1)});
    } else {
      std::fprintf(stderr, "unknown argument %s\n", flag.c_str());
      return 2;
    }
  }
  if (shapes.empty())
    shapes = {{"qkv", 6144, 4096}, {"o", 4096, 4096}, {"gate_up", 28672, 4096}, {"down", 4096, 14336}};
  const auto device = open_device(0);
  allow_early_start(early);
  for (const Shape& s : shapes) {
    Bench bench(*device, s, bits, channel, fp8);
    for (const int64_t m : ms) bench.run(m, all, gated, way);
  }
  return 0;
}

}  // namespace
}  // namespace roundel::cuda

int main(int argc, char** argv) {
  try {
    return roundel::cuda::run(argc, argv);
  } catch (const roundel::Error& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    return 1;
  }
}
