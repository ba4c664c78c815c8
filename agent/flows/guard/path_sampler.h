#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "agent/flows/flow_meter.h"
#include "agent/flows/guard/socket_repeats.h"
#include "agent/flows/port_table.h"
#include "agent/flows/transport_state.h"
#include "common/base/time/event_loop.h"
#include "proto/messages.h"

namespace espalier::agent {

struct PathSamplerOptions {
  Duration interval = std::chrono::milliseconds(500);
  TransportReaders transports;
};

// Reports the paths of this host's elephants that have repeated something, as suspicions against
// their links. A flow with nothing to report costs no message.
//
// Each entry says on what its `retries` since the last report rest:
//   kKernel   segments that the kernel's socket of the path, which belongs to the flow's user, has
//             sent again (SocketRepeats)
//   kDevice   packets that the device of the flow's NIC has sent and peers have missed. It counts
//             them for all its queue pairs together, so they are dealt out in equal parts to the
//             users that have busy queue pairs there, and to the paths of each user
//   kClaimed  retries that the program claims, where neither of these knows the path. They accuse
//             nobody
// Congestion, too, makes flows repeat, and a program can make its own socket repeat: an entry is a
// reason to test a path, and no evidence.
//
// A report has at most kMostVotes entries that rest on kernel and device, and kMostVotesOfUser of
// one user, so that no user can outvote the others of its host; of claims it has a quarter of both.
// What exceeds that is lost, and it meets other flows each time.
//
// The rates of paths that get unequal parts of a flow by weights are reported in each interval in
// which they had something to send all along, as far as the source sees subflows. What these paths
// have repeated goes with that.
// Thread safety: the agent's loop thread. Complexity: O(elephants log elephants), once an interval.
class PathSampler {
 public:
  static constexpr std::size_t kMostVotes = 64;
  static constexpr std::size_t kMostVotesOfUser = 16;

  using OnSample = std::function<void(const wire::PathHealth&)>;

  PathSampler(PathSamplerOptions options, const PortTable& ports, OnSample on_sample);

  // Input: all elephants, ascending by id.
  void HandleMeasures(TimePoint now, std::span<const FlowMeasure> flows);

 private:
  // What the program claims of a path at one time.
  struct Claims {
    wire::LocalFlowId flow;
    std::uint16_t port = 0;
    std::uint64_t sent_bytes = 0;
    std::uint32_t retries = 0;
    bool is_seen = false;  // by the source, as a part of the flow
    bool is_busy = false;
  };
  // A path of a flow.
  struct Subject {
    const FlowMeasure* flow = nullptr;
    const wire::PathSet* set = nullptr;
    const wire::FlowPath* path = nullptr;
    std::uint32_t of_device = 0;  // its part of what its device counted
  };
  struct Vote {
    std::uint64_t user = 0;
    wire::FlowHealth health;
  };

  std::vector<Subject> FindSubjects(std::span<const FlowMeasure> flows) const;
  static Claims ClaimsOf(const Subject& subject);
  const Claims* FindBefore(wire::LocalFlowId flow, std::uint16_t port) const;
  void CountDevices(std::span<Subject> subjects);
  // The part of an indivisible number; the rest goes to others each time.
  std::uint32_t PartOf(std::uint32_t total, std::size_t parts, std::size_t index) const;
  wire::FlowHealth Describe(const Subject& subject, const Claims& now, const Claims* before);
  // Adds as many as may be reported, beginning with others each time.
  void Add(std::span<const Vote> votes, std::size_t most, std::size_t most_of_user);

  const PathSamplerOptions options_;
  const PortTable& ports_;
  const OnSample on_sample_;
  SocketRepeats sockets_;
  std::optional<TimePoint> last_;
  std::size_t turn_ = 0;
  std::map<IpAddress, std::uint32_t> devices_;  // as last read
  std::vector<Claims> before_;                  // by flow and port
  wire::PathHealth health_;
};

}  // namespace espalier::agent
