// Byte pair encoding: a piece of text becomes characters, then neighbours are joined, the pair of the lowest rank first
// and of equal ranks the leftmost first, as the `tokenizers` package does.
//
//   Bpe bpe = Bpe::parse(json.at("model"), "tokenizer.json: model");
//   Bpe::Scratch scratch;
//   bpe.encode("hello", &scratch, &ids);
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/json.h"
#include "text/merge_queue.h"
#include "text/merge_table.h"
#include "text/vocabulary.h"

namespace roundel {

class Bpe {
 public:
  // Memory for one encode() at a time: results of short pieces, and the working arrays.
  class Scratch {
   public:
    // Kept memory, about.
    size_t bytes() const {
      return symbols.capacity() * sizeof(Symbol) + known_ids.capacity() * sizeof(int32_t);
    }

   private:
    friend class Bpe;
    struct Symbol {
      int32_t id;  // -1: joined to another
      int32_t previous;
      int32_t next;
    };
    struct Hash {
      using is_transparent = void;
      size_t operator()(std::string_view s) const { return std::hash<std::string_view>()(s); }
    };
    struct Ids {
      uint32_t begin;
      uint32_t count;
    };
    std::unordered_map<std::string, Ids, Hash, std::equal_to<>> known;
    std::vector<int32_t> known_ids;
    std::vector<Symbol> symbols;
    MergeQueue queue;
  };

  // Throws Error that names the merge, token or option at fault.
  static Bpe parse(const Json& model, const std::string& where);
  const Vocabulary& vocabulary() const { return vocabulary_; }

  // Pieces without a pre-tokenizer are whole documents: cuts them between characters that no merge can join, so that
  // the memory of known pieces serves them too. The ids stay the same.
  void cut_long_pieces() { cut_long_pieces_ = true; }

  // Appends the ids of a piece (valid UTF-8). Time grows with its length,
  // but for a logarithm where pairs of one rank turn up out of order. Throws Error when a character has no token
  // and the model names no usable unknown token.
  void encode(std::string_view piece, Scratch* scratch, std::vector<int32_t>* ids) const;

 private:
  explicit Bpe(size_t merges) : merges_(merges) {}
  void read_vocabulary(const Json& model, const std::string& where);
  void read_options(const Json& model, const std::string& where);
  void read_merges(const Json& list, const std::string& where);
  void add_merge(std::string_view left, std::string_view right, const std::string& where);
  void find_single_characters();

  int32_t character_id(std::string_view character) const;
  bool can_cut(std::string_view left, std::string_view right) const;
  void encode_cached(std::string_view piece, Scratch* scratch, std::vector<int32_t>* ids) const;
  void read_symbols(std::string_view piece, Scratch* scratch) const;
  bool append_bytes(std::string_view character, Scratch* scratch) const;
  void merge_symbols(Scratch* scratch) const;
  void queue_pair(int32_t left, int32_t right, Scratch* scratch) const;

  static constexpr size_t kDirect = 0x800;
  Vocabulary vocabulary_;
  MergeTable merges_;
  std::vector<int32_t> joined_by_rank_;
  std::unordered_set<uint64_t> joined_characters_;  // pairs of characters that meet where some merge joins
  std::array<int32_t, kDirect> direct_{};           // ids of the characters below U+0800, -1 for none
  std::array<int32_t, 256> byte_ids_{};             // ids of <0x00> to <0xFF>, -1 for none
  std::string unknown_token_;
  int32_t unknown_id_ = -1;
  bool fuse_unknown_ = false;
  bool byte_fallback_ = false;
  bool ignore_merges_ = false;
  bool cut_long_pieces_ = false;
};

}  // namespace roundel
