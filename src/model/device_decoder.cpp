#include "model/device_decoder.h"

#include <algorithm>
#include <cstring>

#include "base/process.h"
#include "base/rng.h"
#include "base/thread_pool.h"
#include "model/device_pass.h"
#include "model/weight_filler.h"

namespace roundel {
namespace {

constexpr int64_t kRunSteps = 32;  // that the GPU takes without the host

}  // namespace

DeviceDecoder::DeviceDecoder(std::unique_ptr<Device> device, const ModelFiles& files, const Plan& plan,
                             ThreadPool& pool)
    : device_(std::move(device)),
      ops_(device_ops(device_->info())),
      config_(files.config),
      traits_(files.traits),
      rope_(make_rope(files.config)),
      staging_(*device_),
      arena_(*device_) {
  if (config_.head_dim > 256 || config_.head_dim % 8 != 0)
    fail(ErrorCode::kUnsupported,
         "heads of {} values: the GPU's attention takes multiples of 8 up to 256; use --device cpu",
         config_.head_dim);
  build(plan);
  WeightFiller filler(files, plan, pool);
  fill(filler);
  counters_ = DeviceBuffer(*device_, 1 << 20, "counters");
  device_->clear(counters_.data(), counters_.size());
  device_->synchronize();
}

DeviceDecoder::~DeviceDecoder() {
  release(prompt_);
  for (auto& [count, batch] : decode_) release(batch);
}

void DeviceDecoder::release(DeviceBatch& batch) {
  if (batch.graph) device_->release_graph(batch.graph);
  if (batch.host) device_->release_pinned(batch.host);
  if (batch.logits) device_->release_pinned(batch.logits);
  batch = {};
}

template <class F>
void DeviceDecoder::for_each_linear(F&& f) const {
  f(embedding_);
  for (const DeviceLayer& l : layers_) {
    for (const auto& linear : l.qkv) f(linear);
    f(l.o);
    for (const auto& linear : l.gate_up) f(linear);
    f(l.down);
  }
  f(head_);
}

std::unique_ptr<DeviceLinear> DeviceDecoder::make(const Plan& plan, const std::vector<std::string>& names,
                                                  DeviceLinear::Rows rows) {
  std::vector<LinearSpec> specs;
  for (const std::string& name : names) {
    const PlanEntry* entry = plan.find(name);
    CHECK(entry != nullptr);
    specs.push_back({name, entry->module.rows, entry->module.cols, entry->scheme, entry->module.dtype});
  }
  if (!DeviceLinear::can_merge(specs)) return nullptr;
  return std::make_unique<DeviceLinear>(*device_, staging_, std::move(specs), rows);
}

std::vector<std::unique_ptr<DeviceLinear>> DeviceDecoder::make_group(const Plan& plan,
                                                                     const std::string& prefix,
                                                                     const std::vector<std::string>& names,
                                                                     bool alternating) {
  std::vector<std::string> full;
  for (const std::string& name : names) full.push_back(prefix + name);
  std::vector<std::unique_ptr<DeviceLinear>> made;
  const auto rows = alternating ? DeviceLinear::Rows::kAlternating : DeviceLinear::Rows::kStacked;
  const bool may_merge = names.size() > 1 && (!alternating || config_.intermediate_size % kPairRows == 0);
  if (may_merge) {
    if (auto merged = make(plan, full, rows)) {
      made.push_back(std::move(merged));
      return made;
    }
  }
  for (const std::string& name : full) {
    made.push_back(make(plan, {name}, names.size() == 1 ? rows : DeviceLinear::Rows::kStacked));
    if (!made.back())
      made.back() = std::make_unique<DeviceLinear>(
          *device_, staging_,
          std::vector<LinearSpec>{{name, plan.find(name)->module.rows, plan.find(name)->module.cols,
                                   plan.find(name)->scheme, plan.find(name)->module.dtype}});
  }
  return made;
}

void DeviceDecoder::build(const Plan& plan) {
  const auto one = [&](const std::string& name) {
    return std::move(make_group(plan, "", {name}, false).front());
  };
  embedding_ = one("model.embed_tokens");
  using Names = std::vector<std::string>;
  if (traits_.merged_gate_up && config_.intermediate_size % kPairRows != 0)
    fail(ErrorCode::kUnsupported, "intermediate_size {}: merged gate and up need a multiple of {} on a GPU",
         config_.intermediate_size, kPairRows);
  for (int64_t i = 0; i < config_.layers; ++i) {
    const std::string p = "model.layers." + std::to_string(i) + ".";
    DeviceLayer layer;
    layer.qkv =
        make_group(plan, p + "self_attn.",
                   traits_.merged_qkv ? Names{"qkv_proj"} : Names{"q_proj", "k_proj", "v_proj"}, false);
    layer.o = one(p + "self_attn.o_proj");
    layer.gate_up =
        make_group(plan, p + "mlp.",
                   traits_.merged_gate_up ? Names{"gate_up_proj"} : Names{"gate_proj", "up_proj"}, true);
    layer.down = one(p + "mlp.down_proj");
    layer.window = layer_window(config_, i);
    layers_.push_back(std::move(layer));
  }
  if (!config_.tie_word_embeddings) head_ = one("lm_head");
}

DeviceBuffer DeviceDecoder::upload(const std::vector<float>& values) {
  DeviceBuffer buffer(*device_, values.size() * 4, "weights");
  device_->upload(buffer.data(), values.data(), values.size() * 4);
  return buffer;
}

void DeviceDecoder::fill(WeightFiller& filler) {
  for_each_linear([&](const std::unique_ptr<DeviceLinear>& linear) {
    if (!linear) return;
    for (size_t i = 0; i < linear->parts(); ++i) filler.fill(linear->part(i));
    linear->finish();
  });
  final_norm_ = upload(filler.vector("model.norm.weight"));
  for (size_t i = 0; i < layers_.size(); ++i) {
    const std::string p = "model.layers." + std::to_string(i) + ".";
    DeviceLayer& layer = layers_[i];
    layer.input_norm = upload(filler.vector(p + "input_layernorm.weight"));
    layer.post_norm = upload(filler.vector(p + "post_attention_layernorm.weight"));
    if (traits_.qk_norm) {
      layer.q_norm = upload(filler.vector(p + "self_attn.q_norm.weight"));
      layer.k_norm = upload(filler.vector(p + "self_attn.k_norm.weight"));
    }
    layer.kv = filler.kv_quantizer(p + "self_attn.");
  }
}

void DeviceDecoder::reserve(DeviceBatch& batch, int64_t tokens, int64_t steps, bool recorded) {
  const auto up = [](size_t x) { return (x + 15) / 16 * 16; };
  const size_t angles = up(static_cast<size_t>(tokens * rope_->half()) * 4);
  const size_t cos = up(static_cast<size_t>(tokens) * sizeof(TokenInfo)), last = cos + 2 * angles;
  const size_t step = last + up(static_cast<size_t>(steps) * 4);
  const size_t later = recorded ? static_cast<size_t>(kRunSteps - 1) * angles : 0;
  const size_t bytes = step + 16 + 2 * later;
  if (bytes > batch.bytes) {
    release(batch);
    batch.host = static_cast<uint8_t*>(device_->allocate_pinned(bytes));
    batch.device = DeviceBuffer(*device_, bytes, "token descriptions");
    batch.bytes = bytes;
  }
  batch.tokens = tokens;
  batch.steps = steps;
  batch.cos = cos;
  batch.sin = cos + angles;
  batch.last = last;
  batch.step = step;
  batch.next_cos = step + 16;
  batch.next_sin = batch.next_cos + later;
  batch.recorded = recorded;
  if (recorded && batch.picked.empty()) {
    batch.picked = DeviceBuffer(*device_, static_cast<size_t>(kRunSteps * steps) * 4, "picked tokens");
    batch.pick_scratch =
        DeviceBuffer(*device_, static_cast<size_t>(kPickBlocks * steps) * 8, "picked tokens");
  }
}

void DeviceDecoder::describe(DeviceBatch& batch, std::span<const SequenceStep> steps, KvCache& cache,
                             int64_t run) {
  auto* info = reinterpret_cast<TokenInfo*>(batch.host);
  auto* last = reinterpret_cast<int32_t*>(batch.host + batch.last);
  const int64_t half = rope_->half();
  const auto put = [&](const RopeAngles& angles, size_t cos, size_t sin, int64_t row) {
    std::memcpy(reinterpret_cast<float*>(batch.host + cos) + row * half, angles.cos.data(),
                angles.cos.size() * 4);
    std::memcpy(reinterpret_cast<float*>(batch.host + sin) + row * half, angles.sin.data(),
                angles.sin.size() * 4);
  };
  int64_t t = 0;
  for (const SequenceStep& s : steps) {
    const int64_t start = cache.length(s.slot), count = static_cast<int64_t>(s.tokens.size());
    cache.reserve(s.slot, start + count + run - 1);
    put(rope_->angles(start, count, std::max(s.prompt_end, start + count)), batch.cos, batch.sin, t);
    for (int64_t r = 1; r < run; ++r)
      put(rope_->angles(start + r, 1, std::max(s.prompt_end, start + r + 1)), batch.next_cos, batch.next_sin,
          (r - 1) * batch.tokens + t);
    for (int64_t i = 0; i < count; ++i, ++t)
      info[t] = {s.tokens[static_cast<size_t>(i)], static_cast<int32_t>(start + i), cache.device_data(s.slot),
                 cache.capacity(s.slot)};
    *last++ = static_cast<int32_t>(t) - 1;
  }
  *reinterpret_cast<int32_t*>(batch.host + batch.step) = 0;
}

void DeviceDecoder::upload(const DeviceBatch& batch, int64_t run) {
  device_->copy(batch.device.data(), batch.host, batch.step + 16);
  const size_t bytes = static_cast<size_t>((run - 1) * batch.tokens * rope_->half()) * 4;
  if (bytes == 0) return;
  device_->copy(batch.device.data() + batch.next_cos, batch.host + batch.next_cos, bytes);
  device_->copy(batch.device.data() + batch.next_sin, batch.host + batch.next_sin, bytes);
}

namespace {

int64_t count_tokens(std::span<const SequenceStep> steps) {
  int64_t n = 0;
  for (const SequenceStep& s : steps) n += static_cast<int64_t>(s.tokens.size());
  return n;
}

void advance(std::span<const SequenceStep> steps, KvCache& cache) {
  for (const SequenceStep& s : steps)
    cache.set_length(s.slot, cache.length(s.slot) + static_cast<int64_t>(s.tokens.size()));
}

}  // namespace

DeviceMatrix DeviceDecoder::head_logits(DeviceInput& input) {
  DeviceLinear::Output out;
  out.ldy = config_.vocab_size;
  out.y = arena_.take<float>(input.m() * out.ldy, "logits");
  return head().forward(input, out);
}

void DeviceDecoder::forward(std::span<const SequenceStep> steps, KvCache& cache, float* hidden) {
  const int64_t tokens = count_tokens(steps), ld = round_up(config_.hidden_size, kColumnUnit);
  reserve(prompt_, tokens, static_cast<int64_t>(steps.size()), false);
  describe(prompt_, steps, cache);
  upload(prompt_, 1);
  Pass pass(*this, prompt_, steps.size() == 1);
  pass.run_layers();
  if (hidden) {
    float* y = arena_.take<float>(tokens * ld, "hidden states");
    device_->clear(y, static_cast<size_t>(tokens * ld) * 4);
    pass.final_norm(y, ld);
    device_->download(hidden, y, static_cast<size_t>(tokens * ld) * 4);
  }
  device_->synchronize();
  advance(steps, cache);
}

void DeviceDecoder::logits(const float* hidden, int64_t rows, int64_t hidden_ld, float* out, int64_t ldl) {
  constexpr int64_t kRows = 256;  // bounds the memory of a big vocabulary
  const int64_t ld = round_up(config_.hidden_size, int64_t{8}), vocab = config_.vocab_size;
  for (int64_t row0 = 0; row0 < rows; row0 += kRows) {
    const int64_t n = std::min(kRows, rows - row0);
    arena_.reset();
    float* x = arena_.take<float>(n * hidden_ld, "hidden states");
    device_->upload(x, hidden + row0 * hidden_ld, static_cast<size_t>(n * hidden_ld) * 4);
    auto* narrow = arena_.take<uint16_t>(n * ld, "hidden states");
    ops_.to_bf16(x, hidden_ld, n, config_.hidden_size, narrow, ld, device_->stream());
    DeviceInput input(arena_, ops_, narrow, n, config_.hidden_size, ld);
    const DeviceMatrix y = head_logits(input);
    if (ldl == vocab) {
      device_->download(out + row0 * ldl, y.data, static_cast<size_t>(n * vocab) * 4);
      continue;
    }
    for (int64_t r = 0; r < n; ++r)
      device_->download(out + (row0 + r) * ldl, static_cast<const float*>(y.data) + r * vocab,
                        static_cast<size_t>(vocab) * 4);
  }
}

void DeviceDecoder::queue_pass(DeviceBatch& batch) {
  Pass pass(*this, batch, batch.steps == 1);
  pass.run_layers();
  DeviceInput input =
      pass.final_norm(reinterpret_cast<const int32_t*>(batch.device.data() + batch.last), batch.steps);
  const DeviceMatrix y = head_logits(input);
  batch.device_logits = static_cast<const float*>(y.data);
  if (!batch.recorded) return;
  PickArgs p;
  p.rows = batch.steps;
  p.vocab = p.ldl = config_.vocab_size;
  p.logits = batch.device_logits;
  p.info = batch.device.as<TokenInfo>();
  p.step = reinterpret_cast<int32_t*>(batch.device.data() + batch.step);
  p.ids = batch.picked.as<int32_t>();
  p.half = rope_->half();
  p.cos = reinterpret_cast<float*>(batch.device.data() + batch.cos);
  p.sin = reinterpret_cast<float*>(batch.device.data() + batch.sin);
  p.next_cos = reinterpret_cast<const float*>(batch.device.data() + batch.next_cos);
  p.next_sin = reinterpret_cast<const float*>(batch.device.data() + batch.next_sin);
  p.steps = kRunSteps;
  p.scratch = batch.pick_scratch.as<uint64_t>();
  p.counters = counters_.as<uint32_t>();
  ops_.pick(p, device_->stream());
}

void DeviceDecoder::run_recorded(DeviceBatch& batch) {
  if (batch.graph && batch.generation != arena_.generation()) {
    device_->release_graph(batch.graph);
    batch.graph = nullptr;
    batch.ran = false;
  }
  if (batch.ran && !batch.graph) {  // the first time made the memory and chose the algorithms
    device_->begin_record();
    queue_pass(batch);
    batch.graph = device_->end_record();
    batch.generation = arena_.generation();
  }
  if (batch.graph)
    device_->launch(batch.graph);
  else
    queue_pass(batch);
  batch.ran = true;
}

void DeviceDecoder::read_logits(DeviceBatch& batch, float* out, int64_t ldl) {
  const size_t vocab = static_cast<size_t>(config_.vocab_size), count = static_cast<size_t>(batch.steps);
  if (!batch.logits) batch.logits = static_cast<float*>(device_->allocate_pinned(count * vocab * 4));
  device_->copy(batch.logits, batch.device_logits, count * vocab * 4);
  device_->synchronize();
  for (size_t i = 0; i < count; ++i)
    std::memcpy(out + static_cast<int64_t>(i) * ldl, batch.logits + i * vocab, vocab * 4);
}

void DeviceDecoder::next_logits(std::span<const SequenceStep> steps, KvCache& cache, float* out,
                                int64_t ldl) {
  const int64_t tokens = count_tokens(steps), count = static_cast<int64_t>(steps.size());
  const bool decode = tokens == count && tokens <= kSmallTokens;
  DeviceBatch& batch = decode ? decode_[count] : prompt_;
  if (!decode && batch.steps < count && batch.logits) {
    device_->release_pinned(batch.logits);
    batch.logits = nullptr;
  }
  reserve(batch, tokens, count, decode);
  describe(batch, steps, cache);
  upload(batch, 1);
  if (decode)
    run_recorded(batch);
  else
    queue_pass(batch);
  read_logits(batch, out, ldl);
  advance(steps, cache);
}

void DeviceDecoder::decode_greedy(std::span<const SequenceStep> steps, KvCache& cache, int64_t count,
                                  int32_t* out) {
  const size_t n = steps.size();
  std::vector<SequenceStep> now(steps.begin(), steps.end());
  DeviceBatch& batch = decode_[static_cast<int64_t>(n)];
  reserve(batch, static_cast<int64_t>(n), static_cast<int64_t>(n), true);
  while (count > 0) {
    const int64_t run = std::min(count, kRunSteps);
    describe(batch, now, cache, run);
    upload(batch, run);
    for (int64_t i = 0; i < run; ++i) run_recorded(batch);
    device_->download(out, batch.picked.data(), static_cast<size_t>(run) * n * 4);
    for (size_t s = 0; s < n; ++s) {
      cache.set_length(steps[s].slot, cache.length(steps[s].slot) + run);
      now[s].tokens = {out + static_cast<size_t>(run - 1) * n + s, 1};
    }
    out += run * static_cast<int64_t>(n);
    count -= run;
  }
}

double DeviceDecoder::read_bandwidth() {
  constexpr size_t kBytes = size_t{2} << 30;
  DeviceBuffer data(*device_, kBytes, "measuring the read bandwidth");
  device_->clear(data.data(), kBytes);
  double best = 0;
  for (int pass = 0; pass < 5; ++pass) {
    device_->start_timer();
    ops_.read_all(data.data(), kBytes, counters_.as<uint32_t>(), device_->stream());
    best = std::max(best, static_cast<double>(kBytes) / device_->stop_timer());
  }
  return best;
}

ProductRate DeviceDecoder::product_rate() {
  constexpr int64_t kSize = 8192;
  ProductRate rate;
  for_each_linear([&](const std::unique_ptr<DeviceLinear>& l) {
    if (l && l != embedding_ && l != head_)
      rate.operations_per_token += 2.0 * static_cast<double>(l->problem().n * l->problem().k);
  });
  const bool bytes = layers_.front().down->input_form(kSize).as == DeviceInputForm::As::kBytes;
  LinearProblem p;
  p.n = p.k = p.group = kSize;
  p.code = bytes ? layers_.front().down->problem().code : CodeType::kBF16;
  p.bits = bytes ? 8 : 16;
  p.has_scale = bytes;
  rate.kind = !bytes ? "BF16" : p.code == CodeType::kE4M3 ? "E4M3" : "int8";
  const DeviceLinearKernel& kernel = choose_device_linear(p, device_->info());
  // Random codes: small normal numbers of each kind, and scales of one.
  const size_t count = static_cast<size_t>(kSize * kSize), width = bytes ? 1 : 2;
  std::vector<uint8_t> codes(count * width);
  for (size_t i = 0; i < codes.size(); i += 8) {
    const uint64_t r = random_u64(1, i) & (bytes ? 0xBFBFBFBFBFBFBFBFull : 0xBFFFBFFFBFFFBFFFull);
    std::memcpy(codes.data() + i, &r, 8);
  }
  DeviceBuffer packed(*device_, kernel.packed_bytes(p), "measuring a product");
  const DeviceBuffer x(*device_, codes.size(), "measuring a product"),
      y(*device_, count * 2, "measuring a product");
  const DeviceBuffer ones = upload(std::vector<float>(static_cast<size_t>(kSize), 1.0f));
  device_->upload(x.data(), codes.data(), codes.size());
  DeviceWeightRows rows;
  rows.rows = kSize, rows.codes = x.data(), rows.scales = ones.as<float>();
  kernel.pack(p, rows, packed.data(), device_->stream());
  DeviceBuffer& workspace = arena_.workspace(kernel.workspace_bytes(p, kSize));
  DeviceLinearArgs a;
  a.m = kSize, a.y = y.data(), a.ldy = kSize, a.y_bf16 = true, a.part_stride = kSize * kSize;
  if (bytes)
    a.x8 = x.data(), a.ldx8 = kSize, a.token_scale = ones.as<float>();
  else
    a.x = x.data(), a.ldx = kSize;
  a.workspace = workspace.data(), a.workspace_bytes = workspace.size();
  std::vector<double> seconds;
  constexpr int kProducts =
      24;  // one after another: about as long as a prompt takes, so that clocks are as low
  for (int i = 0; i < 4; ++i) {
    device_->start_timer();
    for (int j = 0; j < kProducts; ++j) kernel.run(p, packed.data(), a, device_->info(), device_->stream());
    seconds.push_back(device_->stop_timer() / kProducts);
  }
  std::sort(seconds.begin(), seconds.end());
  rate.operations_per_second = 2.0 * static_cast<double>(kSize) * kSize * kSize / seconds[seconds.size() / 2];
  return rate;
}

std::vector<ModuleReport> DeviceDecoder::modules() const {
  std::vector<ModuleReport> list;
  for_each_linear([&](const std::unique_ptr<DeviceLinear>& linear) {
    if (!linear) return;
    for (size_t i = 0; i < linear->parts(); ++i) {
      const WeightTarget& part = linear->part(i);
      list.push_back({part.spec().name, linear->kernel().name, part.packed_bytes()});
    }
  });
  return list;
}

size_t DeviceDecoder::weight_bytes() const {
  size_t total = 0;
  for_each_linear([&](const std::unique_ptr<DeviceLinear>& l) { total += l ? l->packed_bytes() : 0; });
  return total;
}

size_t DeviceDecoder::bytes_per_token() const {
  return weight_bytes() - (head_ ? embedding_->packed_bytes() : 0);
}

}  // namespace roundel
