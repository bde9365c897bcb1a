// What a kernel answers when asked whether it can do a problem: yes, or the reason why not (shown by `plan --explain`).
#pragma once

namespace roundel {

struct Support {
  bool ok = true;
  const char* reason = "";  // static text
};

}  // namespace roundel
