#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "agent/local/job_users.h"
#include "common/base/event_loop.h"
#include "common/base/metrics.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "common/os/message_server.h"
#include "proto/messages.h"

namespace espalier::agent {

struct RankPlanServerOptions {
  std::string path;
  std::size_t max_clients = 1'024;        // that have asked for a plan, and as many that have not
  std::size_t max_clients_of_user = 512;  // of each kind: nobody keeps the others out
  Duration report_interval = std::chrono::milliseconds(10);  // of one client, in the long run
  std::int64_t report_burst = 16;                            // that may come at once after a pause
  // The user of the host's engine, who may ask on behalf of programs. None: there is no such user.
  std::optional<uid_t> engine_user;
  JobUsers::Background background;  // for what the system is asked about users
  JobUsers::LookUp look_up_user = JobUsers::AskSystem;
};

// Hands the plans of ranks to the programs on this host that are those ranks (plan_protocol.h), and
// takes their reports. A plan holds the key of its job, so each rank that has one has one owner:
// the user that the plan names, and nobody where this host has no such user. Where the plan names
// none, that is the user that asks first, or, of those who wait when the plan comes, the one that
// connected first. Root and the agent's own user own every rank; the engine's user asks in the name
// of others.
//
// Clients are not trusted. One that says anything else than a request and reports loses its
// connection; reports count only where the rank has a plan, and beyond a rate they are dropped and
// counted, so that no program can make its agent flood the controller. Clients are limited for each
// user and in all; of those who stay silent the oldest gives way.
// Thread safety: the agent's loop thread.
class RankPlanServer {
 public:
  // Errors: kInvalidArgument for the path, kUnavailable where an agent answers on it.
  static Result<std::unique_ptr<RankPlanServer>> Listen(EventLoop& loop,
                                                        RankPlanServerOptions options,
                                                        Metrics& metrics);
  RankPlanServer(const RankPlanServer&) = delete;
  RankPlanServer& operator=(const RankPlanServer&) = delete;

  // Readable when HandleReady has something to do. Level-triggered.
  int fd() const { return callers_.fd(); }
  // Bounded work; never blocks.
  void HandleReady() { callers_.HandleReady(); }

  // The rank's plan from now on; without a program: it has none any more.
  void SetPlan(const wire::RankPlan& plan);
  void OnReport(std::function<void(const wire::CollectiveReport&)> callback) {
    on_report_ = std::move(callback);
  }

 private:
  using Name = std::pair<std::string, std::uint32_t>;
  // A plan as programs get it.
  struct PlanFile {
    UniqueFd file;
    std::uint64_t bytes = 0;
  };
  struct Rank {
    std::optional<PlanFile> plan;
    std::string user;            // that the plan names
    std::optional<uid_t> owner;  // of the plan, as far as it is known
    std::size_t clients = 0;
  };
  // One that has asked.
  struct Client {
    const MessageServer::Caller& caller;
    Name rank;
    uid_t asks_for = 0;        // whose program the plan is for
    bool has_plan = false;     // the one in force
    std::int64_t reports = 0;  // that it may still send at once
    TimePoint reports_since{};
  };
  enum class Right { kYes, kNo, kNotKnownYet };

  RankPlanServer(EventLoop& loop, RankPlanServerOptions options, Metrics& metrics);
  // False where the client has to go.
  bool Read(MessageServer::Caller& caller);
  bool HandleRequest(MessageServer::Caller& caller, const void* message, std::size_t size);
  bool HandleReport(Client& client, const void* message, std::size_t size);
  bool MayReport(Client& client);
  bool MayActFor(uid_t caller, uid_t user) const;
  Right RightOf(uid_t user, Rank& rank);
  // What holds for its rank now; false where the client has to go.
  bool Serve(Client& client);
  void Refuse(const Client& client);
  void ServeAll(const std::function<bool(const Client&)>& is_meant);
  void Leave(const Name& name);
  void Forget(const MessageServer::Caller& caller);
  static bool Notify(const Client& client, const std::optional<PlanFile>& plan);

  EventLoop& loop_;
  const RankPlanServerOptions options_;
  Counter& refused_;
  Counter& dropped_reports_;
  TimePoint next_warning_{};
  MessageServer callers_;
  std::map<std::uint32_t, Client> clients_;  // by their callers' numbers
  std::map<Name, Rank> ranks_;
  JobUsers users_;
  std::function<void(const wire::CollectiveReport&)> on_report_;
};

}  // namespace espalier::agent
