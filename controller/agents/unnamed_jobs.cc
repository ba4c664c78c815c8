#include "controller/agents/unnamed_jobs.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace espalier::controller {
namespace {

// Sets of numbers (union-find with path halving; the lower number represents its set).
class Components {
 public:
  std::size_t Add() {
    parents_.push_back(parents_.size());
    return parents_.size() - 1;
  }
  std::size_t Find(std::size_t one) {
    while (parents_[one] != one) one = parents_[one] = parents_[parents_[one]];
    return one;
  }
  void Join(std::size_t one, std::size_t other) {
    one = Find(one);
    other = Find(other);
    parents_[std::max(one, other)] = std::min(one, other);
  }

 private:
  std::vector<std::size_t> parents_;
};

}  // namespace

void UnnamedJobs::Update(TimePoint now) {
  if (!has_changed_ || now < next_) return;
  has_changed_ = false;
  next_ = now + kMinInterval;
  std::vector<FlowSlot> unnamed;
  std::map<std::string, std::size_t> numbers;  // of NICs
  for (const FlowSlot slot : state_.flows.All()) {
    const Flow& flow = state_.flows.At(slot);
    if (flow.has_job_name || flow.subflows.empty()) continue;
    unnamed.push_back(slot);
    numbers.emplace(state_.topology.node(flow.key.source).id, 0);
    numbers.emplace(state_.topology.node(flow.key.destination).id, 0);
  }
  Components components;
  std::vector<const std::string*> names;
  for (auto& [name, number] : numbers) {
    number = components.Add();
    names.push_back(&name);
  }
  const auto number_of = [&](fabric::NodeId nic) {
    return numbers.at(state_.topology.node(nic).id);
  };
  for (const FlowSlot slot : unnamed) {
    const Flow& flow = state_.flows.At(slot);
    components.Join(number_of(flow.key.source), number_of(flow.key.destination));
  }
  for (const FlowSlot slot : unnamed) {
    const Flow& flow = state_.flows.At(slot);
    const std::string job = kPrefix + *names[components.Find(number_of(flow.key.source))];
    if (state_.flows.JobName(flow.job) != job) {
      rename_(slot, state_.flows.JobIndex(job, flow.agent));
    }
  }
}

}  // namespace espalier::controller
