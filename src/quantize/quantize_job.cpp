#include "quantize/quantize_job.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <memory>
#include <optional>

#include "base/log.h"
#include "base/process.h"
#include "base/thread_pool.h"
#include "checkpoint/output_folder.h"
#include "checkpoint/tensor_writer.h"
#include "codec/weight_stream.h"
#include "kernels/list.h"
#include "quantize/calibration/calibrator.h"
#include "quantize/job_key.h"
#include "quantize/side_files.h"

namespace roundel {
namespace {

// What happens to each tensor of the source.
struct Step {
  const TensorSpec* source = nullptr;
  const PlanEntry* quantize = nullptr;  // null: copied
};

StoredWeight stored_weight(const PlanEntry& entry) {
  return {entry.module.name, entry.scheme, entry.module.rows, entry.module.cols, entry.module.dtype, false};
}

// Of a calibrated job: only the tensors that calibration does not write.
std::vector<Step> make_steps(const ModelFiles& files, const Plan& plan, bool calibrated) {
  std::vector<Step> steps;
  for (const std::string& name : files.checkpoint.tensor_names()) {
    if (calibrated && is_calibrated_tensor(files, plan, name)) continue;
    const bool weight = name.ends_with(".weight");
    const PlanEntry* entry = weight ? plan.find(name.substr(0, name.size() - 7)) : nullptr;
    steps.push_back({files.checkpoint.find(name), entry && entry->scheme.weights ? entry : nullptr});
  }
  return steps;
}

// How many steps the interrupted run had finished; those of calibration come after the others, one a layer.
size_t finished_steps(const OutputFolder& out, size_t steps) {
  const std::string text = out.progress();
  if (text.empty()) return 0;
  size_t finished = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), finished);
  if (error != std::errc() || end != text.data() + text.size() || finished > steps)
    fail(ErrorCode::kInvalid,
         "{}: the progress of the interrupted run is \"{}\", expected 0 to {}; delete the folder and start "
         "anew",
         out.work().string(), escape_control(text), steps);
  return finished;
}

class Job {
 public:
  Job(const ModelFiles& files, const Plan& plan, const QuantizeOptions& options, ThreadPool& pool)
      : files_(files),
        plan_(plan),
        options_(options),
        pool_(pool),
        steps_(make_steps(files, plan, options.calibration != nullptr)) {}

  QuantizeReport run(const std::filesystem::path& destination) {
    const double start = seconds_now();
    if (!options_.calibration && needs_calibration(plan_))
      fail(ErrorCode::kInvalid,
           "static activation scales are measured on calibration samples, and there are none; give some text "
           "with --calib");
    std::unique_ptr<Calibrator> calibrator;
    if (options_.calibration)
      calibrator = std::make_unique<Calibrator>(files_, plan_, *options_.calibration, pool_);
    std::vector<TensorSpec> specs = output_tensors(files_, plan_);
    report_.output_bytes = TensorWriter::total_bytes(specs);
    report_.input_bytes = files_.checkpoint.total_tensor_bytes();
    OutputFolder out = OutputFolder::create(
        destination, {.source = files_.checkpoint.folder(),
                      .bytes_needed = report_.output_bytes,
                      .force = options_.force,
                      .resume = options_.resume,
                      .job_key = job_key(files_, plan_, options_.max_shard_bytes, options_.calibration)});
    const size_t layers = calibrator ? static_cast<size_t>(files_.config.layers) : 0;
    const size_t first = out.resumed() ? finished_steps(out, steps_.size() + layers) : 0;
    report_.resumed = out.resumed();
    try {
      TensorWriter writer(out.work(), std::move(specs),
                          {.max_shard_bytes = options_.max_shard_bytes, .keep_existing = first > 0});
      release_free_memory();  // what was parsed and planned
      write_all(writer, out, std::min(first, steps_.size()));
      if (calibrator) calibrate(*calibrator, writer, out, std::max(first, steps_.size()) - steps_.size());
      writer.finish();
      write_side_files(files_, plan_, out.work(), options_.calibration);
      out.commit();
    } catch (const Error& e) {
      if (e.code() == ErrorCode::kInterrupted && options_.resume) out.keep_for_resume();
      throw;
    }
    summarize();
    report_.seconds = seconds_now() - start;
    return std::move(report_);
  }

