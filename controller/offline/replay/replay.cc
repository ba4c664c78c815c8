#include "controller/offline/replay/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <queue>
#include <tuple>
#include <utility>

#include "common/base/metrics.h"
#include "common/base/random.h"
#include "controller/offline/simulation/fluid_network.h"
#include "controller/offline/simulation/simulator.h"
#include "controller/placement/load_summary.h"
#include "controller/placement/placement.h"

namespace espalier::controller {
namespace {

constexpr std::int64_t kMillisecond = 1'000'000;
constexpr std::int64_t kReportNs = 200'000;  // until the controller knows, and its word is followed
constexpr std::int64_t kProgressNs = 50 * kMillisecond;
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

// One sending of a flow of the workload.
struct Sending {
  std::uint64_t serial = 0;  // its flow id; 0: it does not send
  std::optional<FlowSlot> slot;
  FluidNetwork::Transfer transfer = 0;
  std::int32_t path = kNoPath;
  std::int64_t began = 0;
  double bits = 0;
  bool is_sent = false;
  std::optional<TimePoint> forecast;
};

// What chance decides.
enum class Purpose : std::uint8_t { kOffset, kCompute, kLater, kLateness, kStraggles, kBy, kPath };

std::vector<double> Capacities(const fabric::Topology& topology) {
  std::vector<double> capacities;
  for (const fabric::Link& link : topology.links()) {
    capacities.insert(capacities.end(), 2, static_cast<double>(link.rate.value) / 1e9);
  }
  return capacities;
}

std::vector<Job> TurnedRound(std::vector<Job> jobs) {
  for (Job& job : jobs) {
    for (Ring& ring : job.rings) {
      for (Ring::Flow& flow : ring.flows) std::swap(flow.source, flow.destination);
    }
  }
  return jobs;
}

class Player {
 public:
  Player(const fabric::Topology& topology, const Workload& workload, const Workload& turned,
         const ReplayOptions& options)
      : workload_(workload),
        turned_(turned),
        options_(options),
        controller_options_{.plan_ahead = options.plan_ahead},
        state_(topology),
        learner_(state_.topology, state_.paths, state_.path_map, {}, metrics_),
        foresight_(state_, learner_, controller_options_, metrics_),
        placement_(state_, learner_, controller_options_),
        assigner_(state_.view),
        rates_(state_.view),
        network_(Capacities(topology)),
        sendings_(workload.flows().size()),
        jobs_(workload.jobs().size()),
        plan_pause_(kPlanPauseNs + kPlanFlowNs * static_cast<std::int64_t>(workload.flows().size() /
                                                                           jobs_.size())) {
    const auto counted = std::max(1, options.iterations - options.learning);
    const auto starts = workload.flows().size() * static_cast<std::size_t>(counted);
    check_every_ = std::max<std::int64_t>(
        1, static_cast<std::int64_t>(starts) / std::max(1, options.most_checks));
  }

  Result<ReplayOutcome> Run() {
    for (std::uint32_t j = 0; j < jobs_.size(); ++j) {
      // (Jobs do not begin in step.)
      const Job& job = workload_.jobs()[j];
      const double offset = Draw(j, Purpose::kOffset) * static_cast<double>(job.compute_ns);
      Push(job.start_ns + static_cast<std::int64_t>(offset), Event::Kind::kIterate, j);
      jobs_[j].compute_ns = static_cast<double>(workload_.jobs()[j].compute_ns);
    }
    Push(kProgressNs, Event::Kind::kProgress, 0);
    while (running_ > 0) {
      const auto end = network_.NextEnd();
      const bool ends_first = end && *end <= events_.top().time;
      now_ = ends_first ? *end : events_.top().time;
      if (ends_first) {
        for (const auto transfer : network_.TakeEnded(now_)) EndSending(flow_of_[transfer]);
      } else {
        const Event event = events_.top();
        events_.pop();
        Handle(event);
      }
      network_.Settle(now_);
      if (options_.is_cancelled()) return Fail(ErrorCode::kResourceExhausted, "interrupted");
    }
    outcome_.allreduce_seconds = total_seconds_ / static_cast<double>(counted_allreduces_);
    return std::move(outcome_);
  }

