// Times a GPU's linear kernels of few tokens with every choice of tiles, for the four linears of Llama-3-8B (or given
// shapes), as `roundel tune` does for a model (kernels/tile_bench.h); what the kernel chooses by itself is checked first,
// against unpacked weights and cuBLASLt.
//
//   bench_device_tiles [--m 1,8,16] [--shape N,K]... [--bits 4] [--channel] [--gated] [--early]
//                      [--wide | --bytes | --chosen] [--fp8]
// --wide: activations as bf16, which the warpgroup kernel (wide.cuh) takes from 9 tokens on; --bytes: the kernel of codes
// by codes (bytes.cuh), with --channel --bits 8 or --fp8 (E4M3); --chosen: what the program runs for bf16 in and out, and
// BF16 weights by cuBLASLt beside it.
// --early: each call may start while the one before ends (programmatic dependent launch).
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/numeric.h"
#include "kernels/cuda/common/launch.h"
#include "kernels/cuda/sm80/kernels.h"
#include "kernels/tile_bench.h"

namespace roundel::cuda {
namespace {

struct Shape {
  const char* name;
  int64_t n, k;
};

enum class Way { kSmall, kWide, kBytes, kChosen };

LinearProblem problem_of(const Shape& shape, int bits, bool channel, bool fp8) {
  LinearProblem p;
  p.n = shape.n, p.k = shape.k, p.code = fp8 ? CodeType::kE4M3 : CodeType::kInt, p.bits = bits;
  p.has_scale = true;
  p.group = channel ? shape.k : 128;
  return p;
}

TileCase case_of(const LinearProblem& p, int64_t m, Way way) {
  using Kind = DeviceForm::Kind;
  TileCase c;
  c.use.m = m;
  if (way == Way::kBytes) {
    c.use.input = TileUse::Input::kBytes;
    c.form.kind = p.code == CodeType::kE4M3 ? Kind::kE4M3 : Kind::kInt8;
  } else if (way == Way::kSmall && m > 1) {  // as the kernels before leave them
    c.use.input = TileUse::Input::kX16;
  }
  return c;
}

void stop_if_wrong(bool right, const char* what, const Tiles& t) {
  if (right) return;
  std::printf("WRONG: %s: tiles %d %d %d %d %d\n", what, t[0], t[1], t[2], t[3], t[4]);
  std::exit(1);
}

// The kernel's own choice, without gate, against another kernel.
void check(TileBench& bench, TileCase c) {
  const auto kernels = device_linear_kernels();
  const auto general = std::find_if(kernels.begin(), kernels.end(), [](const DeviceLinearKernel* k) {
    return std::strcmp(k->name, "sm80_units_unpack_cublaslt") == 0;
  });
  CHECK(general != kernels.end());
  bench.prepare(c);
  const Tiles& tiles = bench.chosen().tiles;
  stop_if_wrong(relative_difference(bench.result(tiles), bench.plain_result(**general)) < 4e-3,
                "against unpacked weights", tiles);
}

void print(const TileBench& bench, int64_t m, const char* what, double us, const Tiles& t) {
  const LinearProblem& p = bench.problem();
  const double floor = 2 + static_cast<double>(bench.kernel().packed_bytes(p)) / 4.69e6;
  std::printf("N %6lld K %6lld M %3lld %-7s %7.2f us %3.0f %% of floor: %s %d %d %d %d %d\n",
              static_cast<long long>(p.n), static_cast<long long>(p.k), static_cast<long long>(m), what, us,
              100 * floor / us, bench.chosen().key.kernel.c_str(), t[0], t[1], t[2], t[3], t[4]);
}

// The fastest few of all choices, and the program's own.
void measure(TileBench& bench, const TileCase& c, int shown) {
  bench.prepare(c);
  const char* what = c.use.whole || c.use.gated ? "whole" : "parts";
  std::multimap<double, Tiles> results;
  for (const Tiles& t : bench.choices()) {
    stop_if_wrong(bench.agrees(t), what, t);
    results.emplace(bench.time(t, 5), t);
  }
  for (const auto& [us, tiles] : results)
    if (shown-- > 0) print(bench, c.use.m, what, us, tiles);
  print(bench, c.use.m, "chosen", bench.time(bench.chosen().tiles, 5), bench.chosen().tiles);
  std::fflush(stdout);
}

// The program's own choice, complete, beside dense BF16.
void compare(Device& d, TileBench& bench, int64_t m) {
  const LinearProblem& q = bench.problem();
  bench.prepare(case_of(q, m, Way::kWide));
  const DeviceBuffer y(d, static_cast<size_t>(m * q.n) * 2, "y");
  LinearProblem dense;
  dense.n = q.n, dense.k = dense.group = q.k, dense.code = CodeType::kBF16, dense.bits = 16;
  const size_t dense_bytes = static_cast<size_t>(q.n * q.k) * 2;
  const int64_t dense_copies = std::max<int64_t>(2, static_cast<int64_t>((260ull << 20) / dense_bytes) + 1);
  const DeviceBuffer weights(d, dense_bytes * static_cast<size_t>(dense_copies), "weights");
  for (int64_t i = 0; i < dense_copies; ++i)
    unpack_units(q, bench.packed(0), 0, q.n,
                 reinterpret_cast<uint16_t*>(weights.data() + static_cast<size_t>(i) * dense_bytes), q.k,
                 d.stream());
  std::vector<std::vector<float>> results;
  DeviceBuffer space[2];
  const auto call = [&](bool is_dense, int64_t i) {
    const LinearProblem& p = is_dense ? dense : q;
    const DeviceLinearKernel& kernel = choose_device_linear(p, d.info());
    DeviceBuffer& s = space[is_dense];
    if (s.empty()) s = DeviceBuffer(d, kernel.workspace_bytes(p, m, false), "workspace");
    DeviceLinearArgs a;
    a.m = m, a.x = bench.x().data(), a.ldx = (p.k + 7) / 8 * 8, a.y = y.data(), a.ldy = p.n, a.y_bf16 = true;
    a.part_stride = m * p.n, a.workspace = s.data(), a.workspace_bytes = s.size();
    const uint8_t* w =
        is_dense ? weights.data() + static_cast<size_t>(i % dense_copies) * dense_bytes : bench.packed(i);
    kernel.run(p, w, a, d.info(), d.stream());
  };
  for (const bool is_dense : {false, true}) {
    const std::vector<uint16_t> poison(static_cast<size_t>(m * q.n), 0xffff);
    d.upload(y.data(), poison.data(), poison.size() * 2);
    call(is_dense, 0);
    std::vector<uint16_t> bits(poison.size());
    d.download(bits.data(), y.data(), bits.size() * 2);
    results.emplace_back();
    for (const uint16_t v : bits) results.back().push_back(bf16_to_float(v));
  }
  std::vector<double> times[2];  // in turns: the card's clock follows its load
  for (int i = 0; i < 6; ++i)
    times[i % 2].push_back(bench.time_calls([&](int64_t copy) { call(i % 2 == 1, copy); }, 3));
  double us[2];
  for (const int i : {0, 1}) {
    std::sort(times[i].begin(), times[i].end());
    us[i] = times[i][1];
  }
  std::printf("N %6lld K %6lld M %4lld chosen %8.2f us, BF16 %8.2f us%s\n", static_cast<long long>(q.n),
              static_cast<long long>(q.k), static_cast<long long>(m), us[0], us[1],
              relative_difference(results[0], results[1]) < 6e-3 ? "" : " WRONG");
  std::fflush(stdout);
}

void run_one(Device& d, TileBench& bench, int64_t m, bool gated, Way way) {
  if (way == Way::kChosen) return compare(d, bench, m);
  TileCase c = case_of(bench.problem(), m, way);
  c.use.whole = true;
  check(bench, c);
  c.use.gated = gated;
  measure(bench, c, 3);
  if (gated) return;
  c.use.whole = false;
  measure(bench, c, 3);
}

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
  bool gated = false, channel = false, early = false, fp8 = false;
  Way way = Way::kSmall;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--gated") {
      gated = true;
    } else if (flag == "--wide") {
      way = Way::kWide;
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
    TileBench bench(*device, problem_of(s, bits, channel, fp8));
    for (const int64_t m : ms) run_one(*device, bench, m, gated, way);
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
