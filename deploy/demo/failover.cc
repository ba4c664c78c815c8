#include "deploy/demo/failover.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "deploy/demo/telemetry_feed.h"
#include "deploy/lab/link_faults.h"
#include "deploy/lab/run_traffic.h"

namespace espalier::demo {
namespace {

using namespace std::chrono_literals;

constexpr auto kTimeLimit = 120s;
constexpr auto kFailureAt = 700ms;
constexpr auto kPatience = 30s;
constexpr auto kPollInterval = 5ms;

struct BusyLink {
  std::string id;
  int flows = 0;  // downwards
};

// Finds the link of this kind with the most flows downwards.
Result<BusyLink> BusiestFarLink(const LabDaemons& daemons, FarLink kind) {
  Result<io::JsonValue> answer = daemons.Get("/api/v1/links");
  if (!answer) return Propagate(answer);
  BusyLink busiest;
  const auto is_of_kind = [&](const io::JsonValue& link) {
    return kind == FarLink::kToLeaf
               ? link.Find("a")->text.starts_with("leaf") && !link.Find("b")->text.starts_with("h")
               : link.Find("b")->text.starts_with("core");
  };
  for (const io::JsonValue& link : answer->Find("links")->items) {
    const int flows = std::stoi(link.Find("flows_b_to_a")->text);
    if (is_of_kind(link) && flows > busiest.flows) {
      busiest = {link.Find("id")->text, flows};
    }
  }
  if (busiest.id.empty()) return Fail(ErrorCode::kFailedPrecondition, "no link carries a flow");
  return busiest;
}

// The number of flows on a link, in both directions.
Result<int> FlowsOn(const LabDaemons& daemons, const std::string& id) {
  Result<io::JsonValue> answer = daemons.Get("/api/v1/links");
  if (!answer) return Propagate(answer);
  for (const io::JsonValue& link : answer->Find("links")->items) {
    if (link.Find("id")->text != id) continue;
    return std::stoi(link.Find("flows_a_to_b")->text) + std::stoi(link.Find("flows_b_to_a")->text);
  }
  return Fail(ErrorCode::kNotFound, id);
}

// Waits until the controller has no flow on the link and all agents have acknowledged that.
Result<void> AwaitMoved(const LabDaemons& daemons, const std::string& link) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (true) {
    Result<int> flows = FlowsOn(daemons, link);
    if (!flows) return Propagate(flows);
    if (*flows == 0) return daemons.AwaitAcknowledged(kPatience);
    if (std::chrono::steady_clock::now() > deadline) {
      return Fail(ErrorCode::kUnavailable, fmt::format("{} flows stay on {}", *flows, link));
    }
    std::this_thread::sleep_for(kPollInterval);
  }
}

// Whether two flows share a direction of a link between switches; none while no link has a flow.
std::optional<bool> SharesALink(const LabDaemons& daemons) {
  const Result<io::JsonValue> answer = daemons.Get("/api/v1/links");
  if (!answer) return std::nullopt;
  int most = 0;
  for (const io::JsonValue& link : answer->Find("links")->items) {
    if (link.Find("b")->text.starts_with("leaf")) continue;  // to a host
    for (const char* const direction : {"flows_a_to_b", "flows_b_to_a"}) {
      most = std::max(most, std::stoi(link.Find(direction)->text));
    }
  }
  if (most == 0) return std::nullopt;
  return most > 1;
}

// Counts what agents have told of flows that recovered (RecoveryWatch), by the controller's events
// after this one.
Result<void> CountRecoveries(const LabDaemons& daemons, std::int64_t after,
                             FailureFigures& failure) {
  constexpr std::string_view kSeconds = "seconds_after_move=";
  Result<io::JsonValue> answer = daemons.Get(fmt::format("/api/v1/events?after={}", after));
  if (!answer) return Propagate(answer);
  for (const io::JsonValue& event : answer->Find("events")->items) {
    if (event.Find("kind")->text != "flow_recovered") continue;
    const std::string& text = event.Find("text")->text;
    const std::size_t at = text.find(kSeconds);
    if (at == std::string::npos) continue;
    ++failure.flows_recovered;
    failure.slowest_recovery_seconds =
        std::max(failure.slowest_recovery_seconds, std::stod(text.substr(at + kSeconds.size())));
  }
  return {};
}

// The number of the controller's latest event.
Result<std::int64_t> LatestEvent(const LabDaemons& daemons) {
  Result<io::JsonValue> answer = daemons.Get("/api/v1/events");
  if (!answer) return Propagate(answer);
  const std::vector<io::JsonValue>& events = answer->Find("events")->items;
  return events.empty() ? 0 : std::stoll(events.back().Find("sequence")->text);
}

Result<void> BreakLink(const lab::Lab& lab, const LabDaemons& daemons, Detection detection,
                       FarLink kind, FailureFigures& failure) {
  Result<BusyLink> link = BusiestFarLink(daemons, kind);
  if (!link) return Propagate(link);
  failure.link = link->id;
  Result<int> flows = FlowsOn(daemons, link->id);
  if (!flows) return Propagate(flows);
  failure.flows_on_link = *flows;
  auto start = std::chrono::steady_clock::now();
  Result<bool> broken = lab::FailLink(lab, link->id);
  if (!broken) return Propagate(broken);
  if (detection == Detection::kOperator) {
    start = std::chrono::steady_clock::now();
    Result<io::JsonValue> outcome = daemons.Post("/api/v1/links/fail?id=" + link->id);
    if (!outcome) return Propagate(outcome);
    failure.moved_by_operator = std::stoi(outcome->Find("moved")->text);
  }
  Result<void> moved = AwaitMoved(daemons, link->id);
  if (!moved) return moved;
  failure.seconds_to_move =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  failure.flows_moved = failure.flows_on_link;
  return {};
}

}  // namespace

