#include "quantize/calibration/methods.h"

#include <algorithm>
#include <cmath>

#include "base/thread_pool.h"

namespace roundel {
namespace {

constexpr double kDampening = 0.01;  // of best

std::vector<Target> parse_targets_of(const std::vector<std::string>& texts) {
  std::vector<Target> targets;
  for (const std::string& text : texts) targets.emplace_back(text, "calibration step");
  return targets;
}

void check_gptq(const GptqStep& step) {
  if (step.block_size < 1 || step.block_size > 1 << 20)
    fail(ErrorCode::kInvalid, "GPTQ: block_size is {}, expected 1 to {}", step.block_size, 1 << 20);
  if (!(step.dampening_frac >= 0 && step.dampening_frac <= 1))
    fail(ErrorCode::kInvalid, "GPTQ: dampening_frac is {}, expected 0 to 1", step.dampening_frac);
  if (step.actorder == ActOrder::kGroup)
    fail(ErrorCode::kUnsupported,
         "GPTQ: actorder \"group\" was removed from compressed-tensors in 0.19: no current reader runs such "
         "checkpoints; use \"static\" or none");
}

}  // namespace

// Of 8 bits the weights are off by less than the activations are, and what the layers before have moved is noise: fitting it
// was found to harm.
bool aims_at_dense(const Method& method, const QuantArgs& weights) {
  return method.kind == Method::Kind::kBest && weights.num_bits < 8;
}

std::string Method::name() const {
  return kind == Kind::kRtn ? "rtn" : kind == Kind::kGptq ? "gptq" : "best";
}

MethodTable::MethodTable(const std::vector<CalibrationStep>& steps) {
  for (const CalibrationStep& step : steps) {
    if (const auto* rtn = std::get_if<RtnStep>(&step)) {
      rows_.push_back(
          {{Method::Kind::kRtn, {}}, parse_targets_of(rtn->targets), parse_targets_of(rtn->ignore)});
    } else if (const auto* gptq = std::get_if<GptqStep>(&step)) {
      check_gptq(*gptq);
      rows_.push_back(
          {{Method::Kind::kGptq, *gptq}, parse_targets_of(gptq->targets), parse_targets_of(gptq->ignore)});
    } else if (const auto* best = std::get_if<BestStep>(&step)) {
      rows_.push_back(
          {{Method::Kind::kBest, {}}, parse_targets_of(best->targets), parse_targets_of(best->ignore)});
    }
  }
}

bool MethodTable::matches(const std::vector<Target>& targets, const ModuleInfo& module) {
  return std::any_of(targets.begin(), targets.end(),
                     [&](const Target& t) { return t.match(module.name, module.class_name).has_value(); });
}

Method MethodTable::of(const ModuleInfo& module) const {
  for (auto row = rows_.rbegin(); row != rows_.rend(); ++row)
    if ((row->targets.empty() || matches(row->targets, module)) && !matches(row->ignore, module))
      return row->method;
  return {};
}

std::vector<std::string> MethodTable::unmatched(const Plan& plan) const {
  std::vector<std::string> names;
  for (const Row& row : rows_) {
    const bool found = std::any_of(plan.entries.begin(), plan.entries.end(), [&](const PlanEntry& e) {
      return e.scheme.weights && (row.targets.empty() || matches(row.targets, e.module)) &&
             !matches(row.ignore, e.module);
    });
    if (!found) names.push_back(row.method.name());
  }
  return names;
}

const HessianFactor& StageQuantizer::factor(double dampening, bool descending) {
  const auto key = std::make_pair(dampening, descending);
  const auto it = factors_.find(key);
  if (it != factors_.end()) return it->second;
  return factors_.emplace(key, factorize(moments_.second(), {dampening, descending}, pool_)).first->second;
}

BestInputs StageQuantizer::best_inputs(bool aims) {
  return {&moments_.second(), &factor(kDampening, true), aims ? drift_ : nullptr, aims ? residual_ : nullptr};
}

QuantizedRows StageQuantizer::run_gptq(const LayerModule& module, const GptqStep& step, QuantizedRows grid,
                                       CalibratedModule* report) {
  const QuantArgs& args = *module.entry->scheme.weights;
  const ActOrder order = step.actorder.value_or(args.actorder);
  const HessianFactor& f = factor(step.dampening_frac, order == ActOrder::kStatic);
  if (f.failed) {
    report->algorithm = "rtn";
    report->note = fmt::format(
        "GPTQ: the second moment of the inputs is not positive definite even with dampening {}: "
        "rounded to nearest",
        f.dampening);
    return grid;
  }
  if (f.dead_count > 0) report->note = fmt::format("{} dead columns", f.dead_count);
  if (f.dampening > step.dampening_frac)
    report->note += fmt::format("{}Cholesky failed with dampening {}, done with {}",
                                report->note.empty() ? "" : "; ", step.dampening_frac, f.dampening);
  return gptq(module.weight, args, module.entry->module.dtype, std::move(grid), f, step.block_size, pool_);
}

QuantizedRows StageQuantizer::quantize(const LayerModule& module, const Method& method,
                                       CalibratedModule* report) {
  const QuantArgs& args = *module.entry->scheme.weights;
  report->module = module.entry->module.name;
  report->algorithm = method.name();
  QuantArgs start = args;
  const bool rows = args.strategy == Strategy::kChannel || args.strategy == Strategy::kGroup;
  if (method.kind == Method::Kind::kBest && args.type == NumberType::kFloat && rows)
    start.observer = "memoryless_mse";
  QuantizedRows nearest =
      round_to_nearest(module.weight, start, module.entry->module.dtype, report->module, pool_);
  QuantizedRows out;
  switch (method.kind) {
    case Method::Kind::kRtn:
      out = nearest;
      break;
    case Method::Kind::kGptq:
      out = run_gptq(module, method.gptq, nearest, report);
      break;
    case Method::Kind::kBest:
      out = quantize_best(module, nearest, best_inputs(aims_at_dense(method, args)), pool_, report);
      break;
  }
  measure(module, nearest, out, report);
  return out;
}

void StageQuantizer::measure(const LayerModule& module, const QuantizedRows& before,
                             const QuantizedRows& after, CalibratedModule* report) {
  const QuantArgs& args = *module.entry->scheme.weights;
  const Matrix& w = module.weight;
  const auto difference = [&](const QuantizedRows& rows) {
    Matrix d = values_of(rows, args, pool_);
    pool_.parallel_for(d.rows, 16, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) vector_ops().axpy(-1.0f, w.row(r), w.cols, d.row(r));
    });
    return d;
  };
  const auto squares = [&](const Matrix& m) {
    double sum = 0;
    for (int64_t r = 0; r < m.rows; ++r)
      sum += static_cast<double>(vector_ops().dot(m.row(r), m.row(r), m.cols));
    return sum;
  };
  const Matrix d = difference(after);
  const double weight = squares(w);
  report->relative_error = weight > 0 ? std::sqrt(squares(d) / weight) : 0;
  if (moments_.second().rows == 0) return;
  if (!form_) form_ = std::make_unique<QuadraticForm>(moments_.second(), pool_);
  const double output = form_->sum(w, pool_);
  if (!(output > 0)) return;
  report->loss_before = form_->sum(difference(before), pool_) / output;
  report->loss_after = form_->sum(d, pool_) / output;
}

}  // namespace roundel
