#include "quantize/calibration/calibrator.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/log.h"
#include "base/process.h"
#include "base/thread_pool.h"
#include "quantize/calibration/memory_plan.h"
#include "quantize/calibration/methods.h"
#include "quantize/calibration/range_observer.h"
#include "quantize/calibration/smoothing.h"

namespace roundel {
namespace {

bool has_static_input(const PlanEntry& e) {
  return e.scheme.weights && e.scheme.input && e.scheme.input->dynamic == DynamicMode::kStatic;
}

StoredWeight stored_weight(const PlanEntry& e) {
  return {e.module.name, e.scheme, e.module.rows, e.module.cols, e.module.dtype, false};
}

Qparams write_qparams(const RangeObserver& observer, const PlanEntry& e, const char* which, bool symmetric,
                      const CalibrationOutput& out) {
  const Qparams q = observer.qparams(e.module.dtype);
  uint8_t scale[8] = {};
  narrow_from_float(e.module.dtype, &q.scale, scale, 1);
  out.write(e.module.name + which + "_scale", 0, scale, dtype_size(e.module.dtype));
  if (!symmetric) {
    const auto zero = static_cast<int8_t>(q.zero_point);
    out.write(e.module.name + which + "_zero_point", 0, &zero, 1);
  }
  return q;
}

bool is_calibrated_head(const Plan& plan) {
  const PlanEntry* head = plan.find("lm_head");
  return head && has_static_input(*head);
}

// Static scales of the inputs of one stage. Modules with equal arguments share an observer, so those that engines fuse get
// one scale.
class StageObservers {
 public:
  StageObservers(const std::vector<LayerModule*>& modules) {
    for (const LayerModule* m : modules) {
      if (!has_static_input(*m->entry) || find(*m->entry)) continue;
      observers_.push_back({&*m->entry->scheme.input,
                            RangeObserver(*m->entry->scheme.input, m->entry->module.name + ": input")});
    }
  }
  void observe(const Activations& x, ThreadPool& pool) {
    for (auto& [args, observer] : observers_) observer.observe(x, pool);
  }
  const RangeObserver* find(const PlanEntry& e) const {
    for (const auto& [args, observer] : observers_)
      if (*args == *e.scheme.input) return &observer;
    return nullptr;
  }

 private:
  std::vector<std::pair<const QuantArgs*, RangeObserver>> observers_;
};

struct StageStatistics {
  InputMoments moments;
  std::optional<CrossMoment> drift, residual;
};

}  // namespace

bool is_calibrated_tensor(const ModelFiles& files, const Plan& plan, const std::string& tensor) {
  if (tensor == "lm_head.weight") return is_calibrated_head(plan);
  if (!tensor.starts_with("model.layers.")) return false;
  if (tensor.ends_with(".weight") && plan.find(tensor.substr(0, tensor.size() - 7))) return true;
  if (tensor.ends_with(".bias") && plan.find(tensor.substr(0, tensor.size() - 5))) return true;
  return std::any_of(files.layout.vectors.begin(), files.layout.vectors.end(),
                     [&](const VectorParam& v) { return v.name == tensor; });
}

std::vector<TensorSpec> activation_tensors(const PlanEntry& entry) {
  std::vector<TensorSpec> specs;
  const auto add = [&](const char* which, const QuantArgs& args) {
    specs.push_back({entry.module.name + which + "_scale", entry.module.dtype, {1}});
    if (!args.symmetric) specs.push_back({entry.module.name + which + "_zero_point", DType::kI8, {1}});
  };
  if (has_static_input(entry)) add(".input", *entry.scheme.input);
  if (entry.scheme.weights && entry.scheme.output) add(".output", *entry.scheme.output);
  return specs;
}

std::vector<TensorSpec> key_value_tensors(const ModelFiles& files, const Plan& plan, int64_t layer) {
  if (!plan.kv_cache || plan.kv_cache->dynamic != DynamicMode::kStatic) return {};
  const std::string prefix = "model.layers." + std::to_string(layer) + ".";
  DType dtype = files.config.dtype;
  for (const PlanEntry& e : plan.entries)
    if (e.module.name.starts_with(prefix)) dtype = e.module.dtype;
  return {{prefix + "self_attn.k_scale", dtype, {1}}, {prefix + "self_attn.v_scale", dtype, {1}}};
}

struct Calibrator::Impl {
  Impl(const ModelFiles& f, const Plan& p, const Calibration& c, ThreadPool& t)
      : files(f),
        plan(p),
        calibration(c),
        pool(t),
        methods(c.steps),
        smoother(f, c.steps),
        memory(plan_memory(f, c, {uses_second(), aims_at_dense(), smoother.any(), smoother.needs_inputs()})),
        runner(f, c.samples, memory.on_disk, t) {
    reuse_freed_buffers();  // many of a few MiB, for every sample
    for (const std::string& name : methods.unmatched(plan))
      fail(ErrorCode::kInvalid, "the step {} matches no module that the plan quantizes", name);
    if (aims_at_dense()) dense_runner = std::make_unique<LayerRunner>(f, c.samples, memory.on_disk, t);
    log_info("calibrating on {} samples, about {} of memory{}", c.samples.size(), format_bytes(memory.peak),
             memory.on_disk
                 ? fmt::format(" and {} in a temporary file", format_bytes(memory.needs.activations))
                 : "");
  }

