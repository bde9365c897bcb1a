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

}  // namespace

const LinearArgs& LinearInput::form(const ActForm& form, ThreadPool& pool) {
  if (form.kind == ActForm::Kind::kFloat && form.order.empty()) return plain_;
  for (const Made& made : made_)
    if (made.form == form) return made.args;

  const int64_t m = plain_.m, ld = plain_.ldx;
  Made made{form, plain_, {}, {}, {}};
  const bool int8 = is_int8(form.kind);
  made.values = Buffer(static_cast<size_t>(m * ld) * (int8 ? 1 : 4));
  if (int8) {
    made.scales = Buffer(static_cast<size_t>(m) * 4);
    made.zeros = Buffer(static_cast<size_t>(m) * 4, true);
    made.args.x = nullptr;
    made.args.x_codes = made.values.as<int8_t>();
    made.args.x_scale = made.scales.as<float>();
    made.args.x_zero = form.kind == ActForm::Kind::kInt8 ? nullptr : made.zeros.as<int32_t>();
  } else {
    made.args.x = made.values.as<float>();
  }
  pool.parallel_for(m, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> permuted(form.order.empty() ? 0 : static_cast<size_t>(ld), 0.0f);
    for (int64_t t = begin; t < end; ++t) {
      const float* x = plain_.x + t * ld;
      if (!form.order.empty()) {
        for (int64_t c = 0; c < k_; ++c) permuted[c] = x[form.order[c]];
        x = permuted.data();
      }
      if (int8) {
        int8_t* codes = made.values.as<int8_t>() + t * ld;
        quantize_token(form, x, k_, codes, made.scales.as<float>() + t, made.zeros.as<int32_t>() + t);
        std::memset(codes + k_, 0, static_cast<size_t>(ld - k_));
        continue;
      }
      float* y = made.values.as<float>() + t * ld;
      if (form.kind == ActForm::Kind::kFloat) {
        std::memcpy(y, x, static_cast<size_t>(k_) * 4);
      } else {
        fake_quantize(form, x, k_, y);
      }
      std::memset(y + k_, 0, static_cast<size_t>(ld - k_) * 4);
    }
  });
  made_.push_back(std::move(made));
  return made_.back().args;
}

}  // namespace roundel
