// BPE against its definition, with models at random: join the pair of the lowest rank, the leftmost first, until no
// pair is left.
#include "text/bpe.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "base/utf8.h"

namespace roundel {
namespace {

using Pair = std::pair<std::string, std::string>;

struct RandomModel {
  std::vector<std::string> tokens = {"a", "b", "c", "\u00E9", "\u2581"};
  std::vector<Pair> merges;
  std::mt19937 random;

  explicit RandomModel(unsigned seed) : random(seed) {
    while (merges.size() < 40) {
      const Pair pair = {tokens[random() % tokens.size()], tokens[random() % tokens.size()]};
      const std::string joined = pair.first + pair.second;
      if (joined.size() > 12 || std::find(merges.begin(), merges.end(), pair) != merges.end()) continue;
      merges.push_back(pair);
      if (std::find(tokens.begin(), tokens.end(), joined) == tokens.end()) tokens.push_back(joined);
    }
    std::shuffle(merges.begin(), merges.end(), random);  // so that a late join makes pairs of low rank
  }
  Json json() const {
    Json model = {{"type", "BPE"}, {"vocab", Json::object()}, {"merges", Json::array()}};
    for (size_t i = 0; i < tokens.size(); ++i) model["vocab"][tokens[i]] = i;
    for (const Pair& merge : merges) model["merges"].push_back({merge.first, merge.second});
    return model;
  }
  std::string text(size_t characters) {
    std::string text;
    for (size_t i = 0; i < characters; ++i) text += tokens[random() % 5];
    return text;
  }
};

std::vector<std::string> encode_by_definition(const RandomModel& model, const std::string& text) {
  std::vector<std::string> symbols;
  for (size_t at = 0; at < text.size(); at += utf8_length(text[at]))
    symbols.push_back(text.substr(at, utf8_length(text[at])));
  std::map<Pair, size_t> ranks;
  for (size_t i = 0; i < model.merges.size(); ++i) ranks[model.merges[i]] = i;
  for (;;) {
    size_t best = model.merges.size(), where = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto it = ranks.find({symbols[i], symbols[i + 1]});
      if (it != ranks.end() && it->second < best) {
        best = it->second;
        where = i;
      }
    }
    if (best == model.merges.size()) return symbols;
    symbols[where] += symbols[where + 1];
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(where) + 1);
  }
}

std::vector<std::string> encode(const Bpe& bpe, const std::string& text, Bpe::Scratch* scratch) {
  std::vector<int32_t> ids;
  bpe.encode(text, scratch, &ids);
  std::vector<std::string> tokens;
  for (const int32_t id : ids) tokens.push_back(bpe.vocabulary().token(id));
  return tokens;
}

// Two pairs that give the same token may take each other's place in the queue, in `tokenizers` too; the definition does
// not know that. Such models are left out.
bool joins_are_unique(const RandomModel& model) {
  std::vector<std::string> joined;
  for (const Pair& merge : model.merges) joined.push_back(merge.first + merge.second);
  std::sort(joined.begin(), joined.end());
  return std::adjacent_find(joined.begin(), joined.end()) == joined.end();
}

TEST(Bpe, FollowsTheDefinition) {
  int models = 0;
  for (unsigned seed = 0; models < 60; ++seed) {
    RandomModel model(seed);
    if (!joins_are_unique(model)) continue;
    ++models;
    const Bpe whole = Bpe::parse(model.json(), "model");
    Bpe cut = Bpe::parse(model.json(), "model");
    cut.cut_long_pieces();
    Bpe::Scratch scratch, cut_scratch;
    for (const size_t length : {1u, 2u, 3u, 5u, 8u, 13u, 40u, 150u}) {
      for (int round = 0; round < 5; ++round) {
        const std::string text = model.text(length);
        const std::vector<std::string> expected = encode_by_definition(model, text);
        ASSERT_EQ(encode(whole, text, &scratch), expected) << "model " << seed << " on " << text;
        ASSERT_EQ(encode(cut, text, &cut_scratch), expected) << "model " << seed << " on " << text;
      }
    }
  }
}

TEST(Bpe, CutsNothingThatCouldJoin) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    RandomModel model(seed);
    const Bpe whole = Bpe::parse(model.json(), "model");
    Bpe cut = Bpe::parse(model.json(), "model");
    cut.cut_long_pieces();
    Bpe::Scratch scratch, cut_scratch;
    for (int round = 0; round < 20; ++round) {
      const std::string text = model.text(60) + (round % 2 ? "?" : "") + model.text(30);
      ASSERT_EQ(encode(whole, text, &scratch), encode(cut, text, &cut_scratch))
          << "model " << seed << " on " << text;
    }
  }
}

TEST(MergeQueue, SortsByRankAndPosition) {
  std::mt19937 random(3);
  MergeQueue queue;
  queue.start(10);
  std::multimap<std::pair<uint32_t, uint32_t>, int> expected;
  for (int step = 0; step < 20000; ++step) {
    if (expected.empty() || random() % 5 < 3) {
      const uint32_t rank = random() % 10, position = random() % 100;
      queue.push(rank, position);
      expected.insert({{rank, position}, 0});
    } else {
      const auto entry = queue.pop();
      ASSERT_TRUE(entry);
      ASSERT_EQ(std::make_pair(entry->rank, entry->position), expected.begin()->first);
      expected.erase(expected.begin());
    }
  }
  while (!expected.empty()) {
    ASSERT_TRUE(queue.pop());
    expected.erase(expected.begin());
  }
  EXPECT_FALSE(queue.pop());
}

}  // namespace
}  // namespace roundel
