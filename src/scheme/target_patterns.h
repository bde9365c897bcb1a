// Compact patterns that match exactly a set of module names. Used by write_quant_config(); not for other
// modules.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace roundel {

// `names`: every name that may be asked about (modules and fused names) with the number of its scheme, -1 for
// none. The result holds, for each scheme number, "re:" targets that match all of its names and no other name
// of the map: "re:.*layers\.(0|1)\.mlp\.(gate_proj|gate_up_proj|up_proj)$". The first component ("model.") is
// left open because engines rename it, unless that would match a foreign name.
std::map<int, std::vector<std::string>> cover_names(const std::map<std::string, int>& names);

}  // namespace roundel
