#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/bus.h"
#include "common/base/time/event_loop.h"
#include "common/base/time/token_bucket.h"
#include "controller/state/flows/flow_table.h"
#include "controller/state/flows/push_queue.h"
#include "proto/messages.h"

namespace espalier::controller {

// The plan of one rank of a job, and the push that carried it to the rank's agent (0: none yet).
struct RankPlanDelivery {
  std::shared_ptr<const wire::RankPlan> plan;
  std::uint64_t generation = 0;
};

// An agent, connected or not, by the name of its host.
struct Agent {
  std::string name;
  std::optional<PeerId> peer;  // none: not connected
  std::uint64_t instance = 0;  // nonce of the process that sent the last Hello
  std::vector<wire::Nic> nics;
  std::vector<std::string> features;
  std::uint32_t protocol_minor = 0;
  TimePoint last_heard;
  std::optional<TimePoint> warned_of_timeout;  // of a flow: when the last event was recorded
  bool reported = false;                       // its first full report after Hello has arrived
  std::uint64_t report_sequence = 0;           // sequence number of the last report since Hello
  std::optional<TokenBucket> allowance;  // entries (proto/message_cost.h), for all its connections

  // Pushes. Generations count up by one per push in an epoch.
  std::uint64_t generation = 0;  // last sent
  std::uint64_t acked_generation = 0;
  TimePoint hold_until;  // until then, a full push waits for flows that are being adopted
  TimePoint last_push;
  TimePoint asked_full_push{};                  // when it got, or gets, all that it asked for last
  TimePoint next_full_push{};                   // not before, as it asks too often
  std::map<RankOfJob, RankPlanDelivery> plans;  // for the ranks on its host

  bool Has(std::string_view feature) const {
    return std::find(features.begin(), features.end(), feature) != features.end();
  }
};

// The known agents, connected or not. Their names are the names of hosts in the topology.
// Thread safety: the controller's loop thread.
class AgentRegistry {
 public:
  // Returns the id of this name, which never changes, and adds the name if it is unknown.
  AgentId Intern(const std::string& name);
  std::optional<AgentId> FindByName(std::string_view name) const;
  std::optional<AgentId> FindByPeer(PeerId peer) const;
  Agent& At(AgentId id) { return agents_[id.Index()]; }
  const Agent& At(AgentId id) const { return agents_[id.Index()]; }
  std::size_t size() const { return agents_.size(); }

  void Connect(AgentId id, PeerId peer);
  void Disconnect(AgentId id);

 private:
  std::vector<Agent> agents_;
  std::unordered_map<std::string, AgentId> by_name_;
  std::unordered_map<PeerId, AgentId> by_peer_;
};

}  // namespace espalier::controller
