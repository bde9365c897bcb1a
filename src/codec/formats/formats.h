// The storage formats, for the list in format_list.cpp.
#pragma once
#include "codec/format.h"

namespace roundel {

extern const StorageFormat kIntQuantized;
extern const StorageFormat kFloatQuantized;
extern const StorageFormat kNaiveQuantized;
extern const StorageFormat kPackQuantized;

}  // namespace roundel
