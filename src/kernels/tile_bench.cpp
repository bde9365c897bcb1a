#include "kernels/tile_bench.h"

#include <algorithm>
#include <cmath>

#include "base/numeric.h"
#include "base/process.h"
#include "base/rng.h"

namespace roundel {
namespace {

constexpr size_t kCold = 260 << 20;  // over four times the L2 cache of an H100 or H200
constexpr int64_t kMostCopies = 64;  // not fewer than the calls of a graph
constexpr int64_t kMostParts = 8;

template <class T>
DeviceBuffer to_device(Device& device, const std::vector<T>& host, const char* what) {
  DeviceBuffer buffer(device, host.size() * sizeof(T), what);
  device.upload(buffer.data(), host.data(), host.size() * sizeof(T));
  return buffer;
}

int64_t up_to(int64_t n, int64_t unit) {
  return (n + unit - 1) / unit * unit;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

double relative_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double error = 0, size = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    error += (static_cast<double>(a[i]) - b[i]) * (static_cast<double>(a[i]) - b[i]);
    size += static_cast<double>(b[i]) * b[i];
  }
  return std::sqrt(error / size);
}

TileBench::TileBench(Device& device, const LinearProblem& problem)
    : d_(device),
      ops_(device_ops(device.info())),
      p_(problem),
      kernel_(choose_device_linear(problem, device.info())) {
  packed_bytes_ = (kernel_.packed_bytes(p_) + 255) / 256 * 256;
  copies_ = std::clamp<int64_t>(static_cast<int64_t>(kCold / packed_bytes_) + 1, 2, kMostCopies);
  packed_ = DeviceBuffer(d_, packed_bytes_ * static_cast<size_t>(copies_), "weights to measure");
  if (packed_.size() < kCold) {
    other_ = DeviceBuffer(d_, kCold, "memory to read between measurements");
    d_.clear(other_.data(), kCold);
  }
  sum_ = DeviceBuffer(d_, 256, "a sum");
  d_.clear(sum_.data(), sum_.size());
  fill_weights();
}

// The same random rows again and again: what they hold takes no part in the time.
void TileBench::fill_weights() {
  const int64_t rows = std::min(p_.n, up_to(std::max<int64_t>((8 << 20) / p_.k, 1), kRowUnit));
  const int mask = (1 << p_.bits) - 1;
  std::vector<int8_t> codes(static_cast<size_t>(rows * p_.k));
  for (size_t i = 0; i < codes.size(); ++i) {
    const auto r = static_cast<int>(random_u64(1, i / 8) >> (8 * (i % 8)) & 0xff);
    if (p_.code == CodeType::kE4M3)
      codes[i] = static_cast<int8_t>((r & 0x7f) == 0x7f ? 0 : r);  // no NaN
    else
      codes[i] = static_cast<int8_t>((r & mask) - (mask + 1) / 2);
  }
  const auto groups = static_cast<size_t>(rows * p_.groups());
  std::vector<float> scales(groups);
  std::vector<int8_t> zeros(groups);
  for (size_t i = 0; i < groups; ++i) {
    scales[i] = round_bf16(static_cast<float>(0.001 + 0.002 * random_unit(2, i)));
    zeros[i] = static_cast<int8_t>(random_u64(4, i) % 4);
  }
  const DeviceBuffer dcodes = to_device(d_, codes, "weights to measure"),
                     dscales = to_device(d_, scales, "weights to measure"),
                     dzeros = to_device(d_, zeros, "weights to measure");
  d_.clear(packed_.data(), packed_bytes_);
  for (int64_t row0 = 0; row0 < p_.n; row0 += rows) {
    DeviceWeightRows r;
    r.row0 = row0, r.rows = std::min(rows, p_.n - row0);
    r.codes = dcodes.data(), r.scales = dscales.as<float>();
    if (p_.has_zero_point) r.zero_points = dzeros.as<int8_t>();
    kernel_.pack(p_, r, packed_.data(), d_.stream());
  }
  for (int64_t i = 1; i < copies_; ++i)
    d_.copy(packed_.data() + static_cast<size_t>(i) * packed_bytes_, packed_.data(), packed_bytes_);
  d_.synchronize();
}

void TileBench::make_input(const TileCase& c) {
  const int64_t m = c.use.m, ld = up_to(p_.k, 8), ld_codes = up_to(p_.k, kScaleColumns);
  std::vector<uint16_t> x(static_cast<size_t>(m * ld));
  for (int64_t i = 0; i < m * ld; ++i)
    if (i % ld < p_.k)
      x[static_cast<size_t>(i)] =
          float_to_bf16(static_cast<float>(2 * random_unit(3, static_cast<uint64_t>(i)) - 1));
  x_ = to_device(d_, x, "activations");
  QuantizeArgs q;
  q.rows = m, q.cols = p_.k, q.x = x_.as<uint16_t>(), q.ldx = ld, q.form = c.form;
  values_.reset();
  if (c.form.kind != DeviceForm::Kind::kNone && c.form.kind != DeviceForm::Kind::kHalf) {
    values_ = DeviceBuffer(d_, static_cast<size_t>(m * ld) * 2, "activations");
    q.codes.y = values_.as<uint16_t>(), q.codes.ldy = ld;
    ops_.quantize(q, d_.stream());
    q.codes = {};
  }
  if (c.use.input == TileUse::Input::kBytes) {
    const int64_t tokens = up_to(m, kTokenUnit), scales = q.form.group ? ld_codes / kScaleColumns : 1;
    codes_ = DeviceBuffer(d_, static_cast<size_t>(tokens * ld_codes), "activations");
    scale_ = DeviceBuffer(d_, static_cast<size_t>(tokens * scales) * 4, "activations");
    q.codes.x8 = codes_.data(), q.codes.ld8 = ld_codes, q.codes.token_scale = scale_.as<float>();
    if (q.form.group) q.codes.scale_ld = tokens;
    ops_.quantize(q, d_.stream());
    args_.x8 = codes_.data(), args_.ldx8 = ld_codes, args_.token_scale = scale_.as<float>();
    args_.scale_ld = q.codes.scale_ld;
  } else if (c.use.input == TileUse::Input::kX16) {
    if (q.form.kind == DeviceForm::Kind::kNone)
      q.form.kind = DeviceForm::Kind::kHalf, q.form.group = kScaleColumns;
    codes_ = DeviceBuffer(d_, static_cast<size_t>(m * ld_codes) * 2, "activations");
    scale_ = DeviceBuffer(d_, static_cast<size_t>(m * ld_codes / kScaleColumns) * 4, "activations");
    q.codes.x16 = codes_.as<uint16_t>(), q.codes.x_scale = scale_.as<float>(), q.codes.ld16 = ld_codes;
    ops_.quantize(q, d_.stream());
    args_.x16 = codes_.data(), args_.x_scale = scale_.as<float>(), args_.ld16 = ld_codes;
    args_.one_scale = q.form.group == 0;
  } else if (c.norm) {  // of x as floats
    std::vector<float> residual(static_cast<size_t>(ld)), gain(static_cast<size_t>(ld), 1.0f);
    for (size_t i = 0; i < residual.size(); ++i) residual[i] = bf16_to_float(x[i]);
    codes_ = to_device(d_, residual, "activations");
    gain_ = to_device(d_, gain, "activations");
    args_.residual = codes_.as<float>(), args_.ld_residual = ld, args_.gain = gain_.as<float>();
    args_.eps = 1e-5f;
  } else {
    args_.x = values_.empty() ? x_.data() : values_.data(), args_.ldx = ld;
  }
}

void TileBench::prepare(const TileCase& c) {
  case_ = c;
  args_ = {};
  args_.m = c.use.m;
  make_input(c);
  const int64_t parts = c.use.whole || c.use.gated ? 1 : kMostParts;
  args_.ldy = up_to(c.use.gated ? p_.n / 2 : p_.n, 8);
  args_.part_stride = args_.m * args_.ldy;
  args_.gated = c.use.gated;
  args_.y_bf16 = c.use.m > kSmallTokens;
  args_.add = c.add;
  args_.max_parts = static_cast<int>(parts);
  y_ = DeviceBuffer(d_, static_cast<size_t>(parts * args_.m * up_to(p_.n, 8)) * 4, "results");
  args_.y = y_.data();
  space_ = DeviceBuffer(d_, kernel_.workspace_bytes(p_, args_.m, args_.x8 != nullptr) + 256, "workspace");
  args_.workspace = space_.data(), args_.workspace_bytes = space_.size();
  chosen_ = kernel_.tile_choice ? kernel_.tile_choice(p_, c.use, d_.info()) : TileChoice{};
  if (!chosen_.key.kernel.empty()) want_ = result(chosen_.tiles);
}

std::vector<Tiles> TileBench::choices() const {
  std::vector<Tiles> list;
  if (!chosen_.key.kernel.empty()) list = kernel_.tile_choices(p_, case_.use, d_.info());
  if (std::find(list.begin(), list.end(), chosen_.tiles) == list.end()) list.push_back(chosen_.tiles);
  return list;
}

int TileBench::run(int64_t copy, const Tiles* tiles) {
  args_.tiles = tiles;
  return kernel_.run(p_, packed(copy), args_, d_.info(), d_.stream());
}

std::vector<float> TileBench::read_y(int parts) const {
  const int64_t cols = args_.gated ? p_.n / 2 : p_.n;
  const size_t count = static_cast<size_t>(args_.part_stride);
  std::vector<float> sum(static_cast<size_t>(args_.m * cols));
  const auto each = [&](auto get) {
    for (int64_t i = 0; i < args_.m; ++i)
      for (int64_t j = 0; j < cols; ++j)
        sum[static_cast<size_t>(i * cols + j)] += get(static_cast<size_t>(i * args_.ldy + j));
  };
  if (args_.gated || args_.y_bf16) {
    std::vector<uint16_t> y(count);
    d_.download(y.data(), y_.data(), count * 2);
    each([&](size_t i) { return bf16_to_float(y[i]); });
    return sum;
  }
  std::vector<float> y(count);
  for (int part = 0; part < parts; ++part) {
    d_.download(y.data(), y_.as<float>() + static_cast<size_t>(part) * count, count * 4);
    each([&](size_t i) { return y[i]; });
  }
  return sum;
}

// What a kernel leaves out stays zero, which differs from what is wanted.
void TileBench::clear_y() {
  d_.clear(y_.data(), y_.size());
}

std::vector<float> TileBench::result(const Tiles& tiles) {
  clear_y();
  return read_y(run(0, &tiles));
}

std::vector<float> TileBench::plain_result(const DeviceLinearKernel& kernel) {
  const DeviceLinearArgs kept = args_;
  args_.x8 = args_.x16 = nullptr;
  args_.residual = nullptr;
  args_.x = values_.empty() ? x_.data() : values_.data(), args_.ldx = up_to(p_.k, 8);
  args_.gated = args_.add = false;
  args_.ldy = up_to(p_.n, 8), args_.part_stride = args_.m * args_.ldy, args_.max_parts = 1;
  const DeviceBuffer space(d_, kernel.workspace_bytes(p_, args_.m, false) + 256, "workspace");
  args_.workspace = space.data(), args_.workspace_bytes = space.size();
  args_.tiles = nullptr;
  clear_y();
  std::vector<float> y = read_y(kernel.run(p_, packed(0), args_, d_.info(), d_.stream()));
  args_ = kept;
  return y;
}

// Only the order of sums differs, and the last bit of what is rounded to BF16.
bool TileBench::agrees(const Tiles& tiles) {
  return relative_difference(result(tiles), want_) < (case_.use.gated || args_.y_bf16 ? 4e-3 : 1e-3);
}

double TileBench::time_calls(FunctionRef<void(int64_t)> call, int launches) {
  d_.begin_record();
  DeviceGraph graph = nullptr;
  try {
    for (int64_t i = 0; i < calls(); ++i) call(i);
    graph = d_.end_record();
  } catch (...) {
    d_.cancel_record();
    throw;
  }
  std::vector<double> seconds;
  for (int i = 0; i <= launches; ++i) {  // the first is not counted
    if (!other_.empty()) ops_.read_all(other_.data(), kCold, sum_.as<uint32_t>(), d_.stream());
    d_.start_timer();
    d_.launch(graph);
    const double s = d_.stop_timer();
    if (i > 0) seconds.push_back(s);
  }
  d_.release_graph(graph);
  return median(seconds) / static_cast<double>(calls()) * 1e6;
}

double TileBench::time(const Tiles& tiles, int launches) {
  return time_calls([&](int64_t i) { run(i, &tiles); }, launches);
}

// All of them briefly, then the fastest and the one before at length, in turns.
TileResult TileBench::tune() {
  constexpr int kFinalists = 6;
  constexpr double kWorthIt = 0.98;
  TileResult r;
  r.before = chosen_;
  struct Timed {
    double us;
    Tiles tiles;
  };
  std::vector<Timed> timed;
  for (const Tiles& tiles : choices()) {
    throw_if_interrupted();
    ++r.measured;
    if (agrees(tiles))
      timed.push_back({time(tiles, 3), tiles});
    else
      ++r.wrong;
  }
  std::sort(timed.begin(), timed.end(), [](const Timed& a, const Timed& b) { return a.us < b.us; });
  timed.resize(std::min<size_t>(timed.size(), kFinalists));
  r.before_us = time(chosen_.tiles, 7);
  for (Timed& t : timed) t.us = time(t.tiles, 7);
  r.before_us = std::min(r.before_us, time(chosen_.tiles, 7));
  for (Timed& t : timed) t.us = std::min(t.us, time(t.tiles, 7));
  r.best = chosen_.tiles, r.best_us = r.before_us;
  for (const Timed& t : timed)
    if (t.us < kWorthIt * r.before_us && t.us < r.best_us) r.best = t.tiles, r.best_us = t.us;
  return r;
}

}  // namespace roundel
