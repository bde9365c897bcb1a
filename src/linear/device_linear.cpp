#include "linear/device_linear.h"

#include "base/error.h"
#include "base/process.h"
#include "base/thread_pool.h"
#include "codec/encoder.h"

namespace roundel {
namespace {

constexpr int64_t kSourceChunk = 8 << 20;  // bytes of a checkpoint that go to the GPU at once

DeviceForm device_form(const ActForm& form) {
  DeviceForm d;
  using From = ActForm::Kind;
  using To = DeviceForm::Kind;
  switch (form.kind) {
    case From::kFloat:
      d.kind = To::kNone;
      break;
    case From::kInt8:
      d.kind = To::kInt8;
      break;
    case From::kInt8Asym:
      d.kind = To::kInt8Asym;
      break;
    case From::kInt8Static:
      d.kind = To::kInt8Static;
      break;
    case From::kFakeE4M3:
      d.kind = To::kE4M3;
      break;
    case From::kFakeInt:
      d.kind = To::kInt;
      break;
  }
  d.bits = form.bits;
  d.group = form.group;
  return d;
}

bool same_form(const DeviceForm& a, const DeviceForm& b) {
  return a.kind == b.kind && a.scale == b.scale && a.zero_point == b.zero_point && a.bits == b.bits &&
         a.group == b.group;
}

DeviceInputForm form_for(DeviceInputForm form, const LinearProblem& problem, const DeviceLinearKernel& kernel,
                         int64_t m, const DeviceInfo& info) {
  using As = DeviceInputForm::As;
  if (form.form.kind == DeviceForm::Kind::kNone) {
    if (!kernel.wants_x16(problem, m)) return form;
    form.form.kind = DeviceForm::Kind::kHalf;
    form.form.group = kScaleColumns;
  }
  const bool few = m <= kSmallTokens, codes = !few || (m > 1 && !kernel.wants_x16(problem, m));
  if (kernel.takes_bytes(problem, form.form, m, info))
    form.as = As::kBytes;
  else if (codes && form.form.group == 0)
    form.as = As::kCodes;
  else if (few && form.form.group % kScaleColumns == 0)
    form.as = As::kX16;
  return form;
}

}  // namespace

LinearProblem merged_problem(const std::vector<LinearSpec>& specs) {
  LinearProblem problem = linear_problem(specs.front());
  problem.n = 0;
  for (const LinearSpec& s : specs) problem.n += s.n;
  return problem;
}

DeviceInputForm device_input_form(const Scheme& scheme, const LinearProblem& problem,
                                  const DeviceLinearKernel& kernel, int64_t m, const DeviceInfo& info) {
  DeviceInputForm form;
  form.form = device_form(activation_form(scheme));
  return form_for(form, problem, kernel, m, info);
}

TileUse::Input kernel_input(const DeviceInputForm& form) {
  using As = DeviceInputForm::As;
  if (form.as == As::kBytes) return TileUse::Input::kBytes;
  return form.as == As::kX16 ? TileUse::Input::kX16 : TileUse::Input::kBF16;
}

// Scales of codes come after the product.
bool device_fuses_gate(const LinearProblem& problem, const DeviceLinearKernel& kernel,
                       const DeviceInputForm& form, int64_t m, const DeviceInfo& info) {
  return form.as != DeviceInputForm::As::kCodes && kernel.fuses_gate(problem, kernel_input(form), m, info);
}

uint8_t* DeviceStaging::room(int slot, size_t bytes) {
  DeviceBuffer& buffer = slots_[slot];
  if (buffer.size() < bytes) {
    buffer.reset();
    buffer = DeviceBuffer(device_, bytes, "staging");
  }
  return buffer.data();
}

const uint8_t* DeviceStaging::upload(int slot, const void* data, size_t bytes) {
  uint8_t* to = room(slot, bytes);
  device_.upload(to, data, bytes);
  return to;
}

uint32_t* DeviceStaging::count_not_finite(const WeightTarget& weight) {
  if (counters_.empty()) {
    counters_ = DeviceBuffer(device_, kCounters * 4, "counters");
    device_.clear(counters_.data(), counters_.size());
  }
  counted_.push_back(&weight);
  CHECK(counted_.size() <= kCounters);
  return counters_.as<uint32_t>() + counted_.size() - 1;
}

std::vector<const WeightTarget*> DeviceStaging::not_finite() {
  std::vector<uint32_t> counts(counted_.size());
  if (!counts.empty()) device_.download(counts.data(), counters_.data(), counts.size() * 4);
  std::vector<const WeightTarget*> found;
  for (size_t i = 0; i < counts.size(); ++i)
    if (counts[i] > 0) found.push_back(counted_[i]);
  counted_.clear();
  for (DeviceBuffer& slot : slots_) slot.reset();  // all is packed
  return found;
}

bool DeviceInputForm::operator==(const DeviceInputForm& other) const {
  return order == other.order && as == other.as && same_form(form, other.form);
}

DeviceInput::DeviceInput(DeviceArena& arena, const DeviceOps& ops, const uint16_t* x, int64_t m, int64_t k,
                         int64_t ldx, int64_t low)
    : arena_(arena), ops_(ops), k_(k) {
  plain_.m = m;
  plain_.x = x;
  plain_.ldx = ldx;
  plain_.x_low = low;
}

DeviceCodes DeviceInput::provide(const DeviceInputForm& form) {
  using As = DeviceInputForm::As;
  Made made{form, plain_};
  DeviceCodes to;
  made.args.x = nullptr;
  made.args.x_low = 0;
  if (form.as == As::kX16) {
    to.ld16 = made.args.ld16 = round_up(k_, kScaleColumns);
    made.args.x16 = to.x16 = arena_.take<uint16_t>(plain_.m * to.ld16, "activations");
    made.args.one_scale = form.form.group == 0;
    made.args.x_scale = to.x_scale = arena_.take<float>(plain_.m * to.ld16 / kScaleColumns, "activations");
  } else if (form.as == As::kBytes) {
    to.ld8 = made.args.ldx8 = round_up(k_, kScaleColumns);
    made.args.x8 = to.x8 = arena_.take<uint8_t>(round_up(plain_.m, kTokenUnit) * to.ld8, "activations");
    if (form.form.group != 0) to.scale_ld = made.args.scale_ld = round_up(plain_.m, kTokenUnit);
  } else {
    to.ldy = plain_.ldx;
    const int64_t size = plain_.m * plain_.ldx;
    if (plain_.x_low != 0 && form.as == As::kBF16) made.args.x_low = to.low = size;
    made.args.x = to.y = arena_.take<uint16_t>(size + to.low, "activations");
  }
  if (form.as == As::kBytes)
    made.args.token_scale = to.token_scale =
        arena_.take<float>(to.scale_ld ? to.ld8 / kScaleColumns * to.scale_ld : plain_.m, "activations");
  if (form.as == As::kCodes)  // read with the product, which may be in the next block
    made.args.token_scale = to.token_scale = arena_.take_for_pass<float>(plain_.m, "activations");
  made_.push_back(made);
  return to;
}

const DeviceLinearArgs& DeviceInput::form(const DeviceInputForm& wanted) {
  if (wanted.form.kind == DeviceForm::Kind::kNone && !wanted.order) return plain_;
  for (const Made& m : made_)
    if (m.form == wanted) return m.args;
  CHECK(plain_.x != nullptr);
  QuantizeArgs q;
  q.rows = plain_.m;
  q.cols = k_;
  q.x = static_cast<const uint16_t*>(plain_.x);
  q.ldx = plain_.ldx;
  q.low = plain_.x_low;
  q.order = wanted.order;
  q.form = wanted.form;
  q.codes = provide(wanted);
  ops_.quantize(q, arena_.device().stream());
  return made_.back().args;
}

class DeviceLinear::Part : public WeightTarget {
 public:
  Part(DeviceLinear& whole, LinearSpec spec, RowMap map) : whole_(whole), spec_(std::move(spec)), map_(map) {}
  const LinearSpec& spec() const override { return spec_; }

