// A weight on a GPU, or several of one scheme as one (q, k and v; gate and up), packed by the kernel chosen for it.
//
//   DeviceLinear qkv(gpu, staging, {q_spec, k_spec, v_spec}, DeviceLinear::kStacked);
//   filler.fill(qkv.part(0));                       // and the other parts: rows stream in and are packed on the GPU
//   DeviceInput input(arena, ops, x, tokens, hidden, ldx);
//   DeviceMatrix y = qkv.forward(input, {});
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "kernels/device_list.h"
#include "linear/device_memory.h"
#include "linear/linear.h"

namespace roundel {

// Device memory that rows pass through on their way into a packed weight.
class DeviceStaging {
 public:
  DeviceStaging(Device& device, const DeviceOps& ops) : device_(device), ops_(ops) {}
  // A copy of `bytes` bytes on the device in slot 0 to 2, valid until the slot's next use.
  const uint8_t* upload(int slot, const void* data, size_t bytes);
  // The same memory without the copy; slots 0 to 3.
  uint8_t* room(int slot, size_t bytes);
  // A counter of values of this weight that are not finite.
  uint32_t* count_not_finite(const WeightTarget& weight);
  // The weights whose counters are not zero, when all is there.
  std::vector<const WeightTarget*> not_finite();
  const DeviceOps& ops() const { return ops_; }

 private:
  static constexpr size_t kCounters = 1 << 16;
  Device& device_;
  const DeviceOps& ops_;
  DeviceBuffer slots_[4], counters_;
  std::vector<const WeightTarget*> counted_;
};

// How a device linear wants its input: rounded (or not), its columns in another order (or not).
struct DeviceInputForm {
  enum class As : uint8_t {
    kBF16,   // not rounded, or the rounded values
    kX16,    // see kernels/api/device_ops.h
    kBytes,  // codes of a byte and a scale for each token, or for each group of kScaleColumns
    kCodes   // codes as bf16, exactly, and a scale for each token that the result is to be multiplied by
  };
  DeviceForm form;
  const int32_t* order = nullptr;  // device
  As as = As::kBF16;
  bool operator==(const DeviceInputForm& other) const;
};

// What several weights are as one matrix: their rows together.
LinearProblem merged_problem(const std::vector<LinearSpec>& specs);
// What a linear of this scheme wants of m tokens, but for its static scales and the order of its columns.
DeviceInputForm device_input_form(const Scheme& scheme, const LinearProblem& problem,
                                  const DeviceLinearKernel& kernel, int64_t m, const DeviceInfo& info);
// What the input of a form is to a kernel.
TileUse::Input kernel_input(const DeviceInputForm& form);
// Whether its kernel makes silu(gate) * up itself of an input of this form.
bool device_fuses_gate(const LinearProblem& problem, const DeviceLinearKernel& kernel,
                       const DeviceInputForm& form, int64_t m, const DeviceInfo& info);

// The input of device linears and the forms of it, each made once.
class DeviceInput {
 public:
  // x: (M,K) bf16, rows ldx apart, a multiple of 8; columns beyond K are zero. low: of two terms (device_ops.h).
  DeviceInput(DeviceArena& arena, const DeviceOps& ops, const uint16_t* x, int64_t m, int64_t k, int64_t ldx,
              int64_t low = 0);
  // Room for a form of x that a kernel makes from what x itself is made from.
  DeviceCodes provide(const DeviceInputForm& form);
  // x, ldx, or x16, x_scale, ld16, or x8, ldx8 filled in; token_scale for bytes and codes.
  const DeviceLinearArgs& form(const DeviceInputForm& wanted);
  int64_t m() const { return plain_.m; }
  bool terms() const { return plain_.x_low != 0; }
  DeviceArena& arena() { return arena_; }
  const DeviceOps& ops() const { return ops_; }