  template <class F>
  bool any_method(F&& f) const {
    return std::any_of(plan.entries.begin(), plan.entries.end(), [&](const PlanEntry& e) {
      return e.scheme.weights && f(methods.of(e.module), *e.scheme.weights);
    });
  }
  bool uses_second() const {
    return smoother.needs_second() ||
           any_method([](const Method& m, const QuantArgs&) { return m.needs_second(); });
  }
  // Whether some method compares with the dense model, whose activations then run beside the others.
  bool aims_at_dense() const {
    return calibration.propagate_error &&
           any_method([](const Method& m, const QuantArgs& w) { return roundel::aims_at_dense(m, w); });
  }

  // Whether nothing reads what the stage puts out.
  bool is_last(int64_t layer, Stage s) const {
    return layer == files.config.layers - 1 && s == Stage::kDown && !is_calibrated_head(plan);
  }

  void layer(int64_t index, const CalibrationOutput& out);
  void head(const CalibrationOutput& out);
  void smooth(LayerWeights& weights);
  void check_finite(const InputMoments& moments, const std::string& module) const;
  void stage(Stage s, LayerWeights& weights, DecoderLayer& quantized, DecoderLayer& reads,
             const CalibrationOutput& out);
  void collect(Stage s, const LayerWeights& weights, const std::vector<LayerModule*>& modules,
               StageObservers& observers, StageStatistics* statistics);
  void add_drift(Stage s, const SampleState& dense, const SampleState& sample, StageStatistics* statistics);
  void key_values(int64_t index, DecoderLayer& quantized, DecoderLayer& reads, const CalibrationOutput& out);
  void write_module(const LayerModule& module, const QuantizedRows& rows, const RangeObserver* observer,
                    Linear* linear, const CalibrationOutput& out);
  void observe_output(const LayerModule& module, Linear& quantized, const Linear& reads,
                      const CalibrationOutput& out);

