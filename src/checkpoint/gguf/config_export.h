// config.json and generation_config.json of an imported model.
//
//   write_text_file(folder / "config.json", dump_json(export_config(model, vocab)));
#pragma once
#include "base/json.h"
#include "checkpoint/gguf/model.h"
#include "checkpoint/gguf/vocab.h"

namespace roundel {

Json export_config(const GgufModel& model, const GgufVocab& vocab);
Json export_generation_config(const GgufVocab& vocab);

}  // namespace roundel
