#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "tests/controller/routing/phases/phase_oracle.h"

namespace espalier::controller {

// Where training jobs are, and how their hosts send.
struct TrainingJobs {
  std::uint32_t leaves = 32;
  std::uint32_t hosts_per_leaf = 4;
  std::uint32_t nics = 8;  // of a host, each of which sends to the one at its place
  std::uint32_t copies = 4;
  std::vector<std::uint32_t> stages{3, 4, 8};  // by job
};

// Jobs on random hosts with three phases: each host sends to the next stage, to the one before, and
// to its stage in the next copy.
inline PhaseCase PlaceTrainingJobs(std::mt19937& random, const TrainingJobs& layout) {
  std::vector<std::uint32_t> leaf_of(std::size_t{layout.leaves} * layout.hosts_per_leaf);
  for (std::size_t i = 0; i < leaf_of.size(); ++i) {
    leaf_of[i] = static_cast<std::uint32_t>(i) / layout.hosts_per_leaf;
  }
  for (std::size_t i = leaf_of.size(); i-- > 1;) std::swap(leaf_of[i], leaf_of[random() % (i + 1)]);
  PhaseCase input;
  std::size_t first = 0;
  for (const std::uint32_t stages : layout.stages) {
    PhasedJob job{.phases = std::vector<std::vector<std::uint32_t>>(3)};
    const auto send = [&](std::size_t phase, std::size_t from, std::size_t to) {
      const std::uint32_t source = leaf_of[first + from];
      const std::uint32_t destination = leaf_of[first + to];
      if (source == destination) return;
      for (std::uint32_t n = 0; n < layout.nics; ++n) {
        job.phases[phase].push_back(input.Add(source, destination));
      }
    };
    for (std::size_t copy = 0; copy < layout.copies; ++copy) {
      for (std::size_t stage = 0; stage < stages; ++stage) {
        const std::size_t host = copy * stages + stage;
        if (stage + 1 < stages) send(0, host, host + 1);
        if (stage > 0) send(1, host, host - 1);
        send(2, host, (copy + 1) % layout.copies * stages + stage);
      }
    }
    first += std::size_t{layout.copies} * stages;
    input.jobs.push_back(std::move(job));
  }
  return input;
}

}  // namespace espalier::controller