 private:
  struct JobRun {
    int iteration = 0;
    double compute_ns = 0;
    std::int64_t began = 0;
    std::size_t open_flows = 0;
    bool is_announced = false;  // the controller has heard of a flow of this iteration
  };

  void Push(std::int64_t time, Event::Kind kind, std::uint64_t subject, std::uint32_t flow = 0) {
    events_.push({time, kind, subject, flow});
  }
  // Uniform below 1. What is drawn for an iteration is the same whatever is decided before.
  double Draw(std::uint32_t job, Purpose purpose, std::uint32_t subject = 0) const {
    std::uint64_t value = options_.seed;
    for (const std::uint64_t part :
         {std::uint64_t{job}, static_cast<std::uint64_t>(jobs_[job].iteration),
          static_cast<std::uint64_t>(purpose), std::uint64_t{subject}}) {
      value = Random(value ^ part).Next();
    }
    return static_cast<double>(value >> 11U) * 0x1p-53;
  }
  std::int64_t Vary(double ns, std::uint32_t job, Purpose purpose) const {
    const double part = 2 * Draw(job, purpose) - 1;
    return static_cast<std::int64_t>(ns * (1 + options_.disturbance.jitter * part));
  }
  bool IsTurned(const JobRun& job) const {
    return options_.disturbance.changes_phase && job.iteration > options_.iterations / 2;
  }
  const SimulatedFlow& FlowAt(std::uint32_t f) const {
    const std::uint32_t job = workload_.flows()[f].job;
    return (IsTurned(jobs_[job]) ? turned_ : workload_).flows()[f];
  }
  bool Counts(std::uint32_t job) const { return jobs_[job].iteration > options_.learning; }

  void Handle(const Event& event) {
    switch (event.kind) {
      case Event::Kind::kIterate:
        return Iterate(static_cast<std::uint32_t>(event.subject));
      case Event::Kind::kStart:
        return Start(event.flow);
      case Event::Kind::kStartReport:
        return HandleStart(event.flow, event.subject);
      case Event::Kind::kEndReport:
        return HandleEnd(FlowSlot(static_cast<std::uint32_t>(event.subject)));
      case Event::Kind::kPlan:
        is_planning_ = foresight_.PlanNext(At(now_));
        if (is_planning_) Push(now_ + plan_pause_, Event::Kind::kPlan, 0);
        return;
      case Event::Kind::kProgress:
        return TellProgress();
    }
  }

  void Iterate(std::uint32_t j) {
    JobRun& job = jobs_[j];
    const Job& spec = workload_.jobs()[j];
    if (++job.iteration > options_.iterations) {
      --running_;
      return;
    }
    job.began = now_;
    job.is_announced = false;
    const std::int64_t later =
        Vary(static_cast<double>(options_.later_collective_ns), j, Purpose::kLater);
    for (std::uint32_t r = 0; r < spec.rings.size(); ++r) {
      const bool is_later = 2 * r >= spec.rings.size();
      for (std::uint32_t i = 0; i < spec.rings[r].flows.size(); ++i) {
        const std::uint32_t f = workload_.FirstFlow(j, r) + i;
        double late = kMillisecond * Draw(j, Purpose::kLateness, f);
        if (Draw(j, Purpose::kStraggles, f) < options_.disturbance.stragglers) {
          late += static_cast<double>(spec.compute_ns) / 3 * Draw(j, Purpose::kBy, f);
        }
        ++job.open_flows;
        const std::int64_t start = now_ + static_cast<std::int64_t>(late) + (is_later ? later : 0);
        Push(start, Event::Kind::kStart, next_serial_++, f);
      }
    }
  }

  void Start(std::uint32_t f) {
    const SimulatedFlow& flow = FlowAt(f);
    const Ring& ring = workload_.jobs()[flow.job].rings[flow.ring];
    Sending& sending = sendings_[f];
    sending = {.serial = next_serial_++,
               .began = now_,
               .bits = 8.0 * static_cast<double>(ring.round_bytes) * ring.Rounds()};
    const auto paths = static_cast<double>(PathsOf(flow).size());
    sending.path =
        paths > 0 ? static_cast<std::int32_t>(paths * Draw(flow.job, Purpose::kPath, f)) : kNoPath;
    Send(f, sending.bits);
    Push(now_ + kReportNs, Event::Kind::kStartReport, sending.serial, f);
  }

