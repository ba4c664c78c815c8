#include "agent/local/job_users.h"

#include <pwd.h>

#include <memory>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/base/users/local_user.h"

namespace espalier::agent {
namespace {

// When more names are known, all are forgotten except pending ones.
constexpr std::size_t kMaxKnown = 1'024;
constexpr std::size_t kEntryBytes = 16'384;
constexpr Duration kBetweenWarnings = std::chrono::seconds(1);

}  // namespace

JobUsers::JobUsers(EventLoop& loop, Background background, LookUp look_up)
    : loop_(loop), background_(std::move(background)), look_up_(std::move(look_up)) {}

std::optional<uid_t> JobUsers::AskSystem(const std::string& name) {
  std::vector<char> buffer(kEntryBytes);
  passwd entry{};
  passwd* found = nullptr;
  getpwnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found);
  return found != nullptr ? std::optional<uid_t>(found->pw_uid) : std::nullopt;
}

JobUsers::Found JobUsers::Find(const std::string& user) {
  if (const auto number = LocalUserNumber(user)) return {.number = number};
  if (const auto found = known_.find(user); found != known_.end()) {
    const Known& known = found->second;
    if (known.is_pending) return {.is_pending = true};
    if (loop_.Now() - known.since < (known.number ? kKept : kAskAgain)) {
      return {.number = known.number};
    }
  }
  Seek(user);
  return {.is_pending = true};
}

void JobUsers::Seek(const std::string& user) {
  if (known_.size() >= kMaxKnown) {
    std::erase_if(known_, [](const auto& entry) { return !entry.second.is_pending; });
  }
  known_[user].is_pending = true;
  const auto number = std::make_shared<std::optional<uid_t>>();
  auto work = [look_up = look_up_, user, number] { *number = look_up(user); };
  auto done = [this, user, number] { Take(user, *number); };
  if (background_) return background_(std::move(work), std::move(done));
  loop_.Post([work = std::move(work), done = std::move(done)] {
    work();
    done();
  });
}

void JobUsers::Take(const std::string& user, std::optional<uid_t> number) {
  Known& known = known_[user];
  if (!number && !known.is_logged && loop_.Now() >= next_warning_) {
    known.is_logged = true;
    next_warning_ = loop_.Now() + kBetweenWarnings;
    Log(LogLevel::kWarning,
        "event=job_user_unknown user={} what=\"this host has no such user, so no program gets rank "
        "plans of its jobs (create the user, or start the job with a user id)\"",
        user);
  }
  known.is_pending = false;
  known.number = number;
  known.since = loop_.Now();
  if (on_answer_) on_answer_(user);
}

}  // namespace espalier::agent