 private:
  void write_all(TensorWriter& writer, OutputFolder& out, size_t first) {
    Progress progress("quantizing", report_.input_bytes, "B");
    double saved = seconds_now();
    for (size_t i = 0; i < steps_.size(); ++i) {
      if (i >= first) {
        throw_if_interrupted();
        write_step(steps_[i], writer);
      } else if (steps_[i].quantize) {
        note(*steps_[i].quantize, -1);
      }
      progress.advance(steps_[i].source->bytes());
      if (i >= first && seconds_now() - saved > kSaveSeconds) {
        writer.flush();
        out.save_progress(std::to_string(i + 1));
        saved = seconds_now();
      }
    }
  }

  void calibrate(Calibrator& calibrator, TensorWriter& writer, OutputFolder& out, size_t first_layer) {
    // The finished layers as the engine sees them: what they put out is computed anew.
    std::unique_ptr<ModelFiles> finished;
    if (first_layer > 0) {
      write_side_files(files_, plan_, out.work(), options_.calibration);
      writer.write_index();
      finished = std::make_unique<ModelFiles>(open_finished(out.work(), static_cast<int64_t>(first_layer)));
    }
    const auto write = [&](const std::string& tensor, uint64_t offset, const void* data, size_t bytes) {
      writer.write(tensor, offset, data, bytes);
    };
    const auto layer_done = [&](int64_t layers) {
      writer.flush();
      out.save_progress(std::to_string(steps_.size() + static_cast<size_t>(layers)));
    };
    calibrator.run(static_cast<int64_t>(first_layer), finished.get(), {write, layer_done});
    report_.calibrated = calibrator.take_report();
    std::map<std::string, double> errors;
    for (const CalibratedModule& m : report_.calibrated) errors[m.module] = m.relative_error;
    for (const PlanEntry& e : plan_.entries)
      if (e.scheme.weights && is_calibrated_tensor(files_, plan_, weight_name(e.module.name)))
        note(e, errors.contains(e.module.name) ? errors[e.module.name] : -1);
  }

  // The output so far, of which only the first layers are whole.
  ModelFiles open_finished(const std::filesystem::path& folder, int64_t layers) const {
    ModelFiles out{Checkpoint::open(folder),
                   files_.config,
                   files_.architecture,
                   files_.traits,
                   files_.layout,
                   {},
                   {},
                   plan_,
                   {},
                   files_.rotation};
    Problems problems;
    for (int64_t i = 0; i < layers; ++i) {
      const std::string prefix = "model.layers." + std::to_string(i) + ".";
      for (const PlanEntry& e : plan_.entries) {
        if (!e.scheme.weights || !e.module.name.starts_with(prefix)) continue;
        StoredWeight stored = stored_weight(e);
        find_format(e.scheme.format, e.module.name)
            .open(&stored, out.checkpoint, kCompatibleVersion, &problems);
        out.stored_weights.push_back(stored);
      }
    }
    problems.throw_if_any(folder.string() + ": the interrupted run cannot be taken up");
    return out;
  }

  void write_step(const Step& step, TensorWriter& writer) {
    if (!step.quantize) {
      copy(*step.source, writer);
      return;
    }
    const PlanEntry& entry = *step.quantize;
    const StoredWeight stored = stored_weight(entry);
    const StorageFormat& format = find_format(entry.scheme.format, entry.module.name);
    const TensorSink sink = [&](const std::string& tensor, uint64_t offset, const void* data, size_t bytes) {
      writer.write(tensor, offset, data, bytes);
    };
    const EncodeStats stats = stream_encoded(
        files_.checkpoint, *step.source, *entry.scheme.weights, entry.module.name, pool_,
        {.allow_not_finite = options_.allow_not_finite, .measure_error = options_.measure_error},
        [&](const QuantizedRows& rows) { format.store(stored, rows, sink); });
    const bool measured = options_.measure_error && stats.weight_sum > 0;
    note(entry, measured                 ? std::sqrt(stats.error_sum / stats.weight_sum)
                : options_.measure_error ? 0.0
                                         : -1.0);
  }

  void note(const PlanEntry& entry, double error) {
    report_.modules.push_back({entry.module.name, describe(entry.scheme), entry.scheme.format,
                               entry.module.rows, entry.module.cols, error});
  }

