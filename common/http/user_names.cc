#include "common/http/user_names.h"

#include <fmt/format.h>
#include <pwd.h>

#include <array>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace espalier::io {
namespace {

// The number of cached names; beyond it names are dropped and looked up again.
constexpr std::size_t kMaxKnown = 1024;

}  // namespace

struct UserNames::Answers {
  std::mutex mutex;
  UserNames* taker = nullptr;  // guarded by the mutex; null once it is destroyed
};

UserNames::UserNames(EventLoop& loop, LookUp look_up, Duration patience)
    : loop_(loop),
      look_up_(std::move(look_up)),
      patience_(patience),
      answers_(std::make_shared<Answers>()) {
  answers_->taker = this;
}

UserNames::~UserNames() {
  const std::lock_guard lock(answers_->mutex);
  answers_->taker = nullptr;
}

std::string UserNames::AskSystem(uid_t uid) {
  std::array<char, 4096> buffer{};
  passwd entry{};
  passwd* found = nullptr;
  getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found);
  return found != nullptr ? found->pw_name : "";
}

void UserNames::Find(uid_t uid, std::function<void(const std::string&)> use) {
  const auto known = known_.find(uid);
  if (known != known_.end() && loop_.Now() - known->second.since < kKept) {
    return use(std::string(known->second.name));
  }
  if (!under_way_.contains(uid)) {
    if (under_way_.size() >= kMaxLookUps) return use(fmt::format("{}", uid));
    Start(uid);
  }
  Wanted& wanted = wanted_[uid];
  wanted.uses.push_back(std::move(use));
  if (wanted.patience) return;
  wanted.patience = loop_.After(patience_, [this, uid] { Answer(uid, fmt::format("{}", uid)); });
}

void UserNames::Start(uid_t uid) {
  under_way_.insert(uid);
  const auto ask = [answers = answers_, look_up = look_up_, uid] {
    const std::string name = look_up(uid);
    const std::lock_guard lock(answers->mutex);
    UserNames* const taker = answers->taker;
    if (taker == nullptr) return;
    taker->loop_.Post([answers, uid, name] {
      // Runs on the loop's thread, on which the taker is destroyed, so it stays valid here.
      UserNames* taker_now = nullptr;
      {
        const std::lock_guard now_locked(answers->mutex);
        taker_now = answers->taker;
      }
      if (taker_now != nullptr) taker_now->Take(uid, name);
    });
  };
  try {
    std::thread(ask).detach();
  } catch (const std::system_error&) {  // no thread left: the caller gets the id
    under_way_.erase(uid);
  }
}

void UserNames::Take(uid_t uid, const std::string& name) {
  under_way_.erase(uid);
  if (known_.size() >= kMaxKnown) known_.clear();
  const std::string text = name.empty() ? fmt::format("{}", uid) : name;
  known_[uid] = {text, loop_.Now()};
  Answer(uid, text);
}

void UserNames::Answer(uid_t uid, const std::string& name) {
  auto wanted = wanted_.extract(uid);
  if (wanted.empty()) return;
  for (const auto& use : wanted.mapped().uses) use(name);
}

}  // namespace espalier::io
