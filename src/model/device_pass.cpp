#include "model/device_pass.h"

#include <algorithm>
#include <cmath>

namespace roundel {
namespace {

constexpr int kParts = 8;  // that a linear of few tokens may leave its result in
// Two terms cost little up to here: sequences that decode, and positions that one token after another looks back to.
constexpr int64_t kTermSequences = 8, kTermPositions = 4096;

// Regions of the arena: the whole pass's; a block's own, which the next block takes again; what a block leaves to be added
// to the residual, which the next block's norm reads first.
enum { kPass, kBlock, kDelta };

DeviceMatrix columns_from(DeviceMatrix m, int64_t first) {
  m.data = static_cast<const uint8_t*>(m.data) + first * (m.bf16 ? 2 : 4);
  return m;
}

DeviceKv cache_of(const KvQuantizer& kv, KvType plain) {
  if (kv.key_scale <= 0) return {plain};
  return {kv.is_float ? KvType::kE4M3 : KvType::kInt8, kv.key_scale, kv.value_scale, kv.bits};
}

}  // namespace

DeviceDecoder::Pass::Pass(DeviceDecoder& decoder, const DeviceBatch& batch, bool one_sequence)
    : d_(decoder),
      c_(decoder.config_),
      batch_(batch),
      one_sequence_(one_sequence),
      tokens_(batch.tokens),
      hidden_ld_(round_up(c_.hidden_size, int64_t{8})),
      small_(batch.tokens <= kSmallTokens),
      next_(batch.tokens == batch.steps && batch.tokens <= kSmallTokens),
      info_(batch.device.as<TokenInfo>()) {
  const auto* info = reinterpret_cast<const TokenInfo*>(batch.host);
  const auto near = [](const TokenInfo& t) { return t.position < kTermPositions; };
  terms_ = small_ && (next_ ? tokens_ <= kTermSequences : std::all_of(info, info + tokens_, near));
  d_.arena_.reset();
  residual_ = d_.arena_.take<float>(tokens_ * hidden_ld_, "activations");
}

void DeviceDecoder::Pass::run_layers() {
  static_assert(sizeof(TokenInfo) % 4 == 0);
  d_.embedding_->read_rows(&info_->id, sizeof(TokenInfo) / 4, tokens_, residual_, hidden_ld_);
  for (size_t i = 0; i < d_.layers_.size(); ++i) {
    d_.arena_.open(kBlock);
    attention_block(d_.layers_[i], static_cast<int64_t>(i));
    d_.arena_.open(kBlock);
    mlp_block(d_.layers_[i]);
  }
  d_.arena_.open(kPass);
}

uint16_t* DeviceDecoder::Pass::take_rows(int64_t rows, int64_t ld, int64_t& low) {
  low = terms_ ? rows * ld : 0;
  return d_.arena_.take<uint16_t>(rows * ld + low, "activations");
}

bool DeviceDecoder::Pass::rounds_at_once(const DeviceInputForm& form) const {
  if (form.order) return false;
  return form.as != DeviceInputForm::As::kBF16 || (form.form.kind != DeviceForm::Kind::kNone && !terms_);
}

NormArgs DeviceDecoder::Pass::norm_args(const DeviceBuffer& gain) {
  NormArgs a;
  a.rows = tokens_;
  a.cols = c_.hidden_size;
  a.residual = residual_;
  a.ld = hidden_ld_;
  a.delta = delta_;
  a.gain = gain.as<float>();
  a.eps = static_cast<float>(c_.rms_norm_eps);
  delta_ = {};
  return a;
}

DeviceInput DeviceDecoder::Pass::normalize(const DeviceBuffer& gain,
                                           const std::vector<std::unique_ptr<DeviceLinear>>& readers) {
  NormArgs a = norm_args(gain);
  const DeviceInputForm form = readers.front()->input_form(tokens_);
  const bool same = std::all_of(readers.begin(), readers.end(),
                                [&](const auto& linear) { return linear->input_form(tokens_) == form; });
  const bool rounded = same && rounds_at_once(form);
  if (!rounded) {
    a.ldy = hidden_ld_;
    a.y = take_rows(tokens_, hidden_ld_, a.low);
  }
  DeviceInput input(d_.arena_, d_.ops_, a.y, tokens_, c_.hidden_size, hidden_ld_, a.low);
  if (rounded) {
    a.form = form.form;
    a.codes = input.provide(form);
  }
  d_.ops_.norm(a, d_.device_->stream());
  return input;
}

DeviceMatrix DeviceDecoder::Pass::multiply_norm(const DeviceBuffer& gain,
                                                const std::vector<std::unique_ptr<DeviceLinear>>& readers,
                                                std::optional<DeviceInput>& input,
                                                const DeviceLinear::Output& out) {
  if (readers.size() == 1 && !delta_.data && readers[0]->fuses_norm(tokens_))
    return readers[0]->forward_norm(d_.arena_, norm_args(gain), out);
  input.emplace(normalize(gain, readers));
  return readers[0]->forward(*input, out);
}

void DeviceDecoder::Pass::add_product(const DeviceLinear& linear, DeviceInput& input) {
  if (!linear.adds(tokens_)) {
    linear.prepare(input);
    d_.arena_.open(kDelta);  // the norm has read the one before
    delta_ = multiply(linear, input, kParts);
    return;
  }
  DeviceLinear::Output out;
  out.y = residual_;
  out.ldy = hidden_ld_;
  out.add = true;
  linear.forward(input, out);
}

DeviceMatrix DeviceDecoder::Pass::multiply(const DeviceLinear& linear, DeviceInput& input, int max_parts) {
  DeviceLinear::Output out;
  out.bf16 = !small_;
  out.max_parts = max_parts;
  return linear.forward(input, out);
}

DeviceAttentionArgs DeviceDecoder::Pass::attention_args(const DeviceLayer& layer, int64_t index,
                                                        const uint16_t* q) {
  DeviceAttentionArgs a;
  a.tokens = tokens_;
  a.heads = c_.heads;
  a.kv_heads = c_.kv_heads;
  a.head_dim = c_.head_dim;
  a.layer = index;
  a.scale = 1.0f / std::sqrt(static_cast<float>(c_.head_dim));
  a.window = layer.window;
  a.info = info_;
  a.kv = cache_of(layer.kv, d_.kv_type_);
  a.q = q;
  a.ldo = c_.heads * c_.head_dim;
  a.out = take_rows(tokens_, a.ldo, a.low);
  a.one_sequence = one_sequence_;
  const int64_t blocks = tokens_ * c_.kv_heads;
  a.splits = static_cast<int>(std::clamp<int64_t>(6 * d_.device_->info().multiprocessors / blocks, 1, 32));
  if (a.splits > 1)
    a.scratch = d_.arena_.take<float>(tokens_ * c_.heads * a.splits * (c_.head_dim + 2), "activations");
  a.counters = d_.counters_.as<uint32_t>();
  return a;
}

void DeviceDecoder::Pass::attention_block(const DeviceLayer& layer, int64_t index) {
  std::optional<DeviceInput> input;
  RopeArgs r;
  r.tokens = tokens_;
  r.heads = c_.heads;
  r.kv_heads = c_.kv_heads;
  r.head_dim = c_.head_dim;
  r.half = d_.rope_->half();
  r.layer = index;
  DeviceLinear::Output out;
  out.bf16 = !small_;
  out.max_parts = kParts;
  r.q = multiply_norm(layer.input_norm, layer.qkv, input, out);
  const int64_t q_cols = c_.heads * c_.head_dim, kv_cols = c_.kv_heads * c_.head_dim;
  if (layer.qkv.size() == 1) {
    r.k = columns_from(r.q, q_cols);
    r.v = columns_from(r.q, q_cols + kv_cols);
  } else {
    r.k = multiply(*layer.qkv[1], *input, kParts);
    r.v = multiply(*layer.qkv[2], *input, kParts);
  }
  r.info = info_;
  r.cos = reinterpret_cast<const float*>(batch_.device.data() + batch_.cos);
  r.sin = reinterpret_cast<const float*>(batch_.device.data() + batch_.sin);
  r.q_norm = layer.q_norm.as<float>();
  r.k_norm = layer.k_norm.as<float>();
  r.eps = static_cast<float>(c_.rms_norm_eps);
  r.kv = cache_of(layer.kv, d_.kv_type_);
  r.q_out = take_rows(tokens_, q_cols, r.low);
  const DeviceAttentionArgs a = attention_args(layer, index, r.q_out);
  if (next_) {
    d_.ops_.attend_next(r, a, d_.device_->stream());
  } else {
    d_.ops_.rope(r, d_.device_->stream());
    d_.ops_.attention(a, d_.device_->stream());
  }
  DeviceInput attended(d_.arena_, d_.ops_, a.out, tokens_, q_cols, q_cols, a.low);
  add_product(*layer.o, attended);
}

void DeviceDecoder::Pass::mlp_block(const DeviceLayer& layer) {
  std::optional<DeviceInput> input;
  const int64_t inter = c_.intermediate_size, ld = round_up(inter, int64_t{8});
  const bool gelu = c_.activation != "silu";
  const DeviceLinear& first = *layer.gate_up.front();
  const uint16_t* activated = nullptr;
  int64_t low = 0;
  if (!gelu && layer.gate_up.size() == 1 && first.fuses_gate(tokens_, terms_)) {
    DeviceLinear::Output out;
    out.gated = true;
    const DeviceInputForm form = layer.down->input_form(tokens_);
    if (first.rounds_gate(tokens_, form)) {
      DeviceInput down(d_.arena_, d_.ops_, nullptr, tokens_, inter, ld);
      out.form = form.form;
      out.codes = down.provide(form);
      out.counters = d_.counters_.as<uint32_t>();
      multiply_norm(layer.post_norm, layer.gate_up, input, out);
      add_product(*layer.down, down);
      return;
    }
    out.terms = terms_;
    const DeviceMatrix y = multiply_norm(layer.post_norm, layer.gate_up, input, out);
    activated = static_cast<const uint16_t*>(y.data);
    low = terms_ ? y.part_stride : 0;
  } else {
    GatedArgs g;
    g.rows = tokens_;
    g.cols = inter;
    DeviceLinear::Output out;
    out.bf16 = !small_;
    out.max_parts = kParts;
    g.gate = multiply_norm(layer.post_norm, layer.gate_up, input, out);
    if (layer.gate_up.size() == 2)
      g.up = multiply(*layer.gate_up[1], *input, kParts);
    else if (!first.alternating())
      g.up = columns_from(g.gate, inter);
    g.gelu = gelu;
    const DeviceInputForm form = layer.down->input_form(tokens_);
    if (rounds_at_once(form)) {
      DeviceInput down(d_.arena_, d_.ops_, nullptr, tokens_, inter, ld);
      g.form = form.form;
      g.codes = down.provide(form);
      d_.ops_.gated(g, d_.device_->stream());
      add_product(*layer.down, down);
      return;
    }
    g.y = take_rows(tokens_, ld, g.low);
    g.ldy = ld;
    d_.ops_.gated(g, d_.device_->stream());
    activated = g.y;
    low = g.low;
  }
  DeviceInput down(d_.arena_, d_.ops_, activated, tokens_, inter, ld, low);
  add_product(*layer.down, down);
}

DeviceInput DeviceDecoder::Pass::final_norm(const int32_t* rows, int64_t count) {
  NormArgs a = norm_args(d_.final_norm_);
  a.rows = count;
  a.rows_in = rows;
  a.ldy = hidden_ld_;
  a.y = take_rows(count, hidden_ld_, a.low);
  d_.ops_.norm(a, d_.device_->stream());
  return {d_.arena_, d_.ops_, a.y, count, c_.hidden_size, hidden_ld_, a.low};
}

void DeviceDecoder::Pass::final_norm(float* y, int64_t ldy) {
  NormArgs a = norm_args(d_.final_norm_);
  a.y_float = y;
  a.ldy_float = ldy;
  d_.ops_.norm(a, d_.device_->stream());
}

}  // namespace roundel
