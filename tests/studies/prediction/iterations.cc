#include "tests/studies/prediction/iterations.h"

#include <utility>

#include "common/base/random.h"
#include "controller/routing/fabric/fabric_view.h"

namespace espalier::offline {
namespace {

using controller::kNoPath;

constexpr std::int64_t kMillisecond = 1'000'000;

}  // namespace

Iterations::Iterations(const Workload& workload, const Workload& reversed,
                       const ReplayOptions& options)
    : workload_(workload), reversed_(reversed), options_(options), jobs_(workload.jobs().size()) {
  for (std::size_t j = 0; j < jobs_.size(); ++j) {
    jobs_[j].compute_ns = static_cast<double>(workload.jobs()[j].phases[0].compute_ns);
  }
}

double Iterations::Draw(std::uint32_t job, Purpose purpose, std::uint32_t subject) const {
  std::uint64_t value = options_.seed;
  for (const std::uint64_t part :
       {std::uint64_t{job}, static_cast<std::uint64_t>(jobs_[job].iteration),
        static_cast<std::uint64_t>(purpose), std::uint64_t{subject}}) {
    value = Random(value ^ part).Next();
  }
  return static_cast<double>(value >> 11U) * 0x1p-53;
}

std::int64_t Iterations::Vary(double ns, std::uint32_t job, Purpose purpose) const {
  const double part = 2 * Draw(job, purpose) - 1;
  return static_cast<std::int64_t>(ns * (1 + options_.disturbance.jitter * part));
}

std::int64_t Iterations::FirstStart(std::uint32_t j) const {
  const Job& job = workload_.jobs()[j];
  const double offset = Draw(j, Purpose::kOffset) * static_cast<double>(job.phases[0].compute_ns);
  return job.start_ns + static_cast<std::int64_t>(offset);
}

std::optional<std::vector<Iterations::FlowStart>> Iterations::Begin(std::uint32_t j,
                                                                    std::int64_t now) {
  JobRun& job = jobs_[j];
  const Phase& spec = workload_.jobs()[j].phases[0];
  if (++job.iteration > options_.iterations) return std::nullopt;
  job.began = now;
  job.is_announced = false;
  std::vector<FlowStart> starts;
  const std::int64_t later =
      Vary(static_cast<double>(options_.later_collective_ns), j, Purpose::kCollectiveOffset);
  const std::uint32_t first = workload_.FirstExchange(j, 0);
  for (std::uint32_t e = 0; e < spec.exchanges.size(); ++e) {
    const bool is_later = 2 * e >= spec.exchanges.size();
    for (const std::uint32_t f : workload_.exchanges()[first + e].flows) {
      double late = kMillisecond * Draw(j, Purpose::kFlowDelay, f);
      if (Draw(j, Purpose::kIsStraggler, f) < options_.disturbance.stragglers) {
        late += static_cast<double>(spec.compute_ns) / 3 * Draw(j, Purpose::kStragglerDelay, f);
      }
      ++job.open_flows;
      starts.push_back({now + static_cast<std::int64_t>(late) + (is_later ? later : 0), f});
    }
  }
  return starts;
}

std::optional<Iterations::End> Iterations::EndFlow(std::uint32_t j, std::int64_t now) {
  JobRun& job = jobs_[j];
  if (--job.open_flows > 0) return std::nullopt;
  job.compute_ns *= 1 + options_.disturbance.drift;
  return End{.took = now - job.began,
             .next = now + kMillisecond + Vary(job.compute_ns, j, Purpose::kCompute),
             .counts = Counts(j)};
}

bool Iterations::Announce(std::uint32_t job) {
  return !std::exchange(jobs_[job].is_announced, true);
}

const SimulatedFlow& Iterations::FlowAt(std::uint32_t f) const {
  const JobRun& job = jobs_[workload_.flows()[f].job];
  const bool is_reversed =
      options_.disturbance.changes_phase && job.iteration > options_.iterations / 2;
  return (is_reversed ? reversed_ : workload_).flows()[f];
}

std::int32_t Iterations::DrawPath(std::uint32_t f, std::size_t paths) const {
  if (paths == 0) return kNoPath;
  return static_cast<std::int32_t>(static_cast<double>(paths) *
                                   Draw(workload_.flows()[f].job, Purpose::kPath, f));
}

}  // namespace espalier::offline
