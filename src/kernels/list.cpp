#include "kernels/list.h"

#include "base/cpu_features.h"
#include "kernels/choose.h"

namespace roundel {

extern const LinearKernel kAmxW8A8;
extern const LinearKernel kAmxW4A8;
extern const LinearKernel kAmxIntW4A16;
extern const LinearKernel kAmxW4A16;
extern const LinearKernel kAmxW8A16;
extern const LinearKernel kAmxF8A16;
extern const LinearKernel kAmxBF16;
extern const LinearKernel kAvx512W8A8;
extern const LinearKernel kAvx512W4A8;
extern const LinearKernel kAvx512VnniW4A16;
extern const LinearKernel kAvx512VnniW8A16;
extern const LinearKernel kAvx512W4A16;
extern const LinearKernel kAvx512W8A16;
extern const LinearKernel kAvx512F8A16;
extern const LinearKernel kAvx512BF16;
extern const LinearKernel kAvx512F16;
extern const LinearKernel kAvx512F32;
extern const LinearKernel kAvxVnniW8A8;
extern const LinearKernel kAvxVnniW4A8;
extern const LinearKernel kAvxVnniW4A16;
extern const LinearKernel kAvx2W8A8;
extern const LinearKernel kAvx2W4A8;
extern const LinearKernel kAvx2IntW4A16;
extern const LinearKernel kAvx2W4A16;
extern const LinearKernel kAvx2W8A16;
extern const LinearKernel kAvx2F8A16;
extern const LinearKernel kAvx2BF16;
extern const LinearKernel kAvx2F16;
extern const LinearKernel kAvx2F32;
extern const LinearKernel kReferenceLinear;
extern const VectorOps kAvx512Ops;
extern const VectorOps kAvx2Ops;
extern const VectorOps kReferenceOps;
extern const AttentionKernel kAmxAttention;
extern const AttentionKernel kAvx512Attention;
extern const AttentionKernel kAvx2Attention;
extern const AttentionKernel kReferenceAttention;

extern const Int8Peak kAmxInt8Peak;
extern const Int8Peak kAvx512Int8Peak;
extern const Int8Peak kAvxVnniInt8Peak;
extern const Int8Peak kAvx2Int8Peak;
extern const EncodeOps kAvx512Encode;
extern const EncodeOps kAvx2Encode;
extern const EncodeOps kReferenceEncode;

namespace {

constexpr const LinearKernel* kLinear[] = {
    &kAmxW8A8,     &kAmxW4A8,      &kAmxIntW4A16, &kAmxW4A16,        &kAmxW8A16,        &kAmxF8A16,
    &kAmxBF16,     &kAvx512W8A8,   &kAvx512W4A8,  &kAvx512VnniW4A16, &kAvx512VnniW8A16, &kAvx512W4A16,
    &kAvx512W8A16, &kAvx512F8A16,  &kAvx512BF16,  &kAvx512F16,       &kAvx512F32,       &kAvxVnniW8A8,
    &kAvxVnniW4A8, &kAvxVnniW4A16, &kAvx2W8A8,    &kAvx2W4A8,        &kAvx2IntW4A16,    &kAvx2W4A16,
    &kAvx2W8A16,   &kAvx2F8A16,    &kAvx2BF16,    &kAvx2F16,         &kAvx2F32,         &kReferenceLinear};
constexpr const VectorOps* kVectorOps[] = {&kAvx512Ops, &kAvx2Ops, &kReferenceOps};
constexpr const AttentionKernel* kAttention[] = {&kAmxAttention, &kAvx512Attention, &kAvx2Attention,
                                                 &kReferenceAttention};
constexpr const Int8Peak* kInt8Peaks[] = {&kAmxInt8Peak, &kAvx512Int8Peak, &kAvxVnniInt8Peak, &kAvx2Int8Peak};
constexpr const EncodeOps* kEncode[] = {&kAvx512Encode, &kAvx2Encode, &kReferenceEncode};

template <class Kernel>
Support on_this_cpu(const Kernel& kernel) {
  return kernel.supports(cpu_features());
}

}  // namespace

std::span<const LinearKernel* const> linear_kernels() {
  return kLinear;
}
std::span<const VectorOps* const> vector_ops_list() {
  return kVectorOps;
}
std::span<const AttentionKernel* const> attention_kernels() {
  return kAttention;
}
std::span<const EncodeOps* const> encode_ops_list() {
  return kEncode;
}

const LinearKernel& choose_linear(const LinearProblem& problem, std::vector<Refusal>* refused) {
  return choose_kernel(
      linear_kernels(), "linear", [&](const LinearKernel& k) { return k.supports(problem, cpu_features()); },
      refused);
}
const VectorOps& vector_ops() {
  return choose_kernel(vector_ops_list(), "vector", on_this_cpu<VectorOps>, nullptr);
}
const AttentionKernel& attention_kernel() {
  return choose_kernel(attention_kernels(), "attention", on_this_cpu<AttentionKernel>, nullptr);
}
const Int8Peak* int8_peak() {
  for (const Int8Peak* peak : kInt8Peaks)
    if (peak->supports(cpu_features()).ok) return peak;
  return nullptr;
}
const EncodeOps& encode_ops() {
  return choose_kernel(encode_ops_list(), "encode", on_this_cpu<EncodeOps>, nullptr);
}

}  // namespace roundel
