#include "quantize/job_key.h"

#include <gtest/gtest.h>

#include <chrono>

#include "scheme/scheme_text.h"
#include "tests/checkpoint/support.h"
#include "tests/model/tiny_folder.h"

namespace roundel {
namespace {

class JobKey : public testing::Test {
 protected:
  JobKey() { write_tiny_folder(temp_ / "in", tiny_config(8, 2), bigram_tensors({{0, 0}, {0, 0}})); }
  std::string key(const std::string& scheme = "W8A8", uint64_t shard = 1000,
                  const std::string& ignore = "lm_head", const Rotation& rotation = {}) {
    const ModelFiles files = open_model(temp_ / "in", rotation);
    PlanRequest request;
    request.groups.push_back({"", {"Linear"}, parse_scheme_text(scheme, "test").scheme});
    request.ignore = {ignore};
    return job_key(files, plan_model(files, request).plan, shard, nullptr);
  }
  TempFolder temp_;
};

TEST_F(JobKey, IsTheSameForTheSameJob) {
  EXPECT_EQ(key(), key());
  EXPECT_EQ(key().size(), 16u);
  EXPECT_EQ(key().find_first_not_of("0123456789abcdef"), std::string::npos);
}

TEST_F(JobKey, ChangesWithWhatTheOutputDependsOn) {
  const std::string before = key();
  EXPECT_NE(key("W8A8", 1001), before);
  EXPECT_NE(key("W8A16:channel"), before);  // the same codes, another config
  EXPECT_NE(key("W8A8:tensor"), before);
  EXPECT_NE(key("W8A8", 1000, "model.layers.0.mlp.up_proj"), before);
  EXPECT_NE(key("W8A8", 1000, "lm_head", {true, false}), before);
}

TEST_F(JobKey, ChangesWithTheSource) {
  const std::string before = key();
  const auto weights = temp_ / "in" / "model.safetensors";
  const auto time = std::filesystem::last_write_time(weights);
  std::filesystem::last_write_time(weights, time + std::chrono::seconds(1));
  EXPECT_NE(key(), before);
  std::filesystem::last_write_time(weights, time);
  EXPECT_EQ(key(), before);
  Json config = tiny_config(8, 2);
  config["rope_theta"] = 500000.0;
  write_file(temp_ / "in" / "config.json", dump_json(config));
  EXPECT_NE(key(), before);
}

}  // namespace
}  // namespace roundel
