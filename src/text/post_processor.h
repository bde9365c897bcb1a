// Post-processors of tokenizer.json: tokens around the text, such as the begin token.
//
//   PostProcessor post = PostProcessor::parse(json.at("post_processor"), "tokenizer.json: post_processor");
//   std::vector<int32_t> ids = post.apply(std::move(text_ids), add_special);
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"

namespace roundel {

class PostProcessor {
 public:
  // null does nothing. Types: TemplateProcessing (its template for a single text), ByteLevel (which concerns offsets
  // only), Sequence of them with at most one template; another one throws Error(kUnsupported) with its name.
  static PostProcessor parse(const Json& value, const std::string& where);
  // Without add_special the template's own tokens are left out.
  std::vector<int32_t> apply(std::vector<int32_t> ids, bool add_special) const;
  const std::vector<int32_t>& special_ids() const { return special_ids_; }  // that the template may insert

 private:
  struct Part {
    bool is_text;
    std::vector<int32_t> ids;
  };
  void read(const Json& value, const std::string& where, int depth);
  void read_template(const Json& value, const std::string& where);

  bool has_template_ = false;
  std::vector<Part> parts_;
  std::vector<int32_t> special_ids_;
};

}  // namespace roundel
