#include "tests/studies/prediction/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <queue>
#include <tuple>
#include <utility>

#include "controller/offline/simulation/simulator.h"
#include "tests/studies/prediction/iterations.h"
#include "tests/studies/prediction/senders.h"
#include "tests/studies/prediction/steered_flows.h"

namespace espalier::offline {
namespace {

using controller::FlowSlot;

constexpr std::int64_t kReportNs =
    200'000;  // until the controller knows a change, and its path takes effect
constexpr std::int64_t kProgressNs = 50'000'000;
constexpr std::int64_t kPlanPauseNs = 50'000;
constexpr std::int64_t kPlanFlowNs = 8'000;
constexpr double kNanosecond = 1e-9;

TimePoint At(std::int64_t ns) { return TimePoint(std::chrono::hours(1) + Duration(ns)); }
double SecondsBetween(TimePoint a, TimePoint b) {
  return std::abs(std::chrono::duration<double>(a - b).count());
}

struct Event {
  enum class Kind : std::uint8_t { kProgress, kEndReport, kStart, kStartReport, kPlan, kIterate };
  std::int64_t time = 0;
  Kind kind = Kind::kProgress;
  std::uint64_t subject = 0;  // a flow's serial number, or a job
  std::uint32_t flow = 0;     // of the workload

  bool operator>(const Event& other) const {
    return std::tie(time, kind, subject) > std::tie(other.time, other.kind, other.subject);
  }
};

std::vector<Job> WithReversedRings(std::vector<Job> jobs) {
  for (Job& job : jobs) {
    for (Phase& phase : job.phases) {
      for (Exchange& exchange : phase.exchanges) {
        for (Exchange::Flow& flow : exchange.flows) std::swap(flow.source, flow.destination);
      }
    }
  }
  return jobs;
}

// Runs the events: starts and ends flows, reports them to the controller, and follows its paths.
class Player {
 public:
  Player(const fabric::Topology& topology, const Workload& workload, const Workload& reversed,
         const ReplayOptions& options)
      : workload_(workload),
        options_(options),
        iterations_(workload, reversed, options),
        steered_(topology, options.plan_ahead),
        senders_(topology, steered_.paths(), workload.flows().size()),
        known_(workload.flows().size()),
        running_(workload.jobs().size()),
        plan_pause_(kPlanPauseNs +
                    kPlanFlowNs * static_cast<std::int64_t>(workload.flows().size() / running_)) {
    const auto counted = std::max(1, options.iterations - options.learning);
    const auto starts = workload.flows().size() * static_cast<std::size_t>(counted);
    check_every_ = std::max<std::int64_t>(
        1, static_cast<std::int64_t>(starts) / std::max(1, options.most_checks));
  }

  Result<ReplayOutcome> Run() {
    for (std::uint32_t j = 0; j < running_; ++j) {
      Push(iterations_.FirstStart(j), Event::Kind::kIterate, j);
    }
    Push(kProgressNs, Event::Kind::kProgress, 0);
    while (running_ > 0) {
      const auto end = senders_.NextEnd();
      const bool ends_first = end && *end <= events_.top().time;
      now_ = ends_first ? *end : events_.top().time;
      if (ends_first) {
        for (const std::uint32_t flow : senders_.TakeEnded(now_)) EndSending(flow);
      } else {
        const Event event = events_.top();
        events_.pop();
        Handle(event);
      }
      senders_.Settle(now_);
      if (options_.is_cancelled()) return Fail(ErrorCode::kResourceExhausted, "interrupted");
    }
    outcome_.allreduce_seconds = total_seconds_ / static_cast<double>(counted_allreduces_);
    return std::move(outcome_);
  }

 private:
  // The controller's knowledge of a flow's present transfer.
  struct Known {
    std::optional<FlowSlot> slot;
    std::optional<TimePoint> forecast;  // the end estimate
  };

  void Push(std::int64_t time, Event::Kind kind, std::uint64_t subject, std::uint32_t flow = 0) {
    events_.push({time, kind, subject, flow});
  }

  void Handle(const Event& event) {
    switch (event.kind) {
      case Event::Kind::kIterate:
        return Iterate(static_cast<std::uint32_t>(event.subject));
      case Event::Kind::kStart:
        return Start(event.flow);
      case Event::Kind::kStartReport:
        return HandleStart(event.flow, event.subject);
      case Event::Kind::kEndReport:
        steered_.Close(FlowSlot(static_cast<std::uint32_t>(event.subject)), At(now_));
        return RequestPlans();
      case Event::Kind::kPlan:
        is_planning_ = steered_.PlanNext(At(now_));
        if (is_planning_) Push(now_ + plan_pause_, Event::Kind::kPlan, 0);
        return;
      case Event::Kind::kProgress:
        return TellProgress();
    }
  }

  void Iterate(std::uint32_t job) {
    const auto starts = iterations_.Begin(job, now_);
    if (!starts) {
      --running_;
      return;
    }
    for (const auto& start : *starts) {
      Push(start.time, Event::Kind::kStart, next_serial_++, start.flow);
    }
  }

  void Start(std::uint32_t f) {
    const SimulatedFlow& flow = iterations_.FlowAt(f);
    const Exchange& exchange = workload_.jobs()[flow.job].phases[0].exchanges[flow.exchange];
    known_[f] = {};
    senders_.Start(f, flow, next_serial_,
                   8.0 * static_cast<double>(exchange.round_bytes) * exchange.rounds,
                   iterations_.DrawPath(f, senders_.PathsOf(flow).size()));
    Push(now_ + kReportNs, Event::Kind::kStartReport, next_serial_++, f);
  }