  void pack(const QuantizedRows& rows) override {
    const LinearProblem& p = whole_.problem_;
    CHECK(spec_.scheme.weights && rows.cols == spec_.k && rows.groups == p.groups());
    std::vector<int8_t> ordered;
    const int8_t* codes = rows.codes.data();
    if (!whole_.host_order_.empty()) {
      ordered = reorder_columns(rows, whole_.host_order_);
      codes = ordered.data();
    }
    DeviceWeightRows r = at(rows.row0, rows.rows);
    const size_t scales = static_cast<size_t>(rows.rows * rows.groups);
    r.codes = whole_.staging_.upload(0, codes, static_cast<size_t>(rows.rows * rows.cols));
    r.scales = reinterpret_cast<const float*>(whole_.staging_.upload(1, rows.scales.data(), scales * 4));
    if (p.has_zero_point)
      r.zero_points =
          reinterpret_cast<const int8_t*>(whole_.staging_.upload(2, rows.zero_points.data(), scales));
    put(r);
  }
  void pack_dense(int64_t row0, int64_t rows, const void* data, ThreadPool&) override {
    CHECK(!spec_.scheme.weights);
    DeviceWeightRows r = at(row0, rows);
    r.codes = whole_.staging_.upload(0, data, static_cast<size_t>(rows * spec_.k) * dtype_size(spec_.dtype));
    put(r);
  }
  bool takes_source(DType dtype) const override {
    if (!whole_.host_order_.empty()) return false;
    const auto& weights = spec_.scheme.weights;
    return weights ? encodes_by_groups(*weights, dtype) : dtype == spec_.dtype;
  }
  void pack_source(DType dtype, ReadBytes read) override {
    const int64_t row_bytes = spec_.k * static_cast<int64_t>(dtype_size(dtype));
    const int64_t chunk = chunk_rows(spec_.k, static_cast<int64_t>(dtype_size(dtype)), kSourceChunk);
    uint32_t* not_finite = spec_.scheme.weights ? whole_.staging_.count_not_finite(*this) : nullptr;
    for (int64_t row0 = 0; row0 < spec_.n; row0 += chunk) {
      throw_if_interrupted();
      const int64_t rows = std::min(chunk, spec_.n - row0);
      const auto bytes = static_cast<size_t>(rows * row_bytes);
      uint8_t* x = whole_.staging_.room(0, bytes);
      const auto first = static_cast<uint64_t>(row0 * row_bytes);
      auto fill = [&](void* to, size_t offset, size_t count) {
        read(first + offset, static_cast<uint8_t*>(to), count);
      };
      const auto call = [](void* f, void* to, size_t offset, size_t count) {
        (*static_cast<decltype(fill)*>(f))(to, offset, count);
      };
      whole_.device_.upload_from(x, bytes, call, &fill);
      DeviceWeightRows r = at(row0, rows);
      if (spec_.scheme.weights)
        encode(dtype, x, not_finite, r);
      else
        r.codes = x;
      put(r);
    }
  }
  void set_bias(std::vector<float> bias) override {
    CHECK(static_cast<int64_t>(bias.size()) == spec_.n);
    whole_.host_bias_.resize(static_cast<size_t>(whole_.problem_.n));
    for (int64_t i = 0; i < spec_.n; ++i)
      whole_.host_bias_[static_cast<size_t>(packed_row(map_, i))] = bias[static_cast<size_t>(i)];
  }
  void set_input_scale(float scale, int32_t zero_point) override {
    whole_.form_.form.scale = scale;
    whole_.form_.form.zero_point = zero_point;
  }
  void set_output_scale(float scale, int32_t zero_point) override {
    DeviceForm& form = whole_.output_form_;
    form.kind = spec_.scheme.output->type == NumberType::kFloat ? DeviceForm::Kind::kE4M3
                                                                : DeviceForm::Kind::kInt8Static;
    form.scale = scale;
    form.zero_point = zero_point;
  }
  void set_group_index(const std::vector<int32_t>& group_of_column) override {
    CHECK(static_cast<int64_t>(group_of_column.size()) == spec_.k && whole_.parts_.size() == 1);
    whole_.host_order_ = group_order(group_of_column);
  }
  size_t packed_bytes() const override {
    return whole_.packed_.size() / static_cast<size_t>(whole_.problem_.n) * static_cast<size_t>(spec_.n);
  }

