#include "deploy/lab/workload/phase_schedule.h"

#include <array>
#include <random>

namespace espalier::traffic {

PhaseSchedule::PhaseSchedule(const PhasedJob& job, int job_index, std::uint64_t seed)
    : period_seconds_(job.period_seconds), jitter_(job.jitter_percent / 100.0) {
  for (const Phase& phase : job.phases) compute_seconds_.push_back(phase.compute_seconds);
  std::mt19937_64 random(seed);
  random.discard(static_cast<unsigned long long>(job_index));
  seed_ = random();
}

Duration PhaseSchedule::ComputeTime(int iteration, int phase) const {
  return Vary(compute_seconds_.at(static_cast<std::size_t>(phase)), iteration, phase);
}

Duration PhaseSchedule::Period(int iteration) const {
  return Vary(period_seconds_, iteration, static_cast<int>(compute_seconds_.size()));
}

Duration PhaseSchedule::Vary(double seconds, int iteration, int draw) const {
  // Avoids the standard distributions, which differ between libraries.
  std::seed_seq sequence{seed_ >> 32, seed_ & 0xFFFF'FFFF, static_cast<std::uint64_t>(iteration),
                         static_cast<std::uint64_t>(draw)};
  std::array<std::uint32_t, 1> drawn{};
  sequence.generate(drawn.begin(), drawn.end());
  const double unit = static_cast<double>(drawn[0]) / 4'294'967'295.0;
  const std::chrono::duration<double> varied(seconds * (1 + jitter_ * (2 * unit - 1)));
  return std::chrono::duration_cast<Duration>(varied);
}

}  // namespace espalier::traffic
