#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "common/base/time/event_loop.h"

namespace espalier::agent {

// Finds the user ids on this host of the users for whom jobs run. The system may ask a directory
// server, which can take forever, so it is asked in the background. Answers are kept for kKept, or
// for kAskAgain if there is no such user, which is logged once. So programs that ask for rank plans
// cannot cause repeated look-ups.
// Thread safety: the loop's thread. Complexity: O(log names).
class JobUsers {
 public:
  // Does `work` in another thread, then posts `done` on the loop.
  using Background = std::function<void(std::function<void()> work, std::function<void()> done)>;
  using LookUp = std::function<std::optional<uid_t>(const std::string& name)>;  // in any thread
  static constexpr Duration kKept = std::chrono::minutes(10);
  static constexpr Duration kAskAgain = std::chrono::seconds(10);

  struct Found {
    bool is_pending = false;  // the system has not answered yet
    std::optional<uid_t> number;
  };

  // Without `background` the loop itself waits for the system. The loop must have stopped when this
  // object is destroyed.
  JobUsers(EventLoop& loop, Background background, LookUp look_up = AskSystem);
  JobUsers(const JobUsers&) = delete;
  JobUsers& operator=(const JobUsers&) = delete;

  // Looks up a user by name or number (common/base/users/local_user.h).
  Found Find(const std::string& user);
  // Sets what is called when the system has answered for a pending user.
  void OnAnswer(std::function<void(const std::string& user)> callback) {
    on_answer_ = std::move(callback);
  }

  static std::optional<uid_t> AskSystem(const std::string& name);

 private:
  struct Known {
    bool is_pending = false;
    bool is_logged = false;  // the log says that the user is unknown
    std::optional<uid_t> number;
    TimePoint since{};
  };

  void Seek(const std::string& user);
  void Take(const std::string& user, std::optional<uid_t> number);

  EventLoop& loop_;
  const Background background_;
  const LookUp look_up_;
  TimePoint next_warning_{};
  std::map<std::string, Known> known_;
  std::function<void(const std::string&)> on_answer_;
};

}  // namespace espalier::agent