Result<Experiment> MakeRingsWithRoom(const lab::LabLayout& layout, int epochs) {
  return MakeRingJobs(layout, {.name = "rings-with-room",
                               .stages = std::max(1, layout.options().spines - 1),
                               .epochs = epochs});
}

Result<FailureFigures> RunWithFailure(const lab::Lab& lab, const Experiment& experiment,
                                      std::uint64_t seed, const LabDaemons& daemons,
                                      Detection detection, FarLink kind) {
  std::optional<TelemetryFeed> feed;
  if (detection == Detection::kFeed) {
    Result<TelemetryFeed> started = TelemetryFeed::Start(lab, daemons);
    if (!started) return Propagate(started);
    feed.emplace(std::move(*started));
  }
  FailureFigures failure;
  Result<void> broken = Fail(ErrorCode::kFailedPrecondition, "the job ended before the failure");
  bool tried = false;
  Result<std::int64_t> latest_event = LatestEvent(daemons);
  if (!latest_event) return Propagate(latest_event);
  lab::TrafficOptions options;
  options.seed = seed;
  options.use_agents = true;
  options.time_limit = kTimeLimit;
  options.on_running = [&](std::chrono::nanoseconds elapsed) {
    if (elapsed < kFailureAt) return;
    if (tried) {
      const std::optional<bool> shares = broken ? SharesALink(daemons) : std::nullopt;
      if (shares) ++failure.polls;
      if (shares.value_or(false)) ++failure.polls_with_shared_link;
      return;
    }
    tried = true;
    broken = BreakLink(lab, daemons, detection, kind, failure);
  };
  auto result = lab::RunTraffic(lab, experiment.workload, options);
  if (!failure.link.empty()) {
    Result<bool> restored = lab::RestoreLink(lab, failure.link);
    if (!restored) return Propagate(restored);
    if (failure.moved_by_operator) {
      Result<io::JsonValue> told = daemons.Post("/api/v1/links/restore?id=" + failure.link);
      if (!told) return Propagate(told);
    }
  }
  if (!result) return Propagate(result);
  if (!broken) return Propagate(broken);
  Result<void> counted = CountRecoveries(daemons, *latest_event, failure);
  if (!counted) return Propagate(counted);
  failure.job_completed = result->completed;
  failure.seconds = result->seconds;
  failure.dead_flows =
      static_cast<int>(std::count_if(result->flows.begin(), result->flows.end(),
                                     [](const lab::FlowOutcome& flow) { return !flow.IsWhole(); }));
  return failure;
}

}  // namespace espalier::demo
