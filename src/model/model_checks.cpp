#include "model/model_checks.h"

#include <algorithm>
#include <unordered_set>

#include "model/model_files.h"

namespace roundel {
namespace {

class Checker {
 public:
  Checker(ModelFiles& files, const std::string& where) : files_(files), where_(where) {}

  void run() {
    collect_dtypes();
    make_stored_plan();
    for (PlanEntry& entry : files_.stored_plan.entries) {
      if (entry.scheme.weights) {
        check_quantized(entry);
      } else {
        check_dense(entry.module);
      }
    }
    for (const VectorParam& v : files_.layout.vectors) check_vector(v);
    check_kv_scales();
    problems_.throw_if_any(where_ + ": config.json and the tensors do not agree");
    warn_unused();
  }

 private:
  const TensorSpec* find(const std::string& name) {
    const TensorSpec* spec = files_.checkpoint.find(name);
    if (spec) used_.insert(name);
    return spec;
  }

  // The dtype of a module: that of its dense weight, or of its scales.
  void collect_dtypes() {
    for (ModuleInfo& m : files_.layout.modules) {
      const TensorSpec* dense = files_.checkpoint.find(weight_name(m.name));
      const TensorSpec* scale = files_.checkpoint.find(m.name + ".weight_scale");
      if (dense && is_float_source(dense->dtype)) m.dtype = dense->dtype;
      if (scale && is_float_source(scale->dtype)) m.dtype = scale->dtype;
    }
  }

  void make_stored_plan() {
    if (!files_.stored) {
      for (const ModuleInfo& m : files_.layout.modules) {
        files_.stored_plan.index[m.name] = files_.stored_plan.entries.size();
        files_.stored_plan.entries.push_back({m, {}, "", false});
      }
      return;
    }
    PlanResult result = make_plan(files_.layout.modules, files_.stored->request(where_));
    for (const Problem& p : result.problems.list()) problems_.add(p.where, p.message);
    for (std::string& w : result.warnings) files_.warnings.push_back(std::move(w));
    files_.stored_plan = std::move(result.plan);
    files_.stored_plan.kv_cache = files_.stored->kv_cache;
  }

  void check_dense(const ModuleInfo& m) {
    const std::string name = weight_name(m.name);
    const TensorSpec* spec = find(name);
    if (!spec) {
      problems_.add(name, files_.checkpoint.find(m.name + ".weight_packed")
                              ? "is stored packed, but no scheme of quantization_config covers it"
                              : "is missing");
      return;
    }
    if (spec->shape != Shape{m.rows, m.cols}) {
      problems_.add(name, fmt::format("has shape {}, config.json implies {} ({})", shape_text(spec->shape),
                                      shape_text({m.rows, m.cols}), origin_of(m)));
    } else if (!is_float_source(spec->dtype)) {
      problems_.add(name,
                    fmt::format("is {}, a dense weight must be BF16, F16 or F32", dtype_name(spec->dtype)));
    }
  }

  // Which config fields a module's shape comes from.
  static std::string origin_of(const ModuleInfo& m) {
    if (m.class_name == "Embedding" || m.name == "lm_head") return "vocab_size, hidden_size";
    if (m.name.find(".mlp.") != std::string::npos) return "intermediate_size, hidden_size";
    return "num_attention_heads, num_key_value_heads, head_dim, hidden_size";
  }

  void check_quantized(PlanEntry& entry) {
    StoredWeight stored{entry.module.name, entry.scheme,       entry.module.rows,
                        entry.module.cols, entry.module.dtype, false};
    const StorageFormat& format = find_format(entry.scheme.format, where_);
    format.open(&stored, files_.checkpoint, files_.stored->version, &problems_);
    for (const TensorSpec& spec : format.layout(stored)) find(spec.name);
    for (const std::string& name : format.optional_tensors(stored)) find(name);
    files_.stored_weights.push_back(stored);
    check_activation_scales(entry);
  }

  void check_scalar(const std::string& name, bool required, const char* why) {
    const TensorSpec* spec = find(name);
    if (!spec) {
      if (required) problems_.add(name, std::string("is missing: ") + why);
    } else if (spec->elements() != 1) {
      problems_.add(name, "has shape " + shape_text(spec->shape) + ", expected one value");
    }
  }

  void check_activation_scales(const PlanEntry& entry) {
    const auto& in = entry.scheme.input;
    const bool fixed = in && in->dynamic == DynamicMode::kStatic;
    const std::string& m = entry.module.name;
    check_scalar(m + ".input_scale", fixed, "the scheme has static activations");
    check_scalar(m + ".input_zero_point", fixed && !in->symmetric,
                 "the scheme has static asymmetric activations");
    const auto& out = entry.scheme.output;
    if (!out) return;
    check_scalar(m + ".output_scale", true, "the scheme has output activations");
    check_scalar(m + ".output_zero_point", !out->symmetric, "the scheme has asymmetric output activations");
  }

  void check_kv_scales() {
    if (!files_.stored_plan.kv_cache) return;
    const bool fixed = files_.stored_plan.kv_cache->dynamic == DynamicMode::kStatic;
    for (int64_t i = 0; i < files_.config.layers; ++i) {
      const std::string a = "model.layers." + std::to_string(i) + ".self_attn.";
      for (const char* which : {"k", "v"}) {
        const std::string older = a + which + "_proj.output_scale";
        const bool has_older = find(older) != nullptr;
        check_scalar(a + which + "_scale", fixed && !has_older, "kv_cache_scheme is static");
      }
    }
  }

  void check_vector(const VectorParam& v) {
    const TensorSpec* spec = find(v.name);
    if (!spec) {
      problems_.add(v.name, "is missing");
    } else if (spec->shape != Shape{v.size}) {
      problems_.add(v.name,
                    fmt::format("has shape {}, config.json implies [{}]", shape_text(spec->shape), v.size));
    } else if (!is_float_source(spec->dtype)) {
      problems_.add(v.name, fmt::format("is {}, expected BF16, F16 or F32", dtype_name(spec->dtype)));
    }
  }

  void warn_unused() {
    std::vector<std::string> unused;
    for (const std::string& name : files_.checkpoint.tensor_names())
      if (!used_.contains(name) && !is_harmless(name)) unused.push_back(name);
    if (unused.empty()) return;
    std::string text =
        fmt::format("{} tensors are not used by {}:", unused.size(), files_.config.architecture);
    for (size_t i = 0; i < std::min<size_t>(unused.size(), 10); ++i) text += " " + unused[i];
    if (unused.size() > 10) text += fmt::format(" and {} more", unused.size() - 10);
    files_.warnings.push_back(text);
  }

  // Buffers that older exporters stored along, and a copy of the embedding in tied models.
  bool is_harmless(const std::string& name) const {
    return name.ends_with(".rotary_emb.inv_freq") ||
           (files_.config.tie_word_embeddings && name == "lm_head.weight");
  }

  ModelFiles& files_;
  const std::string& where_;
  Problems problems_;
  std::unordered_set<std::string> used_;
};

}  // namespace

void check_model_files(ModelFiles& files, const std::string& where) {
  Checker(files, where).run();
}

}  // namespace roundel