  std::span<const fabric::Path> PathsOf(const SimulatedFlow& flow) {
    if (flow.source_attachment.leaf == flow.destination_attachment.leaf) return {};
    return state_.paths.Between(flow.source_attachment.leaf, flow.destination_attachment.leaf);
  }

  void Send(std::uint32_t f, double bits) {
    const SimulatedFlow& flow = FlowAt(f);
    Sending& sending = sendings_[f];
    fabric::DirectedLink downlink = flow.destination_attachment.uplink;
    downlink.forward = !downlink.forward;
    std::vector<std::uint32_t> links{
        static_cast<std::uint32_t>(flow.source_attachment.uplink.Index()),
        static_cast<std::uint32_t>(downlink.Index())};
    if (sending.path != kNoPath) {
      for (const auto hop : PathsOf(flow)[static_cast<std::size_t>(sending.path)].hops) {
        links.push_back(static_cast<std::uint32_t>(hop.Index()));
      }
    }
    sending.transfer = network_.Add(links, 1, bits);
    if (flow_of_.size() <= sending.transfer) flow_of_.resize(sending.transfer + 1);
    flow_of_[sending.transfer] = f;
  }

  void EndSending(std::uint32_t f) {
    Sending& sending = sendings_[f];
    sending.is_sent = true;
    const std::uint32_t j = workload_.flows()[f].job;
    JobRun& job = jobs_[j];
    if (sending.forecast && Counts(j)) {
      outcome_.end_error_seconds.push_back(SecondsBetween(*sending.forecast, At(now_)));
    }
    if (sending.slot) Push(now_ + kReportNs, Event::Kind::kEndReport, sending.slot->value());
    if (--job.open_flows > 0) return;
    if (Counts(j)) {
      total_seconds_ += static_cast<double>(now_ - job.began) * kNanosecond;
      ++counted_allreduces_;
    }
    job.compute_ns *= 1 + options_.disturbance.drift;
    Push(now_ + kMillisecond + Vary(job.compute_ns, j, Purpose::kCompute), Event::Kind::kIterate,
         j);
  }

  void HandleStart(std::uint32_t f, std::uint64_t serial) {
    const SimulatedFlow& flow = FlowAt(f);
    NoteFirst(flow.job);
    const FlowSlot slot = Open(flow, serial);
    Sending& sending = sendings_[f];
    if (sending.is_sent || sending.serial != serial) {
      Push(now_, Event::Kind::kEndReport, slot.value());  // short: it has ended before it was known
    } else {
      sending.slot = slot;
    }
    owner_.resize(std::max<std::size_t>(owner_.size(), slot.Index() + 1));
    owner_[slot.Index()] = f;
    const std::vector<FlowSlot> opened{slot};
    foresight_.HandleStarts(opened, At(now_));
    const auto placed = placement_.PlaceNew(foresight_, controller_options_.moves_per_start);
    Follow();
    RequestPlans();
    if (state_.flows.At(slot).ways.empty() || !Counts(flow.job)) return;
    ++outcome_.starts;
    outcome_.planned += static_cast<std::int64_t>(placed.planned);
    if (outcome_.starts % check_every_ == 0) Compare(placed.planned > 0);
  }

  // The first flow of an iteration that the controller hears of.
  void NoteFirst(std::uint32_t j) {
    if (std::exchange(jobs_[j].is_announced, true) || !options_.plan_ahead || !Counts(j)) return;
    for (const Foresight::JobView& view : foresight_.Jobs()) {
      if (view.job != workload_.jobs()[j].id || !view.next_start) continue;
      outcome_.start_error_seconds.push_back(SecondsBetween(*view.next_start, At(now_)));
    }
  }

  FlowSlot Open(const SimulatedFlow& simulated, std::uint64_t serial) {
    const fabric::Topology& topology = state_.topology;
    const fabric::Node& source = topology.node(simulated.source);
    Flow flow;
    flow.agent = state_.agents.Intern(fabric::HostOf(source));
    flow.local = wire::LocalFlowId(serial);
    flow.job = state_.flows.JobIndex(workload_.jobs()[simulated.job].id, flow.agent);
    flow.source_address = source.addresses.front();
    flow.destination_address = topology.node(simulated.destination).addresses.front();
    flow.protocol = wire::kProtocolUdp;
    flow.key.destination_port = wire::kRoceV2Port;
    const FlowSlot slot = state_.flows.Open(std::move(flow));
    placement_.Admit(slot, {});
    return slot;
  }