 private:
  struct Made {
    DeviceInputForm form;
    DeviceLinearArgs args;
  };
  DeviceArena& arena_;
  const DeviceOps& ops_;
  DeviceLinearArgs plain_;
  int64_t k_;
  std::vector<Made> made_;
};

class DeviceLinear {
 public:
  enum class Rows { kStacked, kAlternating };  // kAlternating: two parts, or one part [gate; up]
  DeviceLinear(Device& device, DeviceStaging& staging, std::vector<LinearSpec> specs,
               Rows rows = Rows::kStacked);
  ~DeviceLinear();
  // Whether these may be one matrix: same columns, scheme and types, no static scales, no column order, whole FP8 blocks.
  static bool can_merge(const std::vector<LinearSpec>& specs);

  size_t parts() const { return parts_.size(); }
  WeightTarget& part(size_t i) const;
  // After the last part is filled.
  void finish();

  struct Output {
    void* y =
        nullptr;      // where to, with room for m up to a multiple of kTokenUnit; null: taken from the arena
    int64_t ldy = 0;  // 0: N, up to a multiple of 8
    bool bf16 = false;
    bool gated = false;  // only when fuses_gate(m)
    bool terms = false;  // of what is gated: two
    bool add = false;    // only when adds(m): y += the product
    // With gated, only when rounds_gate(m, ...): the next linear's input instead of y; counters as DeviceLinearArgs has.
    DeviceForm form;
    DeviceCodes codes;
    uint32_t* counters = nullptr;
    int max_parts = 1;
  };
  // Makes the form of it that forward() will read.
  void prepare(DeviceInput& input) const { input.form(input_form(input.m())); }
  // An input of two terms asks for two parts at least, or leaves it to the kernel (`gated`, `add`).
  DeviceMatrix forward(DeviceInput& input, const Output& output) const;
  // The product of what a norm makes of `residual` (m, ld), only when fuses_norm(m).
  DeviceMatrix forward_norm(DeviceArena& arena, const NormArgs& norm, const Output& output) const;
  bool fuses_gate(int64_t m, bool terms) const;  // terms: of an input of two
  // Whether forward() can round its gated result to the form that the next linear wants.
  bool rounds_gate(int64_t m, const DeviceInputForm& next) const;
  bool fuses_norm(int64_t m) const;
  bool adds(int64_t m) const;
  bool reorders() const { return form_.order != nullptr; }  // weight_g_idx
  void read_rows(const int32_t* ids, int64_t id_stride, int64_t count, float* out, int64_t ldo) const;

  int64_t n() const { return problem_.n; }
  const LinearProblem& problem() const { return problem_; }
  bool alternating() const { return rows_ == Rows::kAlternating; }
  DeviceInputForm input_form(int64_t m) const;  // for m tokens
  const DeviceLinearKernel& kernel() const { return *kernel_; }
  size_t packed_bytes() const { return packed_.size(); }

 private:
  class Part;
  bool rounds_output() const { return output_form_.kind != DeviceForm::Kind::kNone; }
  // Whether both terms of an input are multiplied as tokens of their own.
  bool splits_terms(int64_t m) const;
  int launch(DeviceArena& arena, const DeviceLinearArgs& a) const;
  DeviceMatrix run_terms(DeviceArena& arena, DeviceLinearArgs a, const Output& output,
                         const DeviceOps& ops) const;
  DeviceMatrix run(DeviceArena& arena, DeviceLinearArgs a, const Output& output,
                   const float* row_scale = nullptr, const DeviceOps* ops = nullptr) const;
  Device& device_;
  DeviceStaging& staging_;
  Rows rows_;
  LinearProblem problem_;
  const DeviceLinearKernel* kernel_;
  DeviceInputForm form_;
  DeviceForm output_form_;  // of output_activations
  DeviceBuffer packed_, bias_, order_;
  std::vector<int32_t> host_order_;
  std::vector<float> host_bias_;
  std::vector<std::unique_ptr<Part>> parts_;
};

}  // namespace roundel
