#include "collective/runtime/offload/offload_service.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <map>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "collective/runtime/choice/cost_table.h"
#include "collective/runtime/offload/offload_session.h"
#include "collective/runtime/offload/offload_user.h"
#include "common/base/users/user_budget.h"
#include "common/os/local_peer.h"
#include "common/os/message_socket.h"

namespace espalier::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// The longest wait to send a reply to a program that does not read; it has at most one pending.
constexpr timeval kLongestSend = {.tv_sec = 1, .tv_usec = 0};
constexpr milliseconds kReap{20};  // interval of checks for ended sessions

// Reads the pending request and replies that it is refused.
void Refuse(const UniqueFd& socket, const std::string& why) {
  OffloadRequest request;
  static_cast<void>(ReceiveMessage(socket.get(), &request, sizeof(request), false));
  const OffloadReply reply = RefusalOf({ErrorCode::kResourceExhausted, why});
  static_cast<void>(SendMessage(socket.get(), &reply, sizeof(reply)));
}

// One thread accepts connections and notices programs that leave; each session has its own thread.
class Service : public OffloadService {
 public:
  Service(UniqueFd listener, UniqueFd stop, std::string path, const OffloadOptions& options)
      : listener_(std::move(listener)),
        stop_(std::move(stop)),
        path_(std::move(path)),
        options_(options),
        budgets_(options),
        thread_([this] { Work(); }) {}
  ~Service() override {
    ::eventfd_write(stop_.get(), 1);
    thread_.join();
    if (!path_.empty()) ::unlink(path_.c_str());
  }

  OffloadCounts counts() const override {
    const std::lock_guard lock(mutex_);
    return {.sessions = sessions_.size(),
            .silent = silent_.size(),
            .memory_bytes = budgets_.memory.used(),
            .shared_bytes = budgets_.shared.used(),
            .refused = refused_,
            .failed = budgets_.failed};
  }

 private:
  // A connection without a session.
  struct Caller {
    UniqueFd socket;
    LocalPeer peer;
    steady_clock::time_point since;
  };

  void Work();
  void Turn(std::vector<pollfd>& polled);
  int WaitLimit() const;
  void TakeCallers();
  void DropOneSilent();
  void DropLongWaiting();
  void Begin(Caller caller);
  void BeginWaiting();
  void MakeSession(Caller caller);
  UserBudget CountPlaces() const;
  void EndOneOf(BudgetOwner user);
  std::shared_ptr<OffloadUser> FindUser(BudgetOwner user);

  const UniqueFd listener_;
  const UniqueFd stop_;
  const std::string path_;
  const OffloadOptions options_;
  OffloadBudgets budgets_;
  mutable std::mutex mutex_;    // guards what follows; only the service's thread changes it
  std::vector<Caller> silent_;  // have made no request yet; oldest first
  // Have made a request, and wait for the threads of sessions that end. They have the places of
  // these sessions.
  std::deque<Caller> waiting_;
  std::vector<std::unique_ptr<OffloadSession>> sessions_;
  std::map<BudgetOwner, std::weak_ptr<OffloadUser>> users_;
  LocalPeers peers_;
  std::uint64_t refused_ = 0;
  bool has_no_files_ = false;  // used by the service's thread only
  std::thread thread_;         // last: it uses the other members
};

void Service::Work() {
  std::vector<pollfd> polled;
  while (true) {
    polled.assign({{stop_.get(), POLLIN, 0}, {has_no_files_ ? -1 : listener_.get(), POLLIN, 0}});
    for (const auto& session : sessions_) {
      // A session that is over is not polled any more; its thread ends soon.
      polled.push_back({session->is_over() ? -1 : session->socket(), POLLRDHUP, 0});
    }
    for (const Caller& caller : silent_) polled.push_back({caller.socket.get(), POLLIN, 0});
    if (::poll(polled.data(), polled.size(), WaitLimit()) < 0) continue;
    if (polled[0].revents != 0) break;
    has_no_files_ = false;
    const std::lock_guard lock(mutex_);
    Turn(polled);
  }
  for (const auto& session : sessions_) session->End("the offload service stops");
  const std::lock_guard lock(mutex_);
  sessions_.clear();
}

// Handles the results of a poll, in its order: sessions, then silent connections.
void Service::Turn(std::vector<pollfd>& polled) {
  const std::size_t served = sessions_.size();
  for (std::size_t i = 0; i < served; ++i) {
    if (polled[i + 2].revents != 0) sessions_[i]->End("its program has left");
  }
  std::erase_if(sessions_, [](const auto& session) { return session->has_ended(); });
  std::erase_if(users_, [](const auto& entry) { return entry.second.expired(); });
  BeginWaiting();
  std::vector<Caller> still;
  for (std::size_t i = 0; i < silent_.size(); ++i) {
    if (polled[i + 2 + served].revents == 0) {
      still.push_back(std::move(silent_[i]));
    } else {
      Begin(std::move(silent_[i]));
    }
  }
  silent_ = std::move(still);
  DropLongWaiting();
  if (polled[1].revents != 0) TakeCallers();
}

