#pragma once

#include <fmt/format.h>

#include <string>

#include "deploy/cli/session/operator_session.h"

namespace espalier::cli {

// For commands that show the controller's state again and again, until Ctrl-C: a controller that
// dies and comes back does not end them. The first request must be answered. Of later failures the
// first is reported, and so is the next answer.
class Patience {
 public:
  explicit Patience(Session& session) : session_(session) {}

  // Calls `ask`, whose result is true or a value if the controller has answered.
  template <typename Ask>
  auto Try(const Ask& ask) {
    session_.is_silent = is_waiting_;
    auto answer = ask();
    session_.is_silent = false;
    const bool has_answer = static_cast<bool>(answer);
    if (has_answer && is_waiting_) fmt::print(stderr, "espalier: the controller answers again\n");
    is_waiting_ = !has_answer && (is_waiting_ || has_been_answered_);
    has_been_answered_ |= has_answer;
    return answer;
  }
  // Whether it makes sense to try again.
  bool has_been_answered() const { return has_been_answered_; }

 private:
  Session& session_;
  bool has_been_answered_ = false;
  bool is_waiting_ = false;  // a failure was reported, and no answer came since
};

}  // namespace espalier::cli
