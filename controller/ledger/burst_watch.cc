#include "controller/ledger/burst_watch.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/base/enum_names.h"
#include "common/base/random.h"
#include "controller/rounds/burst_log.h"

namespace espalier::controller {
namespace {

constexpr EnumNames<Placing> kPlacings({{Placing::kEcmp, "ECMP"},
                                        {Placing::kMixed, "MIXED"},
                                        {Placing::kSteered, "STEERED"}});

}  // namespace

std::string_view PlacingName(Placing placing) { return kPlacings.NameOf(placing); }

std::optional<Placing> FindPlacing(std::string_view name) { return kPlacings.Find(name); }

std::uint64_t BurstKeyOf(const Flow& flow) {
  const auto both = [](std::uint64_t upper, std::uint64_t lower) { return upper << 32U ^ lower; };
  const auto number = [](fabric::NodeId node) { return static_cast<std::uint32_t>(node.value()); };
  std::uint64_t key = Mix64(both(flow.agent.Index() + 1, flow.local_qpn));
  key = Mix64(key ^ both(number(flow.key.source), number(flow.key.destination)));
  return Mix64(key ^ both(flow.own_port, flow.key.destination_port));
}

BurstWatch::Job& BurstWatch::JobOf(FlowSlot slot) {
  const std::uint32_t job = state_.flows.At(slot).job;
  if (job >= jobs_.size()) jobs_.resize(job + 1);
  return jobs_[job];
}

void BurstWatch::HandleChanges(std::span<const MessageChange> changes) {
  senders_.resize(std::max(senders_.size(), state_.flows.slot_count()));
  for (const MessageChange& change : changes) {
    // Acknowledgements are no burst.
    if (change.is_busy && !state_.flows.At(change.slot).is_answering) {
      Begin(change.slot, change.at);
    }
    if (change.new_bytes > 0) AddBytes(change.slot, change.new_bytes);
    if (!change.is_busy) End(change.slot, change.at);
  }
}

void BurstWatch::Begin(FlowSlot slot, TimePoint at) {
  if (std::exchange(senders_[slot.Index()].is_busy, true)) return;
  Job& job = JobOf(slot);
  const bool is_over = job.busy == 0 && at - job.present.ended >= kBurstGap;
  if (job.present.number != 0 && is_over) Finish(job);
  if (job.present.number == 0) job.present = {.number = ++numbers_, .began = at, .ended = at};
  ++job.busy;
}

void BurstWatch::End(FlowSlot slot, TimePoint at) {
  if (!std::exchange(senders_[slot.Index()].is_busy, false)) return;
  Job& job = JobOf(slot);
  if (--job.busy == 0) job.present.ended = std::max(job.present.ended, at);
}

void BurstWatch::AddBytes(FlowSlot slot, std::uint64_t bytes) {
  Sender& sender = senders_[slot.Index()];
  if (!sender.is_busy) return;
  Burst& burst = JobOf(slot).present;
  if (sender.present.burst != burst.number) {
    if (burst.parts.size() >= kMostFlows || kept_ >= kMostKept) {
      burst.is_complete = false;
      return;
    }
    sender.previous = std::exchange(sender.present,
                                    {burst.number, static_cast<std::uint32_t>(burst.parts.size())});
    burst.parts.push_back({.slot = slot});
    ++kept_;
  }
  burst.parts[sender.present.part].bytes += bytes;
}

void BurstWatch::Drop(Burst& burst) {
  kept_ -= burst.parts.size();
  burst = {};
}

void BurstWatch::Finish(Job& job) {
  if (job.present.parts.empty() && job.present.is_complete) {  // it has sent nothing
    job.present = {};
    return;
  }
  ++finished_;
  if (job.is_last_new) ++job.skipped;
  Drop(job.last);
  job.last = std::exchange(job.present, {});
  job.is_last_new = true;
}

void BurstWatch::KeepClosed(Burst& burst, const Place& place, FlowSlot slot) {
  if (place.burst == 0 || place.burst != burst.number) return;
  burst.parts[place.part].closed = static_cast<std::int32_t>(burst.closed.size());
  burst.closed.push_back(Describe(state_.flows.At(slot)));
}

void BurstWatch::Leave(FlowSlot slot, TimePoint now) {
  if (slot.Index() >= senders_.size()) return;
  End(slot, now);
  Sender& sender = senders_[slot.Index()];
  Job& job = JobOf(slot);
  for (const Place& place : {sender.present, sender.previous}) {
    KeepClosed(job.present, place, slot);
    KeepClosed(job.last, place, slot);
  }
  sender = {};
}

void BurstWatch::Join(FlowSlot slot, TimePoint now) {
  if (slot.Index() >= senders_.size()) return;
  const bool is_busy = state_.flows.ActivityOf(slot).IsBusy();
  if (is_busy && !state_.flows.At(slot).is_answering) Begin(slot, now);
}

void BurstWatch::ForgetJob(std::uint32_t job) {
  if (job >= jobs_.size()) return;
  Drop(jobs_[job].present);
  Drop(jobs_[job].last);
  jobs_[job] = {};
}

void BurstWatch::Update(std::uint32_t index, TimePoint now) {
  Job& job = jobs_[index];
  if (job.present.number != 0) {
    const bool is_over = job.busy == 0 && now - job.present.ended >= kBurstGap;
    const bool is_long = job.busy > 0 && now - job.present.began >= kLongest;
    if (is_long) job.present.ended = now;
    if (is_over || is_long) Finish(job);
    if (is_long) job.present = {.number = ++numbers_, .began = now, .ended = now};
  }
  if (job.last.number == 0 || now - job.last.ended < kPast) return;
  if (std::exchange(job.is_last_new, false)) ++job.skipped;
  Drop(job.last);
}

std::optional<SeenBurst> BurstWatch::TakeNext(TimePoint now) {
  const std::size_t visits = std::min(jobs_.size(), kMostVisited);
  for (std::size_t i = 0; i < visits; ++i) {
    if (++next_ >= jobs_.size()) next_ = 0;
    Update(next_, now);
    Job& job = jobs_[next_];
    if (!std::exchange(job.is_last_new, false)) continue;
    if (auto seen = job.last.is_complete ? Take(next_) : std::nullopt) return seen;
    ++job.skipped;
  }
  return std::nullopt;
}

std::int32_t BurstWatch::OwnPathOf(const Flow& flow) const {
  if (flow.own_port == 0) return kNoPath;
  std::optional<fabric::PathIndex> path;
  const auto entry = state_.path_map.Find(flow.key, flow.own_port);
  if (entry && entry->trust != fabric::PortTrust::kReverify) path = entry->path;
  if (!path) path = learner_.PredictPath(flow.key, flow.own_port);
  // Of one that is not usable, switches have hashed it onto another one.
  const auto paths = state_.PathsOf(flow);
  if (!path || !fabric::IsUsable(state_.topology, paths[path->Index()])) return kNoPath;
  return path->value();
}

BurstWatch::Described BurstWatch::Describe(const Flow& flow) const {
  Described described;
  // As FlowRounds: a flow that was not placed may claim any ends.
  if (flow.status != FlowStatus::kLocal && flow.subflows.empty()) return described;
  const auto source_leaf = state_.view.LeafOf(flow.source_leaf);
  const auto destination_leaf = state_.view.LeafOf(flow.destination_leaf);
  if (!source_leaf || !destination_leaf) return described;
  const auto source = state_.paths.FindAttachment(flow.key.source);
  const auto destination = state_.paths.FindAttachment(flow.key.destination);
  if (!source || !destination) return described;
  described.is_known = true;
  described.source = flow.key.source;
  described.destination = flow.key.destination;
  BurstFlow& to = described.flow;
  to.source = *source_leaf;
  to.destination = *destination_leaf;
  to.source_link = HostLink(source->uplink);
  to.destination_link = HostLink(destination->Downlink());
  to.key = BurstKeyOf(flow);
  to.subflows = static_cast<std::uint8_t>(std::max<std::size_t>(1, flow.subflows.size()));
  to.paths.fill(kNoPath);
  if (flow.subflows.empty()) return described;
  to.own_path = OwnPathOf(flow);
  to.paths[0] = to.own_path;
  for (std::size_t i = 0; i < flow.subflows.size(); ++i) {
    if (flow.subflows[i].port == 0) continue;
    described.is_steered = true;
    to.paths[i] = flow.subflows[i].port_path.value();
  }
  return described;
}

BurstWatch::Described BurstWatch::DescribePart(const Burst& burst, const Part& part) const {
  Described described = part.closed >= 0 ? burst.closed[static_cast<std::size_t>(part.closed)]
                                         : Describe(state_.flows.At(part.slot));
  described.flow.bytes = static_cast<double>(part.bytes);
  return described;
}

bool BurstWatch::AddOthers(std::uint32_t own, SeenBurst& seen) const {
  const Burst& of = jobs_[own].last;
  for (std::uint32_t index = 0; index < std::min(jobs_.size(), kMostVisited); ++index) {
    const Job& job = jobs_[index];
    for (const Burst* const other : {&job.last, &job.present}) {
      if (index == own && other == &of) continue;
      const TimePoint ended = other == &job.present && job.busy > 0 ? of.ended : other->ended;
      const double part = PartWithin({of.began, of.ended}, {other->began, ended});
      if (part <= 0) continue;
      const bool has_room = seen.flows.size() + other->parts.size() <= kMostFlows;
      if (!has_room || !other->is_complete) return false;
      for (const Part& sent : other->parts) {
        Described described = DescribePart(*other, sent);
        if (!described.is_known) continue;
        described.flow.bytes *= part;
        seen.flows.push_back(described.flow);
      }
    }
  }
  return true;
}

std::optional<SeenBurst> BurstWatch::Take(std::uint32_t index) {
  Job& job = jobs_[index];
  SeenBurst seen{.job = state_.flows.JobName(index), .duration = job.last.ended - job.last.began};
  std::vector<fabric::NodeId> nics;
  std::size_t steered = 0;
  std::size_t crossing = 0;
  for (const Part& part : job.last.parts) {
    const Described described = DescribePart(job.last, part);
    if (!described.is_known) continue;
    nics.push_back(described.source);
    nics.push_back(described.destination);
    seen.flows.push_back(described.flow);
    if (described.flow.source == described.flow.destination) continue;
    ++crossing;
    steered += described.is_steered ? 1 : 0;
  }
  seen.own = seen.flows.size();
  if (seen.own == 0 || !AddOthers(index, seen)) return std::nullopt;
  seen.placing = steered == 0          ? Placing::kEcmp
                 : steered == crossing ? Placing::kSteered
                                       : Placing::kMixed;
  seen.gpus = GpusOf(nics);
  seen.skipped = std::exchange(job.skipped, 0);
  return seen;
}

// A compute node that is its own NIC stands for a whole host, whose GPUs are not known.
std::size_t BurstWatch::GpusOf(const std::vector<fabric::NodeId>& nics) {
  if (!gpus_) {
    gpus_.emplace();
    const auto nodes = state_.topology.nodes();
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const fabric::NodeId node(static_cast<std::int32_t>(i));
      const bool is_gpu = nodes[i].kind == fabric::NodeKind::kCompute && !nodes[i].host.empty();
      if (is_gpu && !state_.paths.FindAttachment(node)) ++(*gpus_)[nodes[i].host];
    }
  }
  std::set<std::string_view> hosts;
  for (const fabric::NodeId nic : nics) hosts.insert(fabric::HostOf(state_.topology.node(nic)));
  std::size_t gpus = 0;
  for (const std::string_view host : hosts) {
    const auto found = gpus_->find(std::string(host));
    if (found == gpus_->end()) return 0;
    gpus += found->second;
  }
  return gpus;
}

}  // namespace espalier::controller
