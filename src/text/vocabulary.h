// Tokens and their ids, both ways. Ids may have gaps.
//
//   Vocabulary vocabulary;
//   vocabulary.add("hello", 17, "tokenizer.json: model.vocab");
//   std::optional<int32_t> id = vocabulary.find("hello");
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace roundel {

class Vocabulary {
 public:
  static constexpr int32_t kMaxId = (1 << 24) - 1;  // larger ids in a file are damage

  // Throws Error(kInvalid) when the id is out of range or belongs to another token, or the token has another id.
  void add(const std::string& token, int64_t id, const std::string& where);
  void reserve(size_t tokens) { ids_.reserve(tokens); }
  std::optional<int32_t> find(std::string_view token) const;
  bool contains(int32_t id) const;
  const std::string& token(int32_t id) const;  // "" for a gap
  int32_t id_limit() const { return static_cast<int32_t>(tokens_.size()); }

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view s) const { return std::hash<std::string_view>()(s); }
  };
  std::unordered_map<std::string, int32_t, Hash, std::equal_to<>> ids_;
  std::vector<const std::string*> tokens_;  // by id; the keys of ids_, which do not move
};

}  // namespace roundel
