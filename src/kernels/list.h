// The ordered lists of kernels, best first, reference last; and the choice from them.
//
//   std::vector<Refusal> refused;
//   const LinearKernel& kernel = choose_linear(problem, &refused);
// ROUNDEL_FORCE_KERNEL=name (a full name, or a prefix such as "reference") takes the first kernel of that
// name in each list that has one; Error(kUsage) when it cannot do the problem.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "kernels/api/attention.h"
#include "kernels/api/encode.h"
#include "kernels/api/int8_peak.h"
#include "kernels/api/linear.h"
#include "kernels/api/vector_ops.h"

namespace roundel {

struct Refusal {
  std::string kernel;
  std::string reason;
};

std::span<const LinearKernel* const> linear_kernels();
std::span<const VectorOps* const> vector_ops_list();
std::span<const AttentionKernel* const> attention_kernels();
std::span<const EncodeOps* const> encode_ops_list();

// The first kernel that supports the problem; `refused` gets those before it with their reasons.
const LinearKernel& choose_linear(const LinearProblem& problem, std::vector<Refusal>* refused = nullptr);
const VectorOps& vector_ops();
const AttentionKernel& attention_kernel();
const Int8Peak* int8_peak();  // of the best instruction set here; null: no vector one
const EncodeOps& encode_ops();

}  // namespace roundel