  const ModelFiles& files;
  const Plan& plan;
  const Calibration& calibration;
  ThreadPool& pool;
  MethodTable methods;
  Smoother smoother;
  MemoryPlan memory;
  LayerRunner runner;
  Smoothed smoothed;                          // this layer
  std::unique_ptr<LayerRunner> dense_runner;  // the samples through the dense model
  std::vector<CalibratedModule> report;
};

void Calibrator::Impl::write_module(const LayerModule& module, const QuantizedRows& rows,
                                    const RangeObserver* observer, Linear* linear,
                                    const CalibrationOutput& out) {
  const PlanEntry& e = *module.entry;
  const StoredWeight stored = stored_weight(e);
  find_format(e.scheme.format, e.module.name).store(stored, rows, out.write);
  if (linear) linear->pack(rows);
  if (!observer) return;
  const Qparams q = write_qparams(*observer, e, ".input", e.scheme.input->symmetric, out);
  if (linear) linear->set_input_scale(q.scale, q.zero_point);
}

// Scales of what the module puts out over all samples.
void Calibrator::Impl::observe_output(const LayerModule& module, Linear& quantized, const Linear& reads,
                                      const CalibrationOutput& out) {
  const PlanEntry& e = *module.entry;
  RangeObserver observer(*e.scheme.output, e.module.name + ": output");
  Activations y;
  for (size_t i = 0; i < runner.store().size(); ++i) {
    runner.store().look(i, [&](const SampleState& s) {
      y.reshape(s.input.rows, e.module.rows);
      LinearInput input = s.input.input();
      reads.forward(input, y.row(0), y.ld, pool);
      observer.observe(y, pool);
    });
  }
  const Qparams q = write_qparams(observer, e, ".output", e.scheme.output->symmetric, out);
  quantized.set_output_scale(q.scale, q.zero_point);
}

void Calibrator::Impl::key_values(int64_t index, DecoderLayer& quantized, DecoderLayer& reads,
                                  const CalibrationOutput& out) {
  const std::vector<TensorSpec> specs = key_value_tensors(files, plan, index);
  if (specs.empty()) return;
  RangeObserver keys(*plan.kv_cache, specs[0].name), values(*plan.kv_cache, specs[1].name);
  const auto observe = [&](const KeysValues& kv) {
    // All heads as one batch: rows of (tokens * head_dim) floats.
    keys.observe(kv.keys, kv.heads, kv.tokens * kv.head_dim, kv.stride, pool);
    values.observe(kv.values, kv.heads, kv.tokens * kv.head_dim, kv.stride, pool);
  };
  for (size_t i = 0; i < runner.store().size(); ++i)
    runner.store().look(i, [&](const SampleState& s) { runner.keys_values(reads, s, observe); });
  KvQuantizer& kv = quantized.kv;
  kv = {keys.qparams(specs[0].dtype).scale, values.qparams(specs[1].dtype).scale, plan.kv_cache->num_bits,
        plan.kv_cache->type == NumberType::kFloat};
  for (size_t i = 0; i < 2; ++i) {
    uint8_t scale[8] = {};
    narrow_from_float(specs[i].dtype, i == 0 ? &kv.key_scale : &kv.value_scale, scale, 1);
    out.write(specs[i].name, 0, scale, dtype_size(specs[i].dtype));
  }
}

void Calibrator::Impl::add_drift(Stage s, const SampleState& dense, const SampleState& sample,
                                 StageStatistics* statistics) {
  const std::vector<float>& divided_by = smoothed.divided_by[static_cast<size_t>(s)];
  Activations input = copy_activations(dense.input);
  if (!divided_by.empty())
    for (int64_t t = 0; t < input.rows; ++t)
      for (size_t c = 0; c < divided_by.size(); ++c) input.row(t)[c] /= divided_by[c];
  if (!statistics->drift) statistics->drift.emplace(input.cols, input.cols);
  statistics->drift->add(input, sample.input, sample.input, pool);
  if (s != Stage::kO && s != Stage::kDown) return;
  if (!statistics->residual) statistics->residual.emplace(sample.x.cols, input.cols);
  statistics->residual->add(dense.x, sample.x, sample.input, pool);
}

// The inputs of the stage over all samples.
void Calibrator::Impl::collect(Stage s, const LayerWeights& weights, const std::vector<LayerModule*>& modules,
                               StageObservers& observers, StageStatistics* statistics) {
  const bool first = weights.index == 0 && s == Stage::kQkv;  // nothing has drifted yet
  for (size_t i = 0; i < runner.store().size(); ++i) {
    runner.store().look(i, [&](const SampleState& sample) {
      observers.observe(sample.input, pool);
      statistics->moments.add(sample.input, pool);
      if (!dense_runner || first) return;
      dense_runner->store().look(i,
                                 [&](const SampleState& dense) { add_drift(s, dense, sample, statistics); });
    });
  }
  statistics->moments.finish(pool);
  if (statistics->drift) statistics->drift->finish(pool);
  if (statistics->residual) statistics->residual->finish(pool);
  check_finite(statistics->moments, modules.front()->entry->module.name);
}

void Calibrator::Impl::stage(Stage s, LayerWeights& weights, DecoderLayer& quantized, DecoderLayer& reads,
                             const CalibrationOutput& out) {
  std::vector<LayerModule*> modules;
  bool second = false;
  for (LayerModule& m : weights.modules) {
    if (m.stage != s || !m.entry->scheme.weights) continue;
    modules.push_back(&m);
    second |= methods.of(m.entry->module).needs_second();
  }
  StageObservers observers(modules);
  const int64_t cols = s == Stage::kO      ? files.config.heads * files.config.head_dim
                       : s == Stage::kDown ? files.config.intermediate_size
                                           : files.config.hidden_size;
  StageStatistics statistics{InputMoments(cols, second, false), {}, {}};
  if (!modules.empty()) collect(s, weights, modules, observers, &statistics);
  StageQuantizer quantizer(statistics.moments, statistics.drift ? &statistics.drift->mean() : nullptr,
                           statistics.residual ? &statistics.residual->mean() : nullptr, pool);
  for (LayerModule& m : weights.modules) {
    if (m.stage != s) continue;
    Linear& linear = find_linear(quantized, m.entry->module.name);
    if (!m.entry->scheme.weights) {
      pack_dense(m.weight, linear, pool);
      write_dense(files, m, out.write);
      continue;
    }
    const double start = seconds_now();
    CalibratedModule row;
    const QuantizedRows rows = quantizer.quantize(m, methods.of(m.entry->module), &row);
    write_module(m, rows, has_static_input(*m.entry) ? observers.find(*m.entry) : nullptr, &linear, out);
    if (m.entry->scheme.output) observe_output(m, linear, find_linear(reads, m.entry->module.name), out);
    row.algorithm = smoothed.steps[row.module] + row.algorithm;
    row.seconds = seconds_now() - start;
    report.push_back(std::move(row));
  }
  if (s == Stage::kQkv) key_values(weights.index, quantized, reads, out);
  if (!is_last(weights.index, s)) runner.advance(s, reads);
}

void Calibrator::Impl::check_finite(const InputMoments& moments, const std::string& module) const {
  if (const int64_t c = moments.bad_channel(); c >= 0)
    fail(ErrorCode::kInvalid, "{}: channel {} of the input is NaN or infinite during calibration", module, c);
}

// All statistics come from the dense layer, before anything of it changes.
void Calibrator::Impl::smooth(LayerWeights& weights) {
  const DecoderLayer dense = dense_layer(files, weights, pool);
  StageMoments moments;
  const std::vector<int64_t> lengths = sample_tokens(calibration.samples);
  const int64_t total = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  std::array<TokenSample, kStages.size()> tokens;
  for (TokenSample& t : tokens) t.spread_over(total);
  for (size_t i = 0; i < runner.store().size(); ++i) {
    runner.store().look(i, [&](const SampleState& sample) {
      SampleState s;
      s.x = copy_activations(sample.x);
      runner.begin(dense, s);
      for (const Stage stage : kStages) {
        std::unique_ptr<InputMoments>& m = moments[static_cast<size_t>(stage)];
        if (!m) m = std::make_unique<InputMoments>(s.input.cols, smoother.needs_second(), true);
        m->add(s.input, pool);
        if (smoother.needs_inputs()) tokens[static_cast<size_t>(stage)].add(s.input);
        if (stage != Stage::kDown) runner.advance(stage, dense, s);
      }
    });
  }
  for (const LayerModule& m : weights.modules) {
    InputMoments& of_stage = *moments[static_cast<size_t>(m.stage)];
    of_stage.finish(pool);
    check_finite(of_stage, m.entry->module.name);
  }
  StageInputs inputs;
  for (size_t s = 0; s < inputs.size(); ++s) inputs[s] = tokens[s].take();
  smoothed = smoother.apply(&weights, moments, inputs, pool);
}

void Calibrator::Impl::layer(int64_t index, const CalibrationOutput& out) {
  LayerWeights weights = read_layer(files, plan, index, pool);
  DecoderLayer dense;
  if (dense_runner) dense = dense_layer(files, weights, pool);
  smoothed = {};
  if (smoother.any()) smooth(weights);
  if (!calibration.propagate_error) dense = dense_layer(files, weights, pool);
  DecoderLayer quantized = empty_layer(files, plan, weights);
  DecoderLayer& reads = calibration.propagate_error ? quantized : dense;
  if (dense_runner) dense_runner->begin(dense);
  runner.begin(reads);
  for (const Stage s : kStages) {
    stage(s, weights, quantized, reads, out);
    if (dense_runner && !is_last(index, s)) dense_runner->advance(s, dense);
    release_free_memory();
  }
  for (const auto& [name, values] : weights.vectors) write_floats(files, name, values, out.write);
  out.layer_done(index + 1);
}

// lm_head with static activations: its input is the last norm's output. Its weight is rounded to nearest.
void Calibrator::Impl::head(const CalibrationOutput& out) {
  LayerModule module{plan.find("lm_head"), Stage::kDown, read_matrix(files, "lm_head", pool)};
  const std::vector<float> gain = read_vector(files, "model.norm.weight");
  RangeObserver observer(*module.entry->scheme.input, "lm_head: input");
  const LayerOps ops(files.config, pool);
  for (size_t i = 0; i < runner.store().size(); ++i) {
    runner.store().look(i, [&](const SampleState& s) {
      Activations normed(s.x.rows, s.x.cols);
      ops.normalize(s.x, gain, normed);
      observer.observe(normed, pool);
    });
  }
  CalibratedModule row;
  const InputMoments none(files.config.hidden_size, false, false);
  const QuantizedRows rows = StageQuantizer(none, nullptr, nullptr, pool).quantize(module, {}, &row);
  write_module(module, rows, &observer, nullptr, out);
  report.push_back(std::move(row));
}

Calibrator::Calibrator(const ModelFiles& files, const Plan& plan, const Calibration& calibration,
                       ThreadPool& pool)
    : impl_(std::make_unique<Impl>(files, plan, calibration, pool)) {}
Calibrator::~Calibrator() = default;

void Calibrator::run(int64_t first, const ModelFiles* finished, const CalibrationOutput& out) {
  CHECK(first == 0 || finished);
  const int64_t layers = impl_->files.config.layers;
  Progress progress("calibrating", static_cast<uint64_t>(layers), "layers");
  for (int64_t i = 0; i < first; ++i) {
    const ModelFiles& from = impl_->calibration.propagate_error ? *finished : impl_->files;
    DecoderLayer layer = build_layer(from, from.stored_plan, i);
    fill_layer(layer, from, from.stored_plan, i, impl_->pool);
    impl_->runner.run(layer);
    if (impl_->dense_runner) {
      layer = build_layer(impl_->files, impl_->files.stored_plan, i);
      fill_layer(layer, impl_->files, impl_->files.stored_plan, i, impl_->pool);
      impl_->dense_runner->run(layer);
    }
    progress.advance(1);
  }
  for (int64_t i = first; i < layers; ++i) {
    impl_->layer(i, out);
    progress.advance(1);
  }
  if (is_calibrated_head(impl_->plan)) impl_->head(out);
}

std::vector<CalibratedModule> Calibrator::take_report() {
  return std::move(impl_->report);
}

}  // namespace roundel
