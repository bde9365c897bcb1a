#include "checkpoint/safetensors_index.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "checkpoint/capped_problems.h"
#include "checkpoint/quoted.h"

namespace roundel {
namespace {

// Empty when `shard` is the plain name of a safetensors file.
std::string_view fault_of(std::string_view shard) {
  constexpr size_t kMaxFileName = 255;
  if (shard.empty()) return "is empty";
  if (shard.size() > kMaxFileName) return "is longer than a file name can be";
  if (shard.find_first_of("/\\") != std::string_view::npos) return "is a path";
  if (std::any_of(shard.begin(), shard.end(),
                  [](char c) { return static_cast<unsigned char>(c) < 32 || c == 127; }))
    return "holds control characters";
  if (!shard.ends_with(".safetensors")) return "does not end in .safetensors";
  return "";
}

void read_total_size(const Json& root, const std::string& name, SafetensorsIndex& index) {
  const auto metadata = root.find("metadata");
  if (metadata == root.end() || !metadata->is_object()) return;
  const auto size = metadata->find("total_size");
  if (size == metadata->end() || size->is_null()) return;
  if (size->is_number_unsigned()) {
    index.total_size = size->get<uint64_t>();
  } else if (size->is_number_float() && size->get<double>() >= 0 && size->get<double>() < 9e15) {
    index.total_size = static_cast<uint64_t>(size->get<double>());  // some writers store it as 1.5e10
  } else {
    index.warnings.push_back(name + ": metadata.total_size is not a size");
  }
}

}  // namespace

SafetensorsIndex parse_safetensors_index(std::string_view text, const std::string& name) {
  const Json root = parse_json(text, name);
  if (!root.is_object()) fail(ErrorCode::kInvalid, "{}: expected an object that holds weight_map", name);
  const auto map = root.find("weight_map");
  if (map == root.end()) fail(ErrorCode::kInvalid, "{}: weight_map is missing", name);
  if (!map->is_object() || map->empty())
    fail(ErrorCode::kInvalid, "{}: weight_map must be an object that gives a shard for every tensor", name);

  SafetensorsIndex index;
  CappedProblems problems;
  std::map<std::string, uint32_t> numbers;
  for (const auto& [tensor, value] : map->items()) {
    if (!value.is_string()) {
      problems.add(in_quotes(tensor), "its shard is not a string");
      continue;
    }
    const auto& shard = value.get_ref<const std::string&>();
    if (const std::string_view fault = fault_of(shard); !fault.empty()) {
      problems.add(in_quotes(tensor),
                   fmt::format("its shard {} {}, expected the plain name of a .safetensors file "
                               "in the same folder",
                               in_quotes(shard), fault));
      continue;
    }
    index.shard_of.emplace_hint(index.shard_of.end(), tensor, numbers.try_emplace(shard, 0).first->second);
  }
  problems.throw_if_any(name + ": weight_map is not usable");
  for (auto& [shard, number] : numbers) {
    number = static_cast<uint32_t>(index.shards.size());
    index.shards.push_back(shard);
  }
  for (auto& [tensor, number] : index.shard_of)
    number = numbers[map->at(tensor).get_ref<const std::string&>()];
  read_total_size(root, name, index);
  return index;
}

std::string make_safetensors_index(
    const std::vector<std::pair<std::string, std::vector<std::string>>>& shards, uint64_t total_size) {
  Json map = Json::object();
  for (const auto& [shard, tensors] : shards)
    for (const std::string& tensor : tensors) map[tensor] = shard;
  return dump_json({{"metadata", {{"total_size", total_size}}}, {"weight_map", std::move(map)}});
}

}  // namespace roundel
