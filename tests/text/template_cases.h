// Cases of tests/data/templates: what Jinja2 made of a template, or that it refused.
#pragma once
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "text/chat_template.h"

namespace roundel {

inline std::string template_data(const std::string& name) {
  return std::string(ROUNDEL_TEST_DATA "/templates/") + name;
}

inline OrderedJson read_cases(const std::string& name) {
  return parse_ordered_json(read_text_file(template_data(name), 16 << 20), name);
}

// The rendered text, or "refused: " and why.
inline std::string rendered(const std::string& text, const Json& special, const OrderedJson& messages,
                            const ChatOptions& options) {
  try {
    return ChatTemplate::parse(text, "t.jinja", special).render(messages, options);
  } catch (const Error& e) {
    return std::string("refused: ") + e.what();
  }
}

inline void expect_case(const OrderedJson& expected, const std::string& found, const std::string& what) {
  if (expected.contains("expected")) {
    EXPECT_EQ(found, expected["expected"].get<std::string>()) << what;
  } else {
    EXPECT_TRUE(found.starts_with("refused: ")) << what << "\n" << expected["error"] << "\ngave: " << found;
  }
}

// Text or error message of a template rendered for one user message "hi".
inline std::string quick(const std::string& text, const ChatOptions& options = {}) {
  return rendered(text, Json{{"bos_token", "<s>"}},
                  OrderedJson::parse(R"([{"role": "user", "content": "hi"}])"), options);
}

}  // namespace roundel