 private:
  DeviceWeightRows at(int64_t row0, int64_t rows) const {
    DeviceWeightRows r;
    r.row0 = row0;
    r.rows = rows;
    r.map = map_;
    return r;
  }
  void encode(DType dtype, const uint8_t* x, uint32_t* not_finite, DeviceWeightRows& r) {
    const LinearProblem& p = whole_.problem_;
    const QuantArgs& weights = *spec_.scheme.weights;
    const auto groups = static_cast<size_t>(r.rows * p.groups());
    DeviceEncodeArgs a;
    a.rows = r.rows, a.cols = spec_.k, a.group = std::min(p.group, spec_.k);
    a.source = dtype == DType::kBF16  ? SourceType::kBF16
               : dtype == DType::kF16 ? SourceType::kF16
                                      : SourceType::kF32;
    a.x = x;
    a.e4m3 = weights.type == NumberType::kFloat;
    a.symmetric = weights.symmetric;
    a.qmin = static_cast<float>(weights.qmin()), a.qmax = static_cast<float>(weights.qmax());
    a.codes = whole_.staging_.room(1, static_cast<size_t>(r.rows * spec_.k));
    a.scales = reinterpret_cast<float*>(whole_.staging_.room(2, groups * 4));
    if (p.has_zero_point) a.zero_points = reinterpret_cast<int8_t*>(whole_.staging_.room(3, groups));
    a.not_finite = not_finite;
    whole_.staging_.ops().encode(a, whole_.device_.stream());
    r.codes = a.codes, r.scales = a.scales, r.zero_points = a.zero_points;
  }
  void put(const DeviceWeightRows& r) {
    whole_.kernel_->pack(whole_.problem_, r, whole_.packed_.data(), whole_.device_.stream());
  }

