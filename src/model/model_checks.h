// The checks of open_model(): every tensor that the config implies is there with the right shape and type, every stored
// tensor belongs to something.
#pragma once
#include <string>

namespace roundel {

struct ModelFiles;

// Fills in dtypes, stored_plan, stored_weights and warnings. Throws one Error with all problems.
void check_model_files(ModelFiles& files, const std::string& where);

}  // namespace roundel
