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
#include "common/base/metrics.h"
#include "common/base/result.h"
#include "common/base/time/event_loop.h"
#include "common/base/unique_fd.h"
#include "common/os/local_peer.h"
#include "common/os/message_server.h"
#include "proto/messages.h"

namespace espalier::agent {

struct RankPlanServerOptions {
  std::string path;
  std::size_t max_clients = 1'024;        // that have made a request, and as many that have not
  std::size_t max_clients_of_user = 512;  // of each kind, so that no user can keep others out
  Duration report_interval = std::chrono::milliseconds(10);  // minimum mean, for one client
  std::int64_t report_burst = 16;                            // reports allowed at once
  // The user of the offload service, who may ask on behalf of programs. None: no such user.
  std::optional<uid_t> engine_user;
  JobUsers::Background background;  // for look-ups of users
  JobUsers::LookUp look_up_user = JobUsers::AskSystem;
};

// Gives rank plans to the programs on this host that are those ranks (rank_plan_protocol.h), and
// takes their reports. A rank plan holds the key of its job, so it has one owner: the user that it
// names, or nobody if this host has no such user. If it names none, its owner is the user that asks
// first; among programs that wait when it arrives, the one that connected first. A user id is not
// one user where containers run as any id: the plan belongs to the first container (LocalPeer) of
// the owner that asks, as long as one of its programs is connected; the host itself counts as one.
//
// Whoever could read the plan in the agent's memory anyhow (LocalPeer::controls_host) gets every
// rank plan, which root in a container does not. The offload service of this host may ask on behalf
// of others for plans of jobs that use it.
//
// Clients are not trusted. A client that sends anything but a request and reports is disconnected.
// Reports count only if the rank has a rank plan. Beyond a rate they are dropped and counted, so
// that no program can make the agent flood the controller. Clients are limited in total and for
// each user; among clients without a request, the oldest has to make room for new ones.
// Thread safety: the agent's loop thread.
class RankPlanServer {
 public:
  // Errors: kInvalidArgument for the path, kUnavailable if an agent answers on it.
  static Result<std::unique_ptr<RankPlanServer>> Listen(EventLoop& loop,
                                                        RankPlanServerOptions options,
                                                        Metrics& metrics);
  RankPlanServer(const RankPlanServer&) = delete;
  RankPlanServer& operator=(const RankPlanServer&) = delete;

  // Readable when HandleReady has something to do. Level-triggered.
  int fd() const { return callers_.fd(); }
  // Bounded work; never blocks.
  void HandleReady() { callers_.HandleReady(); }

  // Replaces the rank's plan. One without a program means that the rank has none any more.
  void SetPlan(const wire::RankPlan& plan);
  void OnReport(std::function<void(const wire::CollectiveReport&)> callback) {
    on_report_ = std::move(callback);
  }

 private:
  using Name = std::pair<std::string, std::uint32_t>;
  // A rank plan in the form that programs get.
  struct PlanFile {
    UniqueFd file;
    std::uint64_t bytes = 0;
  };
  struct Rank {
    std::optional<PlanFile> plan;
    std::string user;                      // the user that the plan names
    std::optional<uid_t> owner;            // of the plan; none: unknown
    std::optional<std::string> container;  // of the owner; none: that of the next that asks
    bool offload = false;                  // the job uses the offload service
    std::size_t clients = 0;
  };
  // A client that has made its request.
  struct Client {
    const MessageServer::Caller& caller;
    Name rank;
    uid_t asks_for = 0;        // the user whose program asks
    std::string container;     // of that program
    bool has_plan = false;     // it has got the plan in force
    std::int64_t reports = 0;  // reports that it may still send at once
    TimePoint reports_since{};
  };
  enum class Right { kYes, kNo, kNotOffloaded, kNotKnownYet };

  RankPlanServer(EventLoop& loop, RankPlanServerOptions options, Metrics& metrics);
  // Returns false if the client must be disconnected.
  bool Read(MessageServer::Caller& caller);
  bool HandleRequest(MessageServer::Caller& caller, const void* message, std::size_t size);
  bool HandleReport(Client& client, const void* message, std::size_t size);
  bool MayReport(Client& client);
  bool IsEngine(const LocalPeer& caller) const;
  Right RightOf(const Client& client, Rank& rank);
  bool IsInUseBy(const Name& rank, const std::string& container) const;
  // Sends the state of the client's rank; returns false if the client must be disconnected.
  bool Serve(Client& client);
  void Refuse(const Client& client, std::uint64_t why);
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
  std::map<std::uint32_t, Client> clients_;  // by the numbers of their callers
  std::map<Name, Rank> ranks_;
  const LocalPeers peers_;
  JobUsers users_;
  std::function<void(const wire::CollectiveReport&)> on_report_;
};

}  // namespace espalier::agent
