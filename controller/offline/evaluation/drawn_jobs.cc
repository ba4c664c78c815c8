#include "controller/offline/evaluation/drawn_jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "common/base/random.h"
#include "controller/offline/simulation/model_jobs.h"

namespace espalier::offline {
namespace {

constexpr const char* kModels[] = {"bloom", "gpt3", "llama"};
constexpr int kHostsOfAToR = 16;  // that a job has together
constexpr int kEpochs = 11;
constexpr int kMostDraws = 1000;

// Leaves the all-reduce, the last phase, after the computation of all. Models are named as in the
// authors' files.
void KeepAllReduce(Job& job) {
  std::ranges::replace(job.model, '-', '_');
  std::int64_t compute_ns = 0;
  for (const Phase& phase : job.phases) compute_ns += phase.compute_ns;
  job.phases.erase(job.phases.begin(), job.phases.end() - 1);
  job.phases.front().compute_ns = compute_ns;
}

}  // namespace

Result<std::vector<Job>> DrawJobs(const fabric::Topology& topology, int jobs, int ring_size,
                                  std::uint64_t seed) {
  Random random(seed);
  for (int draw = 0; draw < kMostDraws; ++draw) {
    std::vector<std::string> names = {kModels[0]};
    for (int job = 1; job < jobs; ++job)
      names.emplace_back(kModels[random.Below(std::size(kModels))]);
    auto made = MakeModelJobs(topology, names,
                              {.data_parallel = ring_size,
                               .nics_per_host = kHostsOfAToR,
                               .epochs = kEpochs,
                               .seed = random.Next()});
    if (!made && made.error().code == ErrorCode::kFailedPrecondition) continue;
    if (!made) return made;
    for (Job& job : *made) KeepAllReduce(job);
    return made;
  }
  return Fail(ErrorCode::kFailedPrecondition,
              fmt::format("{} jobs with rings of {} do not fit onto the fabric (draw fewer jobs)",
                          jobs, ring_size));
}

}  // namespace espalier::offline
