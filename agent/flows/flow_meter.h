#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "agent/flows/edge_filter.h"
#include "agent/flows/flow_source.h"
#include "common/base/time/event_loop.h"
#include "proto/messages.h"

namespace espalier::agent {

struct FlowMeterOptions {
  // A flow that has had this much to send, or has sent it, is an elephant until it ends.
  std::uint64_t elephant_bytes = 1 << 20;
  // Maximum number of elephants; further flows stay on plain ECMP like mice. A report has room for
  // two addresses of each. Where there are more, the users share the places (elephant_shares.h).
  std::size_t max_elephants = 8192;
  // An elephant that has sent nothing for this long is quiet: it is the first to give its place up.
  Duration quiet_after = std::chrono::seconds(5);
  Duration stalled_after = std::chrono::milliseconds(200);
  // Of the rates of all flows: windows of equal length, so that rates of flows add up.
  Duration rate_window = std::chrono::milliseconds(100);
  EdgeFilterOptions edges;
};

// Progress of the subflows of a split flow that have this port.
struct PortMeasure {
  std::uint16_t source_port = 0;
  Duration without_progress{};  // while bytes are in flight; zero if none are
  bool retries_grew = false;    // since it last made progress
  Duration since_retry{};       // if they grew: since the last one
  TimePoint progressed{};       // the last look that saw progress; none: none has
};

// Progress of one elephant.
struct FlowMeasure {
  const FlowSample* sample = nullptr;  // valid as long as the samples that were measured
  wire::FlowState state = wire::FlowState::kActive;  // idle if the activity is
  std::uint64_t achieved_bps = 0;                    // over the last full window of all flows
  bool busy = false;            // it had something to send during that whole window
  Duration without_progress{};  // while it has something to send; zero if it has nothing
  bool retries_grew = false;    // since it last made progress
  Duration since_retry{};       // if they grew: since the last one
  TimePoint progressed{};       // the last look that saw progress; none: none has
  Activity activity;
  std::vector<PortMeasure> ports;  // one entry for each port of the sample
};

// How long the flow, or the subflow that has waited longest, has made no progress.
Duration LongestPause(const FlowMeasure& flow);

// Finds the elephants among the flows and measures their progress by comparing successive samples
// of a FlowSource. If the source does not tell when a flow becomes busy and idle, a flow is busy in
// the samples in which it has something to send or has sent something since the last one. Programs
// may claim anything: counts that decrease are taken as no progress. Thread safety: one thread.
// Complexity: linear in the flows; beyond max_elephants also O(users log users).
class FlowMeter {
 public:
  explicit FlowMeter(const FlowMeterOptions& options) : options_(options) {}

  // Of these queue pairs, those that are open at the next Measure become elephants whatever they
  // send, within their user's share. Further ones than max_elephants are ignored.
  void Want(std::span<const wire::QueuePair> pairs);
  // Input: all open flows, ascending by id. Returns the elephants, ascending by id; valid until
  // the next call.
  std::span<const FlowMeasure> Measure(TimePoint now, std::span<const FlowSample> flows);
  // The flows that had no place at the last Measure. They are on plain ECMP, like mice.
  std::vector<wire::LocalFlowId> WithoutPlace() const;

 private:
  struct History {
    wire::LocalFlowId id;
    TimePoint since;  // when it got its place
    std::uint64_t window_sent = 0;
    bool window_busy = false;
    std::uint64_t achieved_bps = 0;
    bool busy = false;
    // The time without progress, or since there was something to send.
    struct Pause {
      TimePoint since;
      std::uint64_t sent = 0;  // before it
      std::uint32_t retries = 0;
      std::uint32_t last_retries = 0;  // as last seen
      TimePoint last_retry;
      TimePoint progressed{};

      void Begin(TimePoint now, std::uint64_t bytes, std::uint32_t count) {
        *this = {now, bytes, count, count, now, bytes > sent ? now : progressed};
      }
      void SeeRetries(TimePoint now, std::uint32_t count) {
        if (count > last_retries) last_retry = now;
        last_retries = std::max(last_retries, count);
      }
      Duration SinceRetry(TimePoint now) const {
        return last_retries > retries ? now - last_retry : Duration::zero();
      }
    };
    Pause pause;
    struct Port {
      std::uint16_t source_port = 0;
      Pause pause;
    };
    std::vector<Port> ports;
    SourceEdges edges;  // of a source that does not tell them
    std::uint64_t edges_sent = 0;
    std::optional<EdgeFilter> filter;
  };

  // A flow that would be an elephant if there were a place.
  struct Waiting {
    wire::LocalFlowId id;
    std::uint64_t sent_bytes = 0;
    TimePoint sent;  // when it had last sent something; at first when it was first seen
  };
  struct Candidate {
    const FlowSample* sample = nullptr;
    History* history = nullptr;  // null: it has no place yet
    Waiting waiting;
    bool is_quiet = false;
    bool has_place = true;
  };

  bool IsElephant(const FlowSample& sample) const;
  // Measures the flow, and appends its history to `kept`.
  void Keep(TimePoint now, const FlowSample& sample, History* known, std::vector<History>& kept);
  std::vector<Candidate> FindCandidates(TimePoint now, std::span<const FlowSample> flows);
  void ShareOut(std::vector<Candidate>& candidates) const;
  static std::vector<PortMeasure> MeasurePorts(TimePoint now, const FlowSample& sample, bool idle,
                                               History& history);
  const Activity& MeasureActivity(TimePoint now, const FlowSample& sample, History& history) const;
  FlowMeasure MeasureOne(TimePoint now, const FlowSample& sample, History& history) const;

  bool IsWanted(const FlowSample& sample) const;

  const FlowMeterOptions options_;
  std::vector<wire::QueuePair> wanted_;
  std::vector<History> elephants_;  // ascending by id
  std::vector<Waiting> waiting_;    // the same
  std::vector<FlowMeasure> measures_;
  std::optional<TimePoint> window_start_;  // of all flows; none: nothing was measured yet
  Duration window_{};                      // since then, at the present Measure
};

}  // namespace espalier::agent