// The time until something must be done without an event, in milliseconds; -1: none.
int Service::WaitLimit() const {
  const bool some_are_over =
      std::ranges::any_of(sessions_, [](const auto& session) { return session->is_over(); });
  if (some_are_over || has_no_files_) return static_cast<int>(kReap.count());
  if (silent_.empty()) return -1;
  const auto left = silent_.front().since + options_.identification_timeout - steady_clock::now();
  const auto rounded = std::chrono::ceil<milliseconds>(left);
  return static_cast<int>(std::clamp<std::int64_t>(rounded.count(), 0, 60'000));
}

void Service::TakeCallers() {
  // Accepts a bounded number, so that a flood of connections does not delay the sessions.
  for (std::size_t i = 0; i < options_.max_unidentified; ++i) {
    UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket) {
      has_no_files_ = errno == EMFILE || errno == ENFILE;  // retried after kReap
      return;
    }
    auto peer = peers_.Of(socket.get());
    if (!peer) continue;
    ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &kLongestSend, sizeof(kLongestSend));
    if (silent_.size() >= options_.max_unidentified) DropOneSilent();
    silent_.push_back({std::move(socket), std::move(*peer), steady_clock::now()});
  }
}

// Drops the oldest silent connection of the user with the most.
void Service::DropOneSilent() {
  std::map<BudgetOwner, std::size_t> counts;
  for (const Caller& caller : silent_) ++counts[caller.peer.payer];
  const auto most = std::ranges::max_element(
      counts, [](const auto& a, const auto& b) { return a.second < b.second; });
  silent_.erase(std::ranges::find(silent_, most->first,
                                  [](const Caller& caller) { return caller.peer.payer; }));
  ++refused_;
}

void Service::DropLongWaiting() {
  const auto now = steady_clock::now();
  const auto waits_long = [&](const Caller& caller) {
    return now - caller.since >= options_.identification_timeout;
  };
  refused_ += std::erase_if(silent_, waits_long) + std::erase_if(waiting_, waits_long);
}

void Service::Begin(Caller caller) {
  const auto refuse = [&](const std::string& why) {
    Refuse(caller.socket, why);
    ++refused_;
  };
  const BudgetOwner user = caller.peer.payer;
  const UserBudget places = CountPlaces();
  if (!places.HasRoomFor(user)) {
    return refuse(
        fmt::format("user {} has {} ranks at this offload service, the limit for one user",
                    caller.peer.user, options_.max_sessions_per_user));
  }
  if (places.used() >= options_.max_sessions) {
    const auto loser = places.GivesWayTo(user);
    if (!loser) {
      return refuse(
          fmt::format("this offload service serves {} ranks, its limit", options_.max_sessions));
    }
    EndOneOf(*loser);
  }
  if (sessions_.size() < options_.max_sessions) return MakeSession(std::move(caller));
  caller.since = steady_clock::now();
  waiting_.push_back(std::move(caller));
}

void Service::BeginWaiting() {
  while (!waiting_.empty() && sessions_.size() < options_.max_sessions) {
    MakeSession(std::move(waiting_.front()));
    waiting_.pop_front();
  }
}

void Service::MakeSession(Caller caller) {
  try {
    const JobProgram program = {caller.peer.user, caller.peer.process};
    sessions_.push_back(std::make_unique<OffloadSession>(std::move(caller.socket), program,
                                                         FindUser(caller.peer.payer), options_));
  } catch (const std::system_error&) {  // no thread available
    ++refused_;
  } catch (const std::bad_alloc&) {
    ++refused_;
  }
}

// Counts the places of sessions that go on and of callers that wait for one.
UserBudget Service::CountPlaces() const {
  UserBudget places(options_.max_sessions, options_.max_sessions_per_user);
  for (const auto& session : sessions_) {
    if (!session->is_over()) places.Take(session->user());
  }
  for (const Caller& caller : waiting_) places.Take(caller.peer.payer);
  return places;
}

// Frees a place of this user: that of a caller that waits or of a session that has joined no group,
// or else that of its newest session.
void Service::EndOneOf(BudgetOwner user) {
  ++refused_;
  const auto waits =
      std::ranges::find(waiting_, user, [](const Caller& caller) { return caller.peer.payer; });
  if (waits != waiting_.end()) {
    waiting_.erase(waits);
    return;
  }
  OffloadSession* chosen = nullptr;
  for (const auto& session : sessions_) {
    if (session->is_over() || session->user() != user) continue;
    if (chosen == nullptr || chosen->has_joined()) chosen = session.get();
  }
  if (chosen != nullptr) chosen->End("its place is needed for a user with fewer ranks");
}

std::shared_ptr<OffloadUser> Service::FindUser(BudgetOwner user) {
  std::weak_ptr<OffloadUser>& known = users_[user];
  std::shared_ptr<OffloadUser> found = known.lock();
  if (found == nullptr) known = found = std::make_shared<OffloadUser>(user, options_, budgets_);
  return found;
}

Result<std::unique_ptr<OffloadService>> Start(UniqueFd listener, const std::string& path,
                                              const OffloadOptions& options) {
  if (!options.costs_file.empty()) {
    auto costs = ReadCostsFile(options.costs_file);
    if (!costs) return Propagate(costs);
  }
  UniqueFd stop(::eventfd(0, EFD_CLOEXEC));
  if (!stop) return Fail(ErrorCode::kUnavailable, "cannot create an event descriptor");
  return std::make_unique<Service>(std::move(listener), std::move(stop), path, options);
}

}  // namespace

Result<std::unique_ptr<OffloadService>> OffloadService::Listen(const std::string& path,
                                                               const OffloadOptions& options) {
  auto listener = ListenOnPath(path);
  if (!listener) return Propagate(listener);
  auto service = Start(std::move(*listener), path, options);
  if (!service) ::unlink(path.c_str());
  return service;
}

Result<std::unique_ptr<OffloadService>> OffloadService::Serve(UniqueFd listener,
                                                              const OffloadOptions& options) {
  return Start(std::move(listener), "", options);
}

}  // namespace espalier::runtime
