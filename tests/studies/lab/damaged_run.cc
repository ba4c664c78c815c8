#include "tests/studies/lab/damaged_run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "deploy/demo/main_job.h"
#include "deploy/demo/telemetry_feed.h"
#include "deploy/lab/run_traffic.h"
#include "tests/studies/lab/unsteered_flows.h"

namespace espalier::demo {
namespace {

using namespace std::chrono_literals;

constexpr auto kTimeLimit = 60s;
constexpr auto kDamageAt = 400ms;
constexpr auto kSteeredWithin = 30s;
constexpr auto kLoadInterval = 100ms;  // of the switches' reports

// Whether so many flows have their paths and standby paths.
bool AreReady(const LabDaemons& daemons, std::size_t flows) {
  const Result<io::JsonValue> answer = daemons.Get("/api/v1/flows");
  if (!answer || answer->Find("flows")->items.size() < flows) return false;
  return std::ranges::all_of(answer->Find("flows")->items, [](const io::JsonValue& flow) {
    return flow.Find("status")->text == "ROUTED" &&
           std::ranges::all_of(flow.Find("paths")->items, [](const io::JsonValue& path) {
             return path.Find("standby_port")->text != "0";
           });
  });
}

// The permutation with what is beside it. Sets the numbers of flows, and the ideal.
Result<traffic::Workload> MakeWorkload(const lab::LabLayout& layout, const DamageCase& what,
                                       std::uint64_t seed, DamageFigures& figures) {
  auto experiment = what.ring_epochs == 0
                        ? MakePermutation(layout)
                        : MakeRingJobs(layout, {.name = "rings",
                                                .jobs = layout.options().hosts_per_leaf,
                                                .epochs = what.ring_epochs});
  if (!experiment) return Propagate(experiment);
  if (what.ring_epochs > 0) {
    figures.ideal_seconds = experiment->ideal.allreduce_seconds.begin()->second;
    return std::move(experiment->workload);
  }
  traffic::Workload& workload = experiment->workload;
  for (traffic::SingleFlow& flow : workload.flows) flow.paths = what.paths;
  figures.ideal_seconds =
      experiment->ideal.slowest_flow_seconds / PartLeft(what.damage, layout.options().spines);
  figures.flows = static_cast<int>(workload.flows.size());
  figures.unknown_flows = HideFlows(workload, what.unknown_percent, seed);
  MiceShape mice{.nics_per_leaf = layout.options().hosts_per_leaf,
                 .percent = what.mice_percent,
                 .seconds = figures.ideal_seconds};
  for (int nic = 0; nic < layout.NicCount(); ++nic) mice.nics.push_back(layout.NicName(nic));
  figures.mice = AddMice(workload, mice, seed);
  return std::move(workload);
}

void SetTimes(const lab::TrafficResult& result, DamageFigures& figures) {
  std::vector<double> mice;
  for (const lab::FlowOutcome& flow : result.flows) {
    if (!flow.IsWhole()) ++figures.hanging_flows;
    if (flow.plan.job == kMiceJob) {
      mice.push_back(flow.Seconds());
      continue;
    }
    figures.slowest_seconds = std::max(figures.slowest_seconds, flow.Seconds());
    if (!flow.plan.announced) continue;
    figures.slowest_known_seconds = std::max(figures.slowest_known_seconds, flow.Seconds());
  }
  if (mice.empty()) return;
  std::ranges::sort(mice);
  figures.mice_p99_seconds = mice[(99 * mice.size() + 99) / 100 - 1];
}

void SetJobTimes(const lab::TrafficResult& result, DamageFigures& figures) {
  for (const lab::JobOutcome& job : result.jobs) {
    const auto half = static_cast<std::ptrdiff_t>(job.epoch_seconds.size() / 2);
    const auto begin = job.epoch_seconds.begin();
    const double mean = std::accumulate(begin, begin + half, 0.0) / static_cast<double>(half);
    const double times = mean / figures.ideal_seconds;
    figures.slowest_job = std::max(figures.slowest_job, times);
    figures.mean_job += times / static_cast<double>(result.jobs.size());
  }
}

void CountRecoveries(const LabDaemons& daemons, DamageFigures& figures) {
  constexpr std::string_view kSeconds = "seconds_after_move=";
  const Result<io::JsonValue> answer = daemons.Get("/api/v1/events");
  if (!answer) return;  // the controller was killed
  for (const io::JsonValue& event : answer->Find("events")->items) {
    if (event.Find("kind")->text != "flow_recovered") continue;
    const std::string& text = event.Find("text")->text;
    const std::size_t at = text.find(kSeconds);
    if (at == std::string::npos) continue;
    ++figures.recovered_flows;
    figures.slowest_recovery_seconds =
        std::max(figures.slowest_recovery_seconds, std::stod(text.substr(at + kSeconds.size())));
  }
}

}  // namespace

Result<DamageFigures> RunWithDamage(const lab::Lab& lab, const DamageCase& what, std::uint64_t seed,
                                    LabDaemons* daemons) {
  DamageFigures figures;
  auto workload = MakeWorkload(lab.layout(), what, seed, figures);
  if (!workload) return Propagate(workload);
  if (Result<void> done = DamageBefore(lab, what.damage, daemons); !done) return Propagate(done);
  std::optional<TelemetryFeed> feed;
  if (what.feeds_loads && daemons != nullptr) {
    auto started = TelemetryFeed::Start(lab, *daemons, kLoadInterval);
    if (!started) return Propagate(started);
    feed.emplace(std::move(*started));
  }

  const bool happens_later = HappensLater(what.damage);
  const auto known = static_cast<std::size_t>(figures.flows - figures.unknown_flows);
  std::optional<Result<PacketLoss>> loss;
  const auto begin = std::chrono::steady_clock::now();
  lab::TrafficOptions options{
      .seed = seed, .use_agents = daemons != nullptr, .time_limit = kTimeLimit};
  options.on_running = [&](std::chrono::nanoseconds elapsed) {
    if (loss || !happens_later || elapsed < kDamageAt) return;
    const bool may_wait = std::chrono::steady_clock::now() - begin < kSteeredWithin;
    if (daemons != nullptr && may_wait && !AreReady(*daemons, known)) return;
    if (what.kills_controller && daemons != nullptr) daemons->KillController();
    loss.emplace(PacketLoss::Begin(lab, what.damage));
  };
  auto result = lab::RunTraffic(lab, *workload, options);
  if (!result) return Propagate(result);
  if (loss && !loss->has_value()) return Propagate(*loss);
  if (happens_later && !loss) {
    return Fail(ErrorCode::kFailedPrecondition, "the flows ended before the damage");
  }
  SetTimes(*result, figures);
  if (what.ring_epochs > 0) SetJobTimes(*result, figures);
  if (daemons != nullptr) CountRecoveries(*daemons, figures);
  return figures;
}

}  // namespace espalier::demo
