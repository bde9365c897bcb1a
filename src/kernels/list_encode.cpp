#include "base/cpu_features.h"
#include "kernels/choose.h"
#include "kernels/list.h"

namespace roundel {

extern const EncodeOps kReferenceEncode;
extern const EncodeOps kAvx2Encode;
extern const EncodeOps kAvx512Encode;

namespace {
constexpr const EncodeOps* kEncode[] = {&kAvx512Encode, &kAvx2Encode, &kReferenceEncode};
}  // namespace

std::span<const EncodeOps* const> encode_ops_list() {
  return kEncode;
}

const EncodeOps& encode_ops() {
  return choose_kernel(
      encode_ops_list(), "encode", [](const EncodeOps& k) { return k.supports(cpu_features()); }, nullptr);
}

}  // namespace roundel
