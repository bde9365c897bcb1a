#include "linear/linear_input.h"

#include <algorithm>
#include <cstring>

#include "base/thread_pool.h"
#include "kernels/list.h"

namespace roundel {

LinearInput::LinearInput(const float* x, int64_t m, int64_t k, int64_t ldx) : k_(k) {
  plain_.m = m;
  plain_.ldx = ldx;
  plain_.x = x;
}

LinearInput::LinearInput(MakeRow make_row, int64_t m, int64_t k, int64_t ldx, float* room)
    : k_(k), make_row_(std::move(make_row)), room_(room) {
  plain_.m = m;
  plain_.ldx = ldx;
}

const LinearArgs& LinearInput::floats(ThreadPool& pool) {
  if (plain_.x) return plain_;
  pool.parallel_for(plain_.m, 1, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) make_row_(t, room_ + t * plain_.ldx);
  });
  plain_.x = room_;
  return plain_;
}

namespace {

// One token through the float quantizers, in groups of columns.
void fake_quantize(const ActForm& form, const float* x, int64_t k, float* y) {
  const VectorOps& ops = vector_ops();
  const int64_t group = form.group > 0 ? form.group : k;
  for (int64_t at = 0; at < k; at += group) {
    const int64_t n = std::min(group, k - at);
    if (form.kind == ActForm::Kind::kFakeE4M3) {
      ops.fake_quantize_e4m3(x + at, n, form.scale, y + at);
    } else {
      ops.fake_quantize_int(x + at, n, form.bits, form.scale, y + at);
    }
  }
}

void quantize_token(const ActForm& form, const float* x, int64_t k, int8_t* codes, float* scale,
                    int32_t* zero) {
  const VectorOps& ops = vector_ops();
  switch (form.kind) {
    case ActForm::Kind::kInt8:
      *scale = ops.quantize_int8_sym(x, k, codes);
      break;
    case ActForm::Kind::kInt8Asym:
      *scale = ops.quantize_int8_asym(x, k, codes, zero);
      break;
    default:
      ops.quantize_int8_static(x, k, form.scale, form.zero_point, codes);
      *scale = form.scale;
      *zero = form.zero_point;
  }
}

bool is_int8(ActForm::Kind kind) {
  return kind == ActForm::Kind::kInt8 || kind == ActForm::Kind::kInt8Asym ||
         kind == ActForm::Kind::kInt8Static;
}

// Elements from one row to the next: whole cache lines, an odd number of them, so that rows of 2^n bytes do not all lie in
// the same few sets of a cache.
int64_t odd_stride(int64_t k, int64_t element_bytes) {
  const int64_t lines = round_up(k * element_bytes, 64) / 64;
  return (lines | 1) * 64 / element_bytes;
}

// One token's floats as the form wants them, columns in its order; `permuted` has room for k.
const float* ordered(const ActForm& form, const float* x, int64_t k, float* permuted) {
  if (form.order.empty()) return x;
  for (int64_t c = 0; c < k; ++c) permuted[c] = x[form.order[static_cast<size_t>(c)]];
  return permuted;
}

}  // namespace

const LinearArgs& LinearInput::form(const ActForm& form, ThreadPool& pool, RoundX round_x) {
  const bool int8 = is_int8(form.kind);
  if (int8) round_x = nullptr;
  if (form.kind == ActForm::Kind::kFloat && form.order.empty() && !round_x) return floats(pool);
  for (const Made& made : made_)
    if (made.form == form && made.round_x == round_x) return made.args;

  Made made{form, round_x, plain_, {}, {}, {}};
  const int64_t m = plain_.m, element = int8 ? 1 : round_x ? 2 : 4;
  const int64_t ld = made.args.ldx = element == 4 ? plain_.ldx : odd_stride(k_, element);
  made.values = Buffer(static_cast<size_t>(m * ld * element));
  made.args.x = nullptr;
  if (int8) {
    made.scales = Buffer(static_cast<size_t>(m) * 4);
    made.zeros = Buffer(static_cast<size_t>(m) * 4, true);
    made.args.x_codes = made.values.as<int8_t>();
    made.args.x_scale = made.scales.as<float>();
    made.args.x_zero = form.kind == ActForm::Kind::kInt8 ? nullptr : made.zeros.as<int32_t>();
  } else if (round_x) {
    made.args.x_bf16 = made.values.as<uint16_t>();
  } else {
    made.args.x = made.values.as<float>();
  }
  pool.parallel_for(m, 1, [&](int64_t begin, int64_t end) {
    const size_t k = static_cast<size_t>(k_);
    std::vector<float> permuted(form.order.empty() ? 0 : k), rounded(round_x ? k : 0);
    std::vector<float> made_row(plain_.x ? 0 : k);
    for (int64_t t = begin; t < end; ++t) {
      const float* x = plain_.x ? plain_.x + t * plain_.ldx : made_row.data();
      if (!plain_.x) make_row_(t, made_row.data());
      x = ordered(form, x, k_, permuted.data());
      uint8_t* to = made.values.data() + t * ld * element;
      std::memset(to + k_ * element, 0, static_cast<size_t>((ld - k_) * element));
      if (int8) {
        quantize_token(form, x, k_, made.values.as<int8_t>() + t * ld, made.scales.as<float>() + t,
                       made.zeros.as<int32_t>() + t);
        continue;
      }
      float* y = round_x ? rounded.data() : made.values.as<float>() + t * ld;
      if (form.kind != ActForm::Kind::kFloat) {
        fake_quantize(form, x, k_, y);
        x = y;
      } else if (!round_x) {
        std::memcpy(y, x, k * 4);
      }
      if (round_x) round_x(x, k_, made.values.as<uint16_t>() + t * ld);
    }
  });
  made_.push_back(std::move(made));
  return made_.back().args;
}

}  // namespace roundel