  void HandleEnd(FlowSlot slot) {
    foresight_.HandleEnd(slot, At(now_));
    placement_.Release(slot);
    state_.flows.Close(slot);
    RequestPlans();
  }

  void RequestPlans() {
    if (!options_.plan_ahead || std::exchange(is_planning_, true)) return;
    Push(now_ + plan_pause_, Event::Kind::kPlan, 0);
  }

  // Flows whose path has changed go on over it.
  void Follow() {
    for (const FlowSlot slot : state_.flows.All()) {
      const Flow& flow = state_.flows.At(slot);
      Sending& sending = sendings_[owner_[slot.Index()]];
      if (sending.slot != slot || sending.is_sent || flow.ways.empty()) continue;
      const auto path = state_.flow_paths.PathOf(flow.ways.front());
      if (!path || path->value() == sending.path) continue;
      const double left = network_.Remove(sending.transfer, now_);
      sending.path = path->value();
      Send(owner_[slot.Index()], std::max(left, 1e-3));
    }
  }

  void TellProgress() {
    Push(now_ + kProgressNs, Event::Kind::kProgress, 0);
    foresight_.PassTime(At(now_));
    for (const FlowSlot slot : state_.flows.All()) {
      Sending& sending = sendings_[owner_[slot.Index()]];
      if (sending.slot != slot || sending.is_sent) continue;
      const double left = network_.Left(sending.transfer, now_);
      const Flow& flow = state_.flows.At(slot);
      const std::vector<wire::FlowProgress> progress{
          {.id = flow.local, .remaining_bytes = static_cast<std::uint64_t>(left / 8)}};
      foresight_.HandleProgress(state_.flows.TakeProgress(flow.agent, progress, At(now_)).due,
                                At(now_));
      if (sending.forecast || 2 * left > sending.bits) continue;
      if (const auto forecast = foresight_.EndOf(slot)) sending.forecast = forecast->expected;
    }
    RequestPlans();
  }

  // Is what is there as good as all flows assigned anew?
  void Compare(bool is_planned) {
    std::vector<FlowSlot> slots = state_.flows.All();
    std::erase_if(slots, [&](FlowSlot slot) { return !state_.HasPaths(state_.flows.At(slot)); });
    const Elephants elephants = DescribeElephants(state_, slots);
    const Assignment present = CurrentPaths(state_, elephants);
    const Assignment& fresh = assigner_.Optimal(elephants.commodities);
    const auto score = [&](const Assignment& assignment) {
      Score of = ComputeScore(elephants.commodities,
                              rates_.Predict(elephants.commodities, assignment), {}, false);
      of.total_rate = 0;
      return of;
    };
    ++outcome_.checks;
    outcome_.checked_planned += is_planned ? 1 : 0;
    if (options_.plan_ahead && !is_planned) return;
    if (fresh.max_load < present.max_load) return;
    ++outcome_.least_load;
    const Score of_present = score(present);
    if (!IsBetter(score(fresh), of_present)) ++outcome_.as_good;
  }

  const Workload& workload_;
  const Workload& turned_;
  const ReplayOptions& options_;
  Metrics metrics_;
  const ControllerOptions controller_options_;
  State state_;
  PathLearner learner_;
  Foresight foresight_;
  Placement placement_;
  Assigner assigner_;
  RatePredictor rates_;
  FluidNetwork network_;
  std::vector<Sending> sendings_;  // by flow of the workload
  std::vector<JobRun> jobs_;
  std::size_t running_ = jobs_.size();
  std::vector<std::uint32_t> flow_of_;  // by transfer
  std::vector<std::uint32_t> owner_;    // flow of the workload, by slot
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
                fmt::format("{} iterations: more than {} are needed, which go into learning",
                            options.iterations, options.learning));
  }
  auto turned = Workload::Build(topology, TurnedRound(jobs));
  if (!turned) return Propagate(turned);
  auto workload = Workload::Build(topology, std::move(jobs));
  if (!workload) return Propagate(workload);
  return Player(topology, *workload, *turned, options).Run();
}

}  // namespace espalier::controller