  DeviceLinear& whole_;
  LinearSpec spec_;
  RowMap map_;
};

WeightTarget& DeviceLinear::part(size_t i) const {
  return *parts_[i];
}

DeviceLinear::~DeviceLinear() = default;

bool DeviceLinear::can_merge(const std::vector<LinearSpec>& specs) {
  const bool blocks = linear_problem(specs.front()).fp8_blocks;
  for (const LinearSpec& s : specs) {
    const LinearSpec& first = specs.front();
    if (blocks && &s != &specs.back() && s.n % kFp8Block != 0) return false;
    if (s.k != first.k || s.dtype != first.dtype || s.scheme != first.scheme) return false;
    if (s.scheme.input && s.scheme.input->dynamic == DynamicMode::kStatic) return false;
    if (s.scheme.output) return false;
    if (s.scheme.weights && s.scheme.weights->actorder != ActOrder::kNone) return false;
  }
  return true;
}

DeviceLinear::DeviceLinear(Device& device, DeviceStaging& staging, std::vector<LinearSpec> specs, Rows rows)
    : device_(device), staging_(staging), rows_(rows), problem_(merged_problem(specs)) {
  kernel_ = &choose_device_linear(problem_, device.info());
  form_.form = device_form(activation_form(specs.front().scheme));
  packed_ = DeviceBuffer(device, kernel_->packed_bytes(problem_), "weights");
  device.clear(packed_.data(), packed_.size());
  int64_t offset = 0;
  for (LinearSpec& s : specs) {
    const RowMap map{offset, rows == Rows::kAlternating ? problem_.n / 2 : 0};
    offset += s.n;
    parts_.push_back(std::make_unique<Part>(*this, std::move(s), map));
  }
}

void DeviceLinear::finish() {
  if (!host_bias_.empty()) {
    bias_ = DeviceBuffer(device_, host_bias_.size() * 4, "a bias");
    device_.upload(bias_.data(), host_bias_.data(), host_bias_.size() * 4);
  }
  if (!host_order_.empty()) {
    order_ = DeviceBuffer(device_, host_order_.size() * 4, "an order of columns");
    device_.upload(order_.data(), host_order_.data(), host_order_.size() * 4);
    form_.order = order_.as<int32_t>();
  }
}

DeviceInputForm DeviceLinear::input_form(int64_t m) const {
  return form_for(form_, problem_, *kernel_, m, device_.info());
}

bool DeviceLinear::splits_terms(int64_t m) const {
  return input_form(m).as == DeviceInputForm::As::kBF16 && !kernel_->takes_terms(problem_, m, device_.info());
}

bool DeviceLinear::fuses_gate(int64_t m, bool terms) const {
  return alternating() && !rounds_output() && !(terms && splits_terms(m)) &&
         device_fuses_gate(problem_, *kernel_, input_form(m), m, device_.info());
}

bool DeviceLinear::rounds_gate(int64_t m, const DeviceInputForm& next) const {
  using As = DeviceInputForm::As;
  return fuses_gate(m, false) && input_form(m).as == As::kBytes && next.as == As::kBytes && !next.order &&
         kernel_->rounds_gate(problem_, next.form, m, device_.info());
}

bool DeviceLinear::fuses_norm(int64_t m) const {
  return form_.form.kind == DeviceForm::Kind::kNone && !form_.order && !rounds_output() &&
         kernel_->fuses_norm(problem_, m, device_.info());
}

bool DeviceLinear::adds(int64_t m) const {
  return !rounds_output() && input_form(m).as != DeviceInputForm::As::kBytes &&
         kernel_->adds(problem_, m, device_.info());
}

DeviceMatrix DeviceLinear::forward(DeviceInput& input, const Output& output) const {
  const DeviceInputForm form = input_form(input.m());
  DeviceLinearArgs a = input.form(form);
  const float* row_scale = form.as == DeviceInputForm::As::kCodes ? a.token_scale : nullptr;
  if (a.x_low != 0 && splits_terms(a.m)) return run_terms(input.arena(), a, output, input.ops());
  return run(input.arena(), a, output, row_scale, &input.ops());
}

DeviceMatrix DeviceLinear::forward_norm(DeviceArena& arena, const NormArgs& norm,
                                        const Output& output) const {
  CHECK(norm.ld % 4 == 0 && !norm.delta.data && !norm.rows_in);
  DeviceLinearArgs a;
  a.m = norm.rows;
  a.residual = norm.residual;
  a.ld_residual = norm.ld;
  a.gain = norm.gain;
  a.eps = norm.eps;
  return run(arena, a, output);
}

int DeviceLinear::launch(DeviceArena& arena, const DeviceLinearArgs& a) const {
  DeviceLinearArgs with_workspace = a;
  DeviceBuffer& workspace = arena.workspace(kernel_->workspace_bytes(problem_, a.m, a.x8 != nullptr));
  with_workspace.workspace = workspace.data();
  with_workspace.workspace_bytes = workspace.size();
  return kernel_->run(problem_, packed_.data(), with_workspace, device_.info(), device_.stream());
}

// The products of both terms are parts of the result. Together where a kernel of few tokens takes as many.
DeviceMatrix DeviceLinear::run_terms(DeviceArena& arena, DeviceLinearArgs a, const Output& output,
                                     const DeviceOps& ops) const {
  CHECK(!output.gated && !output.add && !output.bf16 && !output.y &&
        (output.max_parts > 1 || rounds_output()));
  const int64_t m = a.m, low = a.x_low;
  a.ldy = output.ldy ? output.ldy : round_up(problem_.n, int64_t{8});
  a.x_low = 0;
  a.max_parts = rounds_output() ? 1 : output.max_parts / 2;
  auto* y = arena.take<float>(2 * m * a.ldy * a.max_parts, "activations");
  a.y = y;
  DeviceMatrix sum{y, a.ldy, false, 0, m * a.ldy, nullptr};
  if (low == m * a.ldx && 2 * m <= kSmallTokens) {
    a.m = 2 * m;
    a.part_stride = a.m * a.ldy;
    sum.parts = 2 * launch(arena, a);
  } else {
    a.part_stride = m * a.ldy;
    sum.parts = launch(arena, a);
    a.x = static_cast<const uint16_t*>(a.x) + low;
    a.y = y + sum.parts * a.part_stride;
    sum.parts += launch(arena, a);
  }
  if (!bias_.empty() || rounds_output()) {
    ops.scale_rows(sum, m, problem_.n, nullptr, bias_.as<float>(), device_.stream());
    sum.parts = 1;
  }
  if (rounds_output()) ops.round_output({sum, m, problem_.n, output_form_}, device_.stream());
  return sum;
}

DeviceMatrix DeviceLinear::run(DeviceArena& arena, DeviceLinearArgs a, const Output& output,
                               const float* row_scale, const DeviceOps* ops) const {
  const int64_t columns = output.gated ? problem_.n / 2 : problem_.n;
  CHECK(!rounds_output() || (ops && !output.gated && !output.add));
  const bool bf16 = output.bf16 && !rounds_output();  // output activations are rounded from floats
  a.ldy = output.ldy ? output.ldy : round_up(columns, int64_t{8});
  a.y_bf16 = bf16;
  a.gated = output.gated;
  a.add = output.add;
  a.form = output.form;
  a.codes = output.codes;
  a.counters = output.counters;
  a.max_parts = output.bf16 || output.gated || output.add || rounds_output() ? 1 : output.max_parts;
  a.part_stride = a.m * a.ldy;
  a.bias = row_scale ? nullptr : bias_.as<float>();  // after the scale
  a.y = output.y;
  const bool halves = bf16 || output.gated;
  if (output.terms) a.y_low = a.part_stride;
  if (!a.y && !a.codes.x8) {
    const int64_t padding = (round_up(a.m, kTokenUnit) - a.m) * a.ldy;
    const int64_t count = a.part_stride * a.max_parts + a.y_low + padding;
    a.y = halves ? static_cast<void*>(arena.take<uint16_t>(count, "activations"))
                 : static_cast<void*>(arena.take<float>(count, "activations"));
  }
  const int parts = launch(arena, a);
  DeviceMatrix y{a.y, a.ldy, halves, parts, a.part_stride, row_scale};
  if (row_scale && (output.y || !bias_.empty() || rounds_output())) {
    y.row_scale = nullptr;
    ops->scale_rows(y, a.m, columns, row_scale, bias_.as<float>(), device_.stream());
  }
  if (rounds_output()) ops->round_output({y, a.m, columns, output_form_}, device_.stream());
  return y;
}

void DeviceLinear::read_rows(const int32_t* ids, int64_t id_stride, int64_t count, float* out,
                             int64_t ldo) const {
  kernel_->unpack_rows(problem_, packed_.data(), ids, id_stride, count, out, ldo, device_.stream());
}

}  // namespace roundel
