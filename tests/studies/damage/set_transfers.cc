#include "tests/studies/damage/set_transfers.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/check.h"

namespace espalier::offline {
namespace {

constexpr double kLeast = 1e-3;     // bits: rounding may have left nothing
constexpr double kRounding = 1e-6;  // nanoseconds that rounding may leave of an emptied pool

std::vector<double> Capacities(const fabric::Topology& topology) {
  std::vector<double> capacities;
  for (const fabric::Link& link : topology.links()) {
    capacities.insert(capacities.end(), 2, static_cast<double>(link.rate.value) / 1e9);
  }
  return capacities;
}

}  // namespace

SetTransfers::SetTransfers(const fabric::Topology& topology, const Workload& workload,
                           Dealing dealing)
    : workload_(workload),
      dealing_(dealing),
      network_(Capacities(topology)),
      flows_(workload.flows().size()),
      failed_(2 * topology.links().size()) {
  for (std::size_t i = 0; i < topology.links().size(); ++i) {
    failed_[2 * i] = failed_[2 * i + 1] = topology.links()[i].state == fabric::LinkState::kDown;
  }
}

std::vector<std::uint32_t> SetTransfers::AdvanceTo(std::int64_t now) {
  ESPALIER_CHECK(now >= now_);
  CountSent(static_cast<double>(now - now_));
  now_ = now;
  std::vector<std::uint32_t> ended;
  for (const auto transfer : network_.TakeEnded(now)) EndPart(transfer, ended);
  for (const std::uint32_t f : sending_) {
    if (flows_[f].end && *flows_[f].end <= now) ended.push_back(f);
  }
  for (const std::uint32_t f : ended) EndFlow(flows_[f]);
  std::erase_if(sending_, [this](std::uint32_t f) { return !flows_[f].is_sending; });
  std::ranges::sort(ended);
  return ended;
}

void SetTransfers::CountSent(double nanoseconds) {
  for (const std::uint32_t f : sending_) {
    Flow& flow = flows_[f];
    const double bits = flow.rate * nanoseconds;
    flow.sent += bits;
    sent_bits_ += bits;
    flow.left = std::max(0.0, flow.left - bits);
  }
}

void SetTransfers::EndPart(FluidNetwork::Transfer transfer, std::vector<std::uint32_t>& ended) {
  const auto [f, p] = owner_[transfer];
  Flow& flow = flows_[f];
  flow.parts[p].transfer.reset();
  flow.parts[p].left = 0;
  if (--flow.open_parts == 0) ended.push_back(f);
}

void SetTransfers::EndFlow(Flow& flow) {
  for (Part& part : flow.parts) Deactivate(part);
  flow.is_sending = false;
  flow.rate = 0;
  flow.end.reset();
}

void SetTransfers::SetPaths(std::uint32_t f, std::span<const SetPath> paths) {
  Flow& flow = flows_[f];
  ESPALIER_CHECK(!paths.empty());
  ESPALIER_CHECK(!flow.is_sending || paths.size() == flow.parts.size());
  flow.parts.resize(paths.size());
  for (std::uint32_t p = 0; p < paths.size(); ++p) {
    Part& part = flow.parts[p];
    if (part.path == paths[p]) continue;
    Deactivate(part);
    part.path = paths[p];
    Activate(f, p);
  }
}

void SetTransfers::Start(std::uint32_t f, double bits) {
  Flow& flow = flows_[f];
  ESPALIER_CHECK(!flow.is_sending && !flow.parts.empty() && bits > 0);
  flow.is_sending = true;
  flow.left = bits;
  flow.open_parts = flow.parts.size();
  sending_.insert(std::ranges::upper_bound(sending_, f), f);
  for (std::uint32_t p = 0; p < flow.parts.size(); ++p) {
    flow.parts[p].left = bits * flow.parts[p].path.share;
    Activate(f, p);
  }
}

void SetTransfers::FailLink(fabric::LinkId link) {
  failed_[2 * link.Index()] = failed_[2 * link.Index() + 1] = true;
  for (const std::uint32_t f : sending_) {
    for (Part& part : flows_[f].parts) {
      if (HasFailed(part.path)) Deactivate(part);
    }
  }
}

bool SetTransfers::HasFailed(const SetPath& path) const {
  return std::ranges::any_of(path.links, [this](std::uint32_t link) { return failed_[link]; });
}

// Bits over a path are those dealt out to it. Those of a path that takes from a pool are more than
// the pool can ever give, so that its transfer does not end before the pool does.
void SetTransfers::Activate(std::uint32_t f, std::uint32_t p) {
  Flow& flow = flows_[f];
  Part& part = flow.parts[p];
  const bool is_static = dealing_ == Dealing::kStatic;
  const bool has_sent = is_static && part.left <= 0;
  if (!flow.is_sending || part.transfer || has_sent) return;
  if (HasFailed(part.path)) return;
  const SimulatedFlow& ends = workload_.flows()[f];
  std::vector<std::uint32_t> links;
  ends.AppendLinks(part.path.links, links);
  const double bits = is_static ? part.left : 2 * std::max(flow.left, kLeast);
  part.transfer = network_.Add(links, part.path.share, bits);
  if (owner_.size() <= *part.transfer) owner_.resize(*part.transfer + 1);
  owner_[*part.transfer] = {f, p};
}

void SetTransfers::Deactivate(Part& part) {
  if (!part.transfer) return;
  const double left = network_.Remove(*part.transfer, now_);
  if (dealing_ == Dealing::kStatic) part.left = std::max(left, kLeast);
  part.transfer.reset();
}

void SetTransfers::Settle() {
  network_.Settle(now_);
  for (const std::uint32_t f : sending_) {
    Flow& flow = flows_[f];
    flow.rate = 0;
    for (const Part& part : flow.parts) {
      if (part.transfer) flow.rate += network_.Rate(*part.transfer);
    }
    flow.end.reset();
    if (dealing_ == Dealing::kStatic || flow.rate <= 0) continue;
    flow.end = now_ + static_cast<std::int64_t>(std::ceil(flow.left / flow.rate - kRounding));
  }
}

std::optional<std::int64_t> SetTransfers::NextEvent() {
  std::optional<std::int64_t> next;
  const auto consider = [&next](std::int64_t time) {
    if (!next || time < *next) next = time;
  };
  if (dealing_ == Dealing::kStatic) {
    if (const auto end = network_.NextEnd()) consider(*end);
  }
  for (const std::uint32_t f : sending_) {
    if (flows_[f].end) consider(*flows_[f].end);
  }
  return next;
}

void TransferRun::Changes::Add(std::int64_t time, std::function<void()> make) {
  const auto place = std::ranges::upper_bound(all, time, {}, &Change::time);
  all.insert(place, {time, std::move(make)});
}

std::int64_t TransferOutcome::unfinished() const {
  return std::ranges::count_if(flow_ends, [](const auto& end) { return !end.has_value(); });
}

std::int64_t TransferOutcome::slowest() const {
  std::int64_t slowest = 0;
  for (const auto& end : flow_ends) slowest = std::max(slowest, end.value_or(0));
  return slowest;
}

TransferOutcome RunTransfers(SetTransfers& transfers, const Workload& workload,
                             const TransferRun& run, TransferRun::Changes& changes) {
  struct JobState {
    std::vector<std::uint32_t> flows;
    std::size_t open = 0;
    int round = 0;
  };
  std::vector<JobState> jobs(workload.jobs().size());
  std::size_t open_jobs = jobs.size();
  for (std::uint32_t f = 0; f < workload.flows().size(); ++f) {
    jobs[workload.flows()[f].job].flows.push_back(f);
  }
  TransferOutcome outcome{
      .flow_ends = std::vector<std::optional<std::int64_t>>(workload.flows().size()),
      .job_ends = std::vector<std::optional<std::int64_t>>(jobs.size())};
  const auto start_round = [&](JobState& job) {
    job.open = job.flows.size();
    for (const std::uint32_t f : job.flows) transfers.Start(f, run.bits / run.rounds);
  };
  const auto end_flow = [&](std::uint32_t f) {
    const std::uint32_t j = workload.flows()[f].job;
    JobState& job = jobs[j];
    const bool is_last_round = job.round + 1 == run.rounds;
    if (is_last_round) outcome.flow_ends[f] = transfers.now();
    if (--job.open > 0) return;
    if (is_last_round) {
      outcome.job_ends[j] = transfers.now();
      --open_jobs;
    } else {
      ++job.round;
      start_round(job);
    }
  };
  for (JobState& job : jobs) start_round(job);
  transfers.Settle();
  std::size_t next_change = 0;
  while (open_jobs > 0 && !run.is_cancelled()) {
    auto next = transfers.NextEvent();
    if (next_change < changes.all.size()) {
      const std::int64_t time = changes.all[next_change].time;
      next = next ? std::min(*next, time) : time;
    }
    if (!next) break;
    for (const std::uint32_t f : transfers.AdvanceTo(*next)) end_flow(f);
    while (next_change < changes.all.size() && changes.all[next_change].time <= *next) {
      const auto make = changes.all[next_change++].make;
      make();
    }
    transfers.Settle();
  }
  return outcome;
}

}  // namespace espalier::offline
