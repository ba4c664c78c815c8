#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "common/base/time/event_loop.h"

namespace espalier::io {

// Looks up the names of users by their ids. The system may ask a directory server, which can take
// forever, so each look-up runs on its own thread, at most kMaxLookUps at a time. A caller that has
// waited for `patience` gets the id as text. Names are cached for kKept. Thread safety: the loop's
// thread.
class UserNames {
 public:
  using LookUp = std::function<std::string(uid_t)>;  // on any thread; "" for an unknown user
  static constexpr std::size_t kMaxLookUps = 4;
  static constexpr Duration kPatience = std::chrono::seconds(1);
  static constexpr Duration kKept = std::chrono::minutes(10);

  explicit UserNames(EventLoop& loop, LookUp look_up = AskSystem, Duration patience = kPatience);
  // Does not wait for look-ups in progress.
  ~UserNames();
  UserNames(const UserNames&) = delete;
  UserNames& operator=(const UserNames&) = delete;

  // Calls back with the name or the id; at once if the name is cached.
  void Find(uid_t uid, std::function<void(const std::string& name)> use);

  static std::string AskSystem(uid_t uid);

 private:
  struct Known {
    std::string name;
    TimePoint since;
  };
  struct Wanted {
    std::vector<std::function<void(const std::string&)>> uses;
    TimerPtr patience;
  };
  struct Answers;

  void Start(uid_t uid);
  void Take(uid_t uid, const std::string& name);
  void Answer(uid_t uid, const std::string& name);

  EventLoop& loop_;
  const LookUp look_up_;
  const Duration patience_;
  std::unordered_map<uid_t, Known> known_;
  std::unordered_map<uid_t, Wanted> wanted_;
  std::shared_ptr<Answers> answers_;  // shared with the threads, which may outlive this
  std::unordered_set<uid_t> under_way_;
};

}  // namespace espalier::io
