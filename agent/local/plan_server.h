#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "common/base/metrics.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "proto/messages.h"

namespace espalier::agent {

// Hands the plans of ranks to the programs on this host that are those ranks (plan_protocol.h), and
// takes their reports. Clients are not trusted: one that says anything else than a request and
// reports loses its connection.
// Thread safety: the agent's loop thread.
class PlanServer {
 public:
  // Errors: kInvalidArgument for the path, kUnavailable where an agent answers on it.
  static Result<std::unique_ptr<PlanServer>> Listen(const std::string& path, Metrics& metrics);
  ~PlanServer();
  PlanServer(const PlanServer&) = delete;
  PlanServer& operator=(const PlanServer&) = delete;

  // Readable when HandleReady has something to do. Level-triggered.
  int fd() const { return epoll_.get(); }
  void HandleReady();

  // The rank's plan from now on; without a program: it has none any more.
  void SetPlan(const wire::RankPlan& plan);
  void OnReport(std::function<void(const wire::CollectiveReport&)> callback) {
    on_report_ = std::move(callback);
  }

 private:
  using Rank = std::pair<std::string, std::uint32_t>;
  struct Client {
    UniqueFd socket;
    Rank rank;
    bool has_asked = false;
  };
  // A plan as programs get it.
  struct PlanFile {
    UniqueFd file;
    std::uint64_t bytes = 0;
  };

  PlanServer(std::string path, Metrics& metrics);
  Result<void> Open();
  void Accept();
  // False where the client has to go.
  bool Read(Client& client);
  bool HandleRequest(Client& client, const void* message, std::size_t size);
  bool HandleReport(const Client& client, const void* message, std::size_t size);
  static bool Notify(const Client& client, const PlanFile* file);

  const std::string path_;
  Counter& refused_;
  UniqueFd epoll_;
  UniqueFd listener_;
  std::uint64_t last_client_ = 0;
  std::map<std::uint64_t, Client> clients_;
  std::map<Rank, PlanFile> plans_;
  std::function<void(const wire::CollectiveReport&)> on_report_;
};

}  // namespace espalier::agent