  void copy(const TensorSpec& spec, TensorWriter& writer) {
    constexpr size_t kPiece = 4 << 20;
    const uint64_t total = spec.bytes();
    std::vector<uint8_t> buffer(std::min<uint64_t>(kPiece, total));
    for (uint64_t at = 0; at < total; at += kPiece) {
      const size_t n = std::min<uint64_t>(kPiece, total - at);
      files_.checkpoint.read(spec, at, buffer.data(), n);
      check_finite(spec, at, buffer.data(), n);
      writer.write(spec.name, at, buffer.data(), n);
    }
  }

  void check_finite(const TensorSpec& spec, uint64_t offset, const void* data, size_t bytes) {
    if (!is_float_source(spec.dtype)) return;
    const SourceType type = spec.dtype == DType::kBF16  ? SourceType::kBF16
                            : spec.dtype == DType::kF16 ? SourceType::kF16
                                                        : SourceType::kF32;
    const int64_t size = static_cast<int64_t>(dtype_size(spec.dtype));
    const RangeResult r = encode_ops().range(type, data, static_cast<int64_t>(bytes) / size);
    if (r.not_finite == 0) return;
    const std::string text =
        fmt::format("{}: {} values are NaN or infinite, the first at element {}", spec.name, r.not_finite,
                    static_cast<int64_t>(offset) / size + r.first_not_finite);
    if (!options_.allow_not_finite)
      fail(ErrorCode::kInvalid, "{}; the file is damaged, or say --allow-nan to go on", text);
    log_warn("{}", text);
  }

  void summarize() {
    double stored = 0, weights = 0;
    for (const PlanEntry& e : plan_.entries) {
      if (e.scheme.weights) {
        stored += stored_bits(e.scheme, e.module.rows, e.module.cols, e.module.dtype).total();
        weights += static_cast<double>(e.module.rows) * static_cast<double>(e.module.cols);
      } else if (e.module.class_name == "Linear") {
        report_.skipped.emplace_back(e.module.name, e.note.empty() ? "no target matches" : e.note);
      }
    }
    report_.bits_per_weight = weights > 0 ? stored / weights : 0;
    double elements = 0;
    for (const std::string& name : files_.checkpoint.tensor_names())
      elements += static_cast<double>(files_.checkpoint.find(name)->elements());
    report_.model_bits_per_weight = 8.0 * static_cast<double>(report_.output_bytes) / elements;
  }

  static constexpr double kSaveSeconds = 2.0;
  const ModelFiles& files_;
  const Plan& plan_;
  const QuantizeOptions& options_;
  ThreadPool& pool_;
  std::vector<Step> steps_;
  QuantizeReport report_;
};

}  // namespace

bool needs_calibration(const Plan& plan) {
  const auto is_static = [](const PlanEntry& e) {
    return e.scheme.weights &&
           (e.scheme.output || (e.scheme.input && e.scheme.input->dynamic == DynamicMode::kStatic));
  };
  const bool keys = plan.kv_cache && plan.kv_cache->dynamic == DynamicMode::kStatic;
  return keys || std::any_of(plan.entries.begin(), plan.entries.end(), is_static);
}

std::vector<TensorSpec> output_tensors(const ModelFiles& files, const Plan& plan) {
  std::vector<TensorSpec> specs;
  for (const Step& step : make_steps(files, plan, false)) {
    if (!step.quantize) {
      specs.push_back(*step.source);
      continue;
    }
    for (TensorSpec& spec : find_format(step.quantize->scheme.format, step.quantize->module.name)
                                .layout(stored_weight(*step.quantize)))
      specs.push_back(std::move(spec));
    for (TensorSpec& spec : activation_tensors(*step.quantize)) specs.push_back(std::move(spec));
  }
  for (int64_t i = 0; i < files.config.layers; ++i)
    for (TensorSpec& spec : key_value_tensors(files, plan, i)) specs.push_back(std::move(spec));
  return specs;
}

QuantizeReport quantize_to_disk(const ModelFiles& files, const Plan& plan,
                                const std::filesystem::path& destination, const QuantizeOptions& options,
                                ThreadPool& pool) {
  return Job(files, plan, options, pool).run(destination);
}

}  // namespace roundel
