#include "collective/transport/hosts/hosts_transport.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "collective/transport/shm/shm_transport.h"

namespace espalier::transport {
namespace {

using std::chrono::microseconds;
using std::chrono::steady_clock;

constexpr microseconds kYieldFor{100};
constexpr microseconds kNap{200};
constexpr std::chrono::milliseconds kCheckEvery{20};

class HostsTransport : public Transport {
 public:
  // `local`: null if the rank is alone on its host.
  HostsTransport(int rank, const HostMap& hosts, std::unique_ptr<Transport> local,
                 std::unique_ptr<Transport> network)
      : rank_(rank), local_(std::move(local)), network_(std::move(network)) {
    const int own = hosts.host_of[static_cast<std::size_t>(rank)];
    local_number_.assign(hosts.host_of.size(), -1);
    int next = 0;
    for (const int peer : hosts.RanksOf(own))
      local_number_[static_cast<std::size_t>(peer)] = next++;
  }

  int rank() const override { return rank_; }
  int size() const override { return network_->size(); }
  std::size_t slot_bytes() const override { return network_->slot_bytes(); }
  std::size_t message_bytes() const override { return network_->message_bytes(); }
  int slots() const override { return network_->slots(); }

  void Enter(const MessageTag& call, const CallCheck& check) override {
    network_->Enter(call, check);
  }

  Result<void> Connect(std::span<const Endpoint> endpoints, Deadline deadline) override {
    std::vector<Endpoint> within;
    std::vector<Endpoint> between;
    for (const Endpoint& endpoint : endpoints) {
      if (endpoint.peer < 0 || endpoint.peer >= size() || endpoint.peer == rank_) {
        return Fail(ErrorCode::kInvalidArgument,
                    fmt::format("rank {} cannot connect to rank {} (the group has {} ranks)", rank_,
                                endpoint.peer, size()));
      }
      if (IsLocal(endpoint.peer)) {
        within.push_back(Within(endpoint));
      } else {
        between.push_back(endpoint);
      }
    }
    if (!within.empty()) {
      auto connected = local_->Connect(within, deadline);
      if (!connected) return connected;
    }
    if (between.empty()) return {};
    uses_network_ = true;
    return network_->Connect(between, deadline);
  }

  Outbox& outbox(Endpoint endpoint) override {
    return IsLocal(endpoint.peer) ? local_->outbox(Within(endpoint)) : network_->outbox(endpoint);
  }
  Inbox& inbox(Endpoint endpoint) override {
    return IsLocal(endpoint.peer) ? local_->inbox(Within(endpoint)) : network_->inbox(endpoint);
  }

  Result<void> Wait(Deadline deadline) override {
    if (!local_) return network_->Wait(deadline);
    if (!uses_network_) return local_->Wait(deadline);
    const auto start = steady_clock::now();
    auto check_at = start + kCheckEvery;
    while (true) {
      const auto now = steady_clock::now();
      const bool sleeps = now >= start + kYieldFor;
      auto arrived = network_->TryWait(microseconds(sleeps ? 1 : 0));
      if (!arrived || *arrived) return Drop(arrived);
      auto changed = local_->TryWait(sleeps ? kNap : microseconds(0));
      if (!changed || *changed) return Drop(changed);
      if (now >= check_at) {
        auto well = local_->Check();
        if (!well) return well;
        check_at = now + kCheckEvery;
      }
      if (now >= deadline) return network_->Wait(deadline);  // names a late rank
      if (!sleeps) ::sched_yield();
    }
  }

  Result<void> Flush(Deadline deadline) override { return network_->Flush(deadline); }
  Result<void> Check() override {
    if (local_) {
      auto well = local_->Check();
      if (!well) return well;
    }
    return network_->Check();
  }
  bool HasLost(int peer) override {
    return IsLocal(peer) && peer != rank_ ? local_->HasLost(Within({peer}).peer)
                                          : network_->HasLost(peer);
  }
  void Abort(const Error& cause) override {
    if (local_) local_->Abort(cause);
    network_->Abort(cause);
  }

 private:
  static Result<void> Drop(const Result<bool>& result) {
    if (!result) return tl::unexpected<Error>(result.error());
    return {};
  }
  bool IsLocal(int peer) const { return local_number_[static_cast<std::size_t>(peer)] >= 0; }
  Endpoint Within(Endpoint endpoint) const {
    return {local_number_[static_cast<std::size_t>(endpoint.peer)], endpoint.channel};
  }

  int rank_;
  std::unique_ptr<Transport> local_;
  std::unique_ptr<Transport> network_;
  std::vector<int> local_number_;  // by rank; -1: on another host
  bool uses_network_ = false;
};

}  // namespace

Result<std::unique_ptr<Transport>> JoinHosts(RendezvousStore& store, const std::string& name,
                                             int rank, const HostMap& hosts,
                                             const HostsOptions& options, Deadline deadline) {
  const int size = static_cast<int>(hosts.host_of.size());
  TcpOptions tcp = options.tcp;
  tcp.deadline = deadline;
  auto network = JoinTcp(store, name, rank, size, tcp);
  if (!network) return network;
  const int own = hosts.host_of[static_cast<std::size_t>(rank)];
  const std::vector<int> ranks = hosts.RanksOf(own);
  std::unique_ptr<Transport> local;
  if (ranks.size() > 1) {
    const auto number = std::ranges::find(ranks, rank) - ranks.begin();
    auto joined = JoinShm(store, fmt::format("{}/host.{}", name, own), static_cast<int>(number),
                          static_cast<int>(ranks.size()),
                          {.channels = options.channels,
                           .slots = options.tcp.slots,
                           .slot_bytes = options.tcp.slot_bytes,
                           .names = ranks},
                          deadline);
    if (!joined) return joined;
    local = std::move(*joined);
  }
  return std::make_unique<HostsTransport>(rank, hosts, std::move(local), std::move(*network));
}

}  // namespace espalier::transport
