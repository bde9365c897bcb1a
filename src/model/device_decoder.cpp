#include "model/device_decoder.h"

#include <algorithm>
#include <cstring>

#include "base/process.h"
#include "base/rng.h"
#include "base/thread_pool.h"
#include "model/device_matrices.h"
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
      angles_(*rope_),
      staging_(*device_, ops_),
      arena_(*device_) {
  if (config_.head_dim > 256 || config_.head_dim % 8 != 0)
    fail(ErrorCode::kUnsupported,
         "heads of {} values: the GPU's attention takes multiples of 8 up to 256; use --device cpu",
         config_.head_dim);
  check_room(plan);
  build(plan);
  WeightFiller filler(files, plan, pool);
  fill(filler);
  counters_ = DeviceBuffer(*device_, 1 << 20, "counters");
  device_->clear(counters_.data(), counters_.size());
  device_->synchronize();
}

DeviceDecoder::~DeviceDecoder() {
  release(prompt_);
  for (auto& [key, batch] : decode_) release(batch);
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

std::vector<std::unique_ptr<DeviceLinear>> DeviceDecoder::make_group(const Plan& plan,
                                                                     const std::string& prefix,
                                                                     const std::vector<std::string>& names,
                                                                     bool alternating) {
  std::vector<std::unique_ptr<DeviceLinear>> made;
  for (DeviceMatrixParts& m : device_matrices(plan, config_, prefix, names, alternating))
    made.push_back(std::make_unique<DeviceLinear>(*device_, staging_, std::move(m.specs), m.rows));
  return made;
}

// Before anything is allocated: the weights as they will be packed, and some room to run in.
void DeviceDecoder::check_room(const Plan& plan) const {
  constexpr size_t kToRun = 96 << 20;  // staging, activations of a short prompt, the kernels themselves
  size_t weights = 0;
  for (const PlanEntry& e : plan.entries) {
    const LinearProblem problem =
        linear_problem({e.module.name, e.module.rows, e.module.cols, e.scheme, e.module.dtype});
    weights += choose_device_linear(problem, device_->info()).packed_bytes(problem);
  }
  const size_t free_bytes = device_->free_memory(), total = device_->info().total_memory;
  if (weights + kToRun <= free_bytes) return;
  fail(ErrorCode::kLimit,
       "cuda:{} has no room for the model: its weights need {} MiB and running it {} MiB more, {} of {} MiB "
       "are "
       "free (nvidia-smi shows who holds the rest); quantize it further (--quantize W4A16), use another GPU "
       "(--device cuda:N) or --device cpu",
       device_->info().index, weights >> 20, kToRun >> 20, free_bytes >> 20, total >> 20);
}

void DeviceDecoder::build(const Plan& plan) {
  const auto one = [&](const std::string& name) {
    return std::move(make_group(plan, "", {name}, false).front());
  };
  embedding_ = one("model.embed_tokens");
  if (traits_.merged_gate_up && config_.intermediate_size % kPairRows != 0)
    fail(ErrorCode::kUnsupported, "intermediate_size {}: merged gate and up need a multiple of {} on a GPU",
         config_.intermediate_size, kPairRows);
  for (int64_t i = 0; i < config_.layers; ++i) {
    const std::string p = "model.layers." + std::to_string(i) + ".";
    DeviceLayer layer;
    layer.qkv = make_group(plan, p + "self_attn.", qkv_modules(traits_), false);
    layer.o = one(p + "self_attn.o_proj");
    layer.gate_up = make_group(plan, p + "mlp.", gate_up_modules(traits_), true);
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
  for (const WeightTarget* weight : staging_.not_finite()) filler.report_not_finite(*weight);
  if (embedding_->reorders())
    fail(ErrorCode::kUnsupported,
         "model.embed_tokens has weight_g_idx: a GPU cannot look its rows up; use --device cpu");
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
  const size_t draw = last + up(static_cast<size_t>(steps) * 4);
  const size_t step = draw + (recorded ? up(static_cast<size_t>(steps) * sizeof(DrawRow)) : 0);
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
  batch.draw = draw;
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
  // Of `count` positions from `first` on, into rows from `row` on.
  const auto put = [&](const SequenceStep& s, int64_t first, int64_t count, size_t cos, size_t sin,
                       int64_t row) {
    angles_.copy(first, count, std::max(s.prompt_end, first + count),
                 reinterpret_cast<float*>(batch.host + cos) + row * half,
                 reinterpret_cast<float*>(batch.host + sin) + row * half);
  };
  int64_t t = 0;
  for (const SequenceStep& s : steps) {
    const int64_t start = cache.length(s.slot), count = static_cast<int64_t>(s.tokens.size());
    cache.reserve(s.slot, start + count + run - 1);
    put(s, start, count, batch.cos, batch.sin, t);
    for (int64_t r = 1; r < run; ++r)
      put(s, start + r, 1, batch.next_cos, batch.next_sin, (r - 1) * batch.tokens + t);
    for (int64_t i = 0; i < count; ++i, ++t)
      info[t] = {s.tokens[static_cast<size_t>(i)], static_cast<int32_t>(start + i),
                 cache.device_pages(s.slot)};
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
  if (input.terms())
    out.max_parts = 2;
  else
    out.y = arena_.take<float>(round_up(input.m(), kTokenUnit) * out.ldy, "logits");
  DeviceMatrix y = head().forward(input, out);
  if (y.parts > 1) {
    ops_.scale_rows(y, input.m(), out.ldy, nullptr, nullptr, device_->stream());
    y.parts = 1;
  }
  return y;
}

template <class F>
void DeviceDecoder::pass_or_give_back(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    if (e.code() == ErrorCode::kLimit) {
      device_->synchronize();
      arena_.give_back();
    }
    throw;
  }
}

void DeviceDecoder::forward(std::span<const SequenceStep> steps, KvCache& cache, float* hidden) {
  const int64_t tokens = count_tokens(steps), ld = round_up(config_.hidden_size, kColumnUnit);
  pass_or_give_back([&] {
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
  });
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
  if (batch.recorded) queue_choice(batch);
}

void DeviceDecoder::queue_choice(DeviceBatch& batch) {
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
  if (!batch.draws) return ops_.pick(p, device_->stream());
  DrawArgs d;
  d.next = p;
  d.logits = const_cast<float*>(batch.device_logits);
  d.draw = reinterpret_cast<const DrawRow*>(batch.device.data() + batch.draw);
  d.weights = arena_.take<uint64_t>(p.rows * p.vocab, "weights of tokens");
  d.seen = batch.seen.as<uint32_t>();
  ops_.draw(d, device_->stream());
}

void DeviceDecoder::run_recorded(DeviceBatch& batch) {
  if (batch.ran && batch.generation != arena_.generation()) {
    if (batch.graph) device_->release_graph(batch.graph);
    batch.graph = nullptr;
    batch.ran = false;
  }
  if (batch.ran && !batch.graph) {  // the first time made the memory and chose the algorithms
    device_->begin_record();
    try {
      queue_pass(batch);
    } catch (...) {
      device_->cancel_record();
      throw;
    }
    batch.graph = device_->end_record();
  }
  if (batch.graph)
    device_->launch(batch.graph);
  else
    queue_pass(batch);
  batch.generation = arena_.generation();
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
  const bool one_each = tokens == count && tokens <= kSmallTokens;
  DeviceBatch& batch = one_each ? decode_[{count, false}] : prompt_;
  if (!one_each && batch.steps < count && batch.logits) {
    device_->release_pinned(batch.logits);
    batch.logits = nullptr;
  }
  pass_or_give_back([&] {
    reserve(batch, tokens, count, one_each);
    describe(batch, steps, cache);
    upload(batch, 1);
    if (one_each)
      run_recorded(batch);
    else
      queue_pass(batch);
    read_logits(batch, out, ldl);
  });
  advance(steps, cache);
}

void DeviceDecoder::describe_choices(DeviceBatch& batch, std::span<const SequenceStep> steps,
                                     std::span<const TokenChoice> choices) {
  const size_t words = static_cast<size_t>(config_.vocab_size + 31) / 32, rows = choices.size();
  if (batch.seen.empty()) batch.seen = DeviceBuffer(*device_, rows * words * 4, "history of tokens");
  auto* draw = reinterpret_cast<DrawRow*>(batch.host + batch.draw);
  bool penalties = false;
  for (size_t i = 0; i < rows; ++i) {
    draw[i] = choices[i].draw;
    penalties |= draw[i].repetition_penalty != 1;
  }
  if (!penalties) return;
  std::vector<uint32_t> seen(rows * words);
  for (size_t i = 0; i < rows; ++i) {
    const auto add = [&](int32_t id) {
      seen[i * words + static_cast<size_t>(id / 32)] |= uint32_t{1} << (id % 32);
    };
    for (const int32_t id : choices[i].history) add(id);
    add(steps[i].tokens[0]);
  }
  device_->upload(batch.seen.data(), seen.data(), seen.size() * 4);
}

void DeviceDecoder::decode(std::span<const SequenceStep> steps, std::span<const TokenChoice> choices,
                           KvCache& cache, int64_t count, int32_t* out) {
  const size_t n = steps.size();
  std::vector<SequenceStep> now(steps.begin(), steps.end());
  std::vector<TokenChoice> next(choices.begin(), choices.end());
  std::vector<std::vector<int32_t>> history(n);
  DeviceBatch& batch = decode_[{static_cast<int64_t>(n), !choices.empty()}];
  reserve(batch, static_cast<int64_t>(n), static_cast<int64_t>(n), true);
  batch.draws = !choices.empty();
  while (count > 0) {
    const int64_t run = std::min(count, kRunSteps);
    describe(batch, now, cache, run);
    if (batch.draws) describe_choices(batch, now, next);
    upload(batch, run);
    for (int64_t i = 0; i < run; ++i) run_recorded(batch);
    device_->download(out, batch.picked.data(), static_cast<size_t>(run) * n * 4);
    for (size_t s = 0; s < n; ++s) {
      cache.set_length(steps[s].slot, cache.length(steps[s].slot) + run);
      if (batch.draws && count > run && next[s].draw.repetition_penalty != 1) {
        if (history[s].empty()) history[s].assign(next[s].history.begin(), next[s].history.end());
        history[s].push_back(now[s].tokens[0]);
        for (int64_t i = 0; i + 1 < run; ++i) history[s].push_back(out[static_cast<size_t>(i) * n + s]);
        next[s].history = history[s];
      }
      if (batch.draws) next[s].draw.step += static_cast<uint64_t>(run);
      now[s].tokens = {out + static_cast<size_t>(run - 1) * n + s, 1};
    }
    out += run * static_cast<int64_t>(n);
    count -= run;
  }
}

void DeviceDecoder::decode_greedy(std::span<const SequenceStep> steps, KvCache& cache, int64_t count,
                                  int32_t* out) {
  pass_or_give_back([&] { decode(steps, {}, cache, count, out); });
}

void DeviceDecoder::decode_drawn(std::span<const SequenceStep> steps, std::span<const TokenChoice> choices,
                                 KvCache& cache, int64_t count, int32_t* out) {
  CHECK(choices.size() == steps.size());
  pass_or_give_back([&] { decode(steps, choices, cache, count, out); });
}

KvShape DeviceDecoder::kv_shape() const {
  KvShape shape{config_.layers, config_.kv_heads, config_.head_dim, kv_type_};
  const KvQuantizer& kv = layers_.front().kv;
  if (kv.key_scale > 0) shape.type = kv.is_float ? KvType::kE4M3 : KvType::kInt8;
  return shape;
}

double DeviceDecoder::read_bandwidth() {
  const size_t bytes = std::min(size_t{2} << 30, device_->free_memory() / 2 / 64 * 64);
  DeviceBuffer data(*device_, bytes, "measuring the read bandwidth");
  device_->clear(data.data(), bytes);
  double best = 0;
  for (int pass = 0; pass < 5; ++pass) {
    device_->start_timer();
    ops_.read_all(data.data(), bytes, counters_.as<uint32_t>(), device_->stream());
    best = std::max(best, static_cast<double>(bytes) / device_->stop_timer());
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
  const DeviceBuffer workspace(*device_, kernel.workspace_bytes(p, kSize, bytes), "measuring a product");
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
