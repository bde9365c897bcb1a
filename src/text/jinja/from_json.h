// JSON as template values.
#pragma once
#include "base/json.h"
#include "text/jinja/value.h"

namespace roundel::jinja {

// Throws for invalid UTF-8 and for integers beyond 64 bits.
Value from_json(const OrderedJson& json, Budget& budget);

}  // namespace roundel::jinja