  void EndSending(std::uint32_t f) {
    const std::uint32_t j = workload_.flows()[f].job;
    const auto& [slot, forecast] = known_[f];
    if (forecast && iterations_.Counts(j)) {
      outcome_.end_error_seconds.push_back(SecondsBetween(*forecast, At(now_)));
    }
    if (slot) Push(now_ + kReportNs, Event::Kind::kEndReport, slot->value());
    const auto end = iterations_.EndFlow(j, now_);
    if (!end) return;
    if (end->counts) {
      total_seconds_ += static_cast<double>(end->took) * kNanosecond;
      ++counted_allreduces_;
    }
    Push(end->next, Event::Kind::kIterate, j);
  }

  void HandleStart(std::uint32_t f, std::uint64_t serial) {
    const SimulatedFlow& flow = iterations_.FlowAt(f);
    const bool counts = iterations_.Counts(flow.job);
    const std::string& job = workload_.jobs()[flow.job].id;
    if (iterations_.Announce(flow.job) && options_.plan_ahead && counts) {
      const auto expected = steered_.NextStartOf(job);
      if (expected) outcome_.start_error_seconds.push_back(SecondsBetween(*expected, At(now_)));
    }
    const SteeredFlows::Opened opened = steered_.Open(flow, job, serial, At(now_));
    if (senders_.At(f).is_sent || senders_.At(f).serial != serial) {
      // A short flow has ended before the controller knew it.
      Push(now_, Event::Kind::kEndReport, opened.slot.value());
    } else {
      known_[f].slot = opened.slot;
    }
    owner_.resize(std::max<std::size_t>(owner_.size(), opened.slot.Index() + 1));
    owner_[opened.slot.Index()] = f;
    Follow();
    RequestPlans();
    if (!opened.has_path || !counts) return;
    ++outcome_.starts;
    outcome_.planned += static_cast<std::int64_t>(opened.planned);
    if (outcome_.starts % check_every_ == 0) Compare(opened.planned > 0);
  }

  void RequestPlans() {
    if (!options_.plan_ahead || std::exchange(is_planning_, true)) return;
    Push(now_ + plan_pause_, Event::Kind::kPlan, 0);
  }

  // Whether the flow in the slot still sends.
  bool Sends(FlowSlot slot) const {
    const std::uint32_t f = owner_[slot.Index()];
    return known_[f].slot == slot && !senders_.At(f).is_sent;
  }

  // Moves the flows whose path has changed to the new one.
  void Follow() {
    for (const FlowSlot slot : steered_.All()) {
      if (!Sends(slot)) continue;
      const std::uint32_t f = owner_[slot.Index()];
      const auto path = steered_.PathOf(slot);
      if (path && *path != senders_.At(f).path) {
        senders_.Reroute(f, iterations_.FlowAt(f), *path, now_);
      }
    }
  }

  void TellProgress() {
    Push(now_ + kProgressNs, Event::Kind::kProgress, 0);
    steered_.Tick(At(now_));
    for (const FlowSlot slot : steered_.All()) {
      if (!Sends(slot)) continue;
      const std::uint32_t f = owner_[slot.Index()];
      const double left = senders_.Left(f, now_);
      const double sent = senders_.At(f).bits - left;
      steered_.TakeProgress(slot, static_cast<std::uint64_t>(left / 8),
                            static_cast<std::uint64_t>(sent / 8), At(now_));
      auto& forecast = known_[f].forecast;
      if (!forecast && 2 * left <= senders_.At(f).bits) forecast = steered_.EndOf(slot);
    }
    RequestPlans();
  }

  // Compares the present assignment with one from scratch.
  void Compare(bool is_planned) {
    ++outcome_.checks;
    outcome_.checked_planned += is_planned ? 1 : 0;
    if (options_.plan_ahead && !is_planned) return;
    const auto comparison = steered_.CompareWithFromScratch();
    outcome_.least_load += comparison.least_load ? 1 : 0;
    outcome_.as_good += comparison.as_good ? 1 : 0;
  }

  const Workload& workload_;
  const ReplayOptions& options_;
  Iterations iterations_;
  SteeredFlows steered_;
  Senders senders_;
  std::vector<Known> known_;          // by flow of the workload
  std::vector<std::uint32_t> owner_;  // flow of the workload, by slot
  std::size_t running_;               // jobs
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::int64_t now_ = 0;
  const std::int64_t plan_pause_;
  std::uint64_t next_serial_ = 1;
  bool is_planning_ = false;
  std::int64_t check_every_ = 1;
  double total_seconds_ = 0;
  std::int64_t counted_allreduces_ = 0;
  ReplayOutcome outcome_;
};

}  // namespace

Result<ReplayOutcome> Replay(const fabric::Topology& topology, std::vector<Job> jobs,
                             const ReplayOptions& options) {
  if (options.iterations <= options.learning) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} iterations are too few (give more than the {} learning iterations)",
                            options.iterations, options.learning));
  }
  for (const Job& job : jobs) {
    if (job.phases.size() <= 1) continue;
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("job {} has {} phases, but predictions are replayed for one (play it "
                            "with espalier simulate)",
                            job.id, job.phases.size()));
  }
  auto reversed = Workload::Build(topology, WithReversedRings(jobs));
  if (!reversed) return Propagate(reversed);
  auto workload = Workload::Build(topology, std::move(jobs));
  if (!workload) return Propagate(workload);
  return Player(topology, *workload, *reversed, options).Run();
}

}  // namespace espalier::offline
