#include "controller/rounds/job_rounds.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "controller/rounds/burst_log.h"

namespace espalier::controller {
namespace {

using fabric::DirectedLink;

constexpr std::size_t kNoNic = ~std::size_t{0};

double Seconds(std::uint64_t bytes, std::int64_t bps) {
  return bps == 0 ? 0 : 8 * static_cast<double>(bytes) / static_cast<double>(bps);
}

std::uint64_t LeafKey(fabric::NodeId leaf, bool sends) {
  return std::uint64_t{leaf.Index()} << 1U | (sends ? 1U : 0U);
}

constexpr std::uint64_t kIsNic = std::uint64_t{1} << 63U;

std::uint64_t NicKey(std::size_t directed_link) { return kIsNic | directed_link; }

Duration Median(const std::deque<JobRound>& rounds, Duration JobRound::*what) {
  std::vector<Duration> values;
  for (const JobRound& round : rounds) values.push_back(round.*what);
  if (values.empty()) return {};
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

// Leaves out rounds that are several in one: their ideal is a multiple of the usual one. A job that
// has rounds of several sizes has more of them than a third.
void DropMerged(std::deque<JobRound>& rounds) {
  constexpr double kNear = 0.15;
  const auto usual = static_cast<double>(Median(rounds, &JobRound::ideal).count());
  const auto is_merged = [&](const JobRound& round) {
    if (usual <= 0) return false;
    const double times = static_cast<double>(round.ideal.count()) / usual;
    return times > 2 - kNear && std::abs(times - std::round(times)) < kNear;
  };
  const auto merged = std::ranges::count_if(rounds, is_merged);
  if (3 * static_cast<std::size_t>(merged) <= rounds.size()) std::erase_if(rounds, is_merged);
}

}  // namespace

JobRounds::Job& JobRounds::At(std::uint32_t job) {
  if (job >= jobs_.size()) jobs_.resize(job + 1);
  return jobs_[job];
}

std::uint64_t JobRounds::PairKey(const Ends& ends) {
  return (std::uint64_t{ends.source->Index()} << 32U) | ends.destination->Index();
}

bool JobRounds::IsOver(const Group& group, TimePoint now) {
  return group.began && group.busy == 0 && now - group.ended >= kGap;
}

// None: the flow is outside all groups.
JobRounds::Group* JobRounds::GroupOf(Job& job, const Sender& sender) {
  const SenderGroups::Group group = job.senders.GroupOf(sender.member);
  return group == SenderGroups::kOutside ? nullptr : &job.groups[group];
}

void JobRounds::Merge(Job& job, const SenderGroups::Merged& merged) {
  for (const auto& [from_index, into_index] : merged) {
    Group& from = job.groups[from_index];
    Group& into = job.groups[into_index];
    into.busy += from.busy;
    if (from.began) into.began = into.began ? std::min(*into.began, *from.began) : *from.began;
    into.ended = std::max(into.ended, from.ended);
    for (const auto& [nic, bytes] : from.nic_bytes) into.nic_bytes[nic] += bytes;
    for (const auto& [key, pair] : from.pairs) {
      Pair& sum = into.pairs[key];
      sum.bytes += pair.bytes;
      sum.largest = std::max(sum.largest, pair.largest);
      sum.flows += pair.flows;
      sum.path_bps = pair.path_bps;
    }
    into.round = ++last_round_;  // senders look their pairs up again
    if (into.finished.empty()) into.finished = std::move(from.finished);
    from = {};
  }
}

void JobRounds::Join(std::uint32_t index, Sender& sender) {
  Job& job = At(index);
  std::vector<std::size_t> nics;
  for (const auto& end : {sender.ends.source, sender.ends.destination}) {
    if (end) nics.push_back(end->link.Index());
  }
  if (nics.empty()) nics.push_back(kNoNic);
  const SenderGroups::Merged merged = job.senders.Join(sender.member, nics);
  job.groups.resize(job.senders.size());
  Merge(job, merged);
  sender.pair = nullptr;
}

void JobRounds::Leave(std::uint32_t index, Sender& sender) {
  At(index).senders.Leave(sender.member);
}

JobRounds::SharedBytes JobRounds::BytesOf(const Group& group) const {
  SharedBytes bytes;
  for (const auto& [nic, sum] : group.nic_bytes) bytes[NicKey(nic)] += sum;
  for (const auto& [key, pair] : group.pairs) {
    const DirectedLink source = DirectedLink::FromIndex(key >> 32U);
    const DirectedLink destination = DirectedLink::FromIndex(key & 0xFFFF'FFFF);
    bytes[NicKey(source.Index())] += pair.bytes;
    bytes[NicKey(destination.Index())] += pair.bytes;
    bytes[LeafKey(ShareOf(source, true), true)] += pair.bytes;
    bytes[LeafKey(ShareOf(destination, false), false)] += pair.bytes;
  }
  return bytes;
}

fabric::NodeId JobRounds::ShareOf(DirectedLink link, bool sends) const {
  const fabric::NodeId nic = sends ? topology_.From(link) : topology_.To(link);
  if (topology_.HasSeveralUplinks(nic)) return nic;
  return sends ? topology_.To(link) : topology_.From(link);
}

std::int64_t JobRounds::NicBps(DirectedLink link) const {
  for (const fabric::NodeId nic : {topology_.From(link), topology_.To(link)}) {
    if (topology_.HasSeveralUplinks(nic)) return UplinkBps(nic);
  }
  return topology_.link(link.link).rate.value;
}

std::int64_t JobRounds::UplinkBps(fabric::NodeId leaf) const {
  std::int64_t bps = 0;
  for (const DirectedLink link : topology_.Outgoing(leaf)) {
    const bool is_fabric = topology_.node(topology_.To(link)).kind == fabric::NodeKind::kSwitch;
    const fabric::Link& of = topology_.link(link.link);
    if (is_fabric && of.state != fabric::LinkState::kDown) bps += of.rate.value;
  }
  return bps;
}

double JobRounds::SecondsOfShared(const Job& job, const Group& group) const {
  SharedBytes bytes = BytesOf(group);
  const auto add = [&](const SharedBytes& others, double part) {
    for (auto& [key, sum] : bytes) {
      const auto found = others.find(key);
      if (found == others.end()) continue;
      sum += static_cast<std::uint64_t>(part * static_cast<double>(found->second));
    }
  };
  for (const Group& other : job.groups) {
    if (&other == &group) continue;
    const double part =
        PartWithin({*group.began, group.ended}, {other.last_began, other.last_ended});
    if (part > 0) add(other.last_bytes, part);
    if (!other.began) continue;
    const TimePoint ended = other.busy > 0 ? std::max(group.ended, *other.began) : other.ended;
    const double now = PartWithin({*group.began, group.ended}, {*other.began, ended});
    if (now > 0) add(BytesOf(other), now);
  }
  double longest = 0;
  for (const auto& [key, sum] : bytes) {
    const std::int64_t bps = (key & kIsNic) != 0
                                 ? NicBps(DirectedLink::FromIndex(key & ~kIsNic))
                                 : UplinkBps(fabric::NodeId(static_cast<std::int32_t>(key >> 1U)));
    longest = std::max(longest, Seconds(sum, bps));
  }
  return longest;
}

// Flows of one path cannot be divided. Of the jk + 1 largest that leave a leaf with k equal links,
// some link has j + 1, so that it takes at least as long as the smallest j + 1 of them.
double JobRounds::SecondsOfWholeFlows(const Group& group) const {
  std::map<std::uint64_t, std::vector<std::uint64_t>> flows;  // by leaf and direction
  const auto links_of = [&](fabric::NodeId leaf) -> std::pair<std::size_t, std::int64_t> {
    std::size_t links = 0;
    std::int64_t bps = 0;
    for (const DirectedLink link : topology_.Outgoing(leaf)) {
      const fabric::Link& of = topology_.link(link.link);
      const bool is_fabric = topology_.node(topology_.To(link)).kind == fabric::NodeKind::kSwitch;
      if (!is_fabric || of.state == fabric::LinkState::kDown) continue;
      if (bps != 0 && bps != of.rate.value) return {0, 0};  // only equal links are known to count
      bps = of.rate.value;
      ++links;
    }
    return {links, bps};
  };
  for (const auto& [key, pair] : group.pairs) {
    const fabric::NodeId from = ShareOf(DirectedLink::FromIndex(key >> 32U), true);
    const fabric::NodeId to = ShareOf(DirectedLink::FromIndex(key & 0xFFFF'FFFF), false);
    if (pair.flows != 1) continue;
    if (pair.path_bps <= links_of(from).second) flows[LeafKey(from, true)].push_back(pair.bytes);
    if (pair.path_bps <= links_of(to).second) flows[LeafKey(to, false)].push_back(pair.bytes);
  }
  double longest = 0;
  for (auto& [leaf, bytes] : flows) {
    const auto [links, bps] = links_of(fabric::NodeId(static_cast<std::int32_t>(leaf >> 1U)));
    std::ranges::sort(bytes, std::greater());
    for (std::size_t j = 1; links > 0 && j * links < bytes.size(); ++j) {
      std::uint64_t smallest = 0;
      for (std::size_t i = j * links - j; i <= j * links; ++i) smallest += bytes[i];
      longest = std::max(longest, Seconds(smallest, bps));
    }
  }
  return longest;
}

JobRound JobRounds::RoundOf(const Job& job, const Group& group) const {
  double longest = std::max(SecondsOfShared(job, group), SecondsOfWholeFlows(group));
  for (const auto& [key, pair] : group.pairs) {
    longest = std::max(longest, Seconds(pair.largest, pair.path_bps));
  }
  const auto ideal = std::chrono::duration<double>(std::min(longest, 1e9));
  return {group.ended, group.ended - *group.began, std::chrono::duration_cast<Duration>(ideal)};
}

void JobRounds::Finish(Job& job, Group& group) {
  if (!group.is_mixed) {
    group.finished.push_back(RoundOf(job, group));
    if (group.finished.size() > kMaxKept) group.finished.pop_front();
    ++job.count;
  }
  group.is_mixed = false;
  group.last_began = *group.began;
  group.last_ended = group.ended;
  group.last_bytes = BytesOf(group);
  group.began.reset();
  group.nic_bytes.clear();
  group.pairs.clear();
  group.round = 0;
}

void JobRounds::Begin(std::uint32_t index, Sender& sender, TimePoint now) {
  Job& job = At(index);
  const SenderGroups::Begun begun = job.senders.Begin(sender.member, now);
  job.groups.resize(std::max<std::size_t>(job.senders.size(), 1));
  Merge(job, begun.merged);
  if (begun.founded) job.groups[*begun.founded] = {};
  if (begun.left) {
    job.groups[*begun.left].finished.clear();
    job.groups[*begun.left].is_mixed = job.groups[*begun.left].began.has_value();
  }
  if (begun.left || begun.founded) sender.pair = nullptr;
  Group* const group = GroupOf(job, sender);
  if (group == nullptr) {
    if (job.busy_outside++ == 0) job.outside_began = now;
    return;
  }
  if (IsOver(*group, now)) Finish(job, *group);
  if (!group->began) group->began = now;
  ++group->busy;
}

void JobRounds::End(std::uint32_t index, Sender& sender, TimePoint now) {
  Job& job = At(index);
  job.senders.End(sender.member, now);
  Group* const group = GroupOf(job, sender);
  if (group == nullptr) {
    ESPALIER_CHECK(job.busy_outside > 0, "job={}", index);
    --job.busy_outside;
    return;
  }
  ESPALIER_CHECK(group->busy > 0, "job={}", index);
  if (--group->busy == 0) group->ended = now;
}

void JobRounds::Forget(std::uint32_t index) {
  if (index < jobs_.size()) jobs_[index] = {};
}

void JobRounds::AddBytes(std::uint32_t index, Sender& sender, std::uint64_t bytes) {
  Job& job = At(index);
  Group* const own = GroupOf(job, sender);
  if (own == nullptr) return;
  Group& group = *own;
  if (sender.pair == nullptr || sender.round != group.round) {
    const Ends& ends = sender.ends;
    if (!ends.source || !ends.destination || ends.path_bps == 0) {
      for (const auto& end : {ends.source, ends.destination}) {
        if (end) group.nic_bytes[end->Index()] += bytes;
      }
      return;
    }
    if (group.round == 0) group.round = ++last_round_;
    sender.pair = &group.pairs[PairKey(ends)];
    sender.round = group.round;
    sender.bytes = 0;
    sender.pair->path_bps = ends.path_bps;
    ++sender.pair->flows;
  }
  sender.pair->bytes += bytes;
  sender.bytes += bytes;
  sender.pair->largest = std::max(sender.pair->largest, sender.bytes);
}

std::deque<JobRound> JobRounds::RoundsOf(const Job& job, const Group& group, TimePoint now) const {
  std::deque<JobRound> rounds = group.finished;
  if (IsOver(group, now) && !group.is_mixed) rounds.push_back(RoundOf(job, group));
  DropMerged(rounds);
  return rounds;
}

const JobRounds::Group* JobRounds::Leading(const Job& job, TimePoint now) const {
  TimePoint latest{};
  for (const Group& group : job.groups) {
    if (group.began || !group.finished.empty()) latest = std::max(latest, group.ended);
  }
  const Group* leading = nullptr;
  Duration slowest{};
  for (const Group& group : job.groups) {
    const bool is_past = group.busy == 0 && latest - group.ended > kPast;
    const std::deque<JobRound> rounds = RoundsOf(job, group, now);
    const Duration usual = Median(rounds, &JobRound::duration);
    if (rounds.empty() || is_past || (leading != nullptr && usual <= slowest)) continue;
    leading = &group;
    slowest = usual;
  }
  return leading;
}

std::deque<JobRound> JobRounds::Finished(std::uint32_t index, TimePoint now) const {
  if (index >= jobs_.size()) return {};
  const Group* const leading = Leading(jobs_[index], now);
  return leading == nullptr ? std::deque<JobRound>() : RoundsOf(jobs_[index], *leading, now);
}

std::optional<TimePoint> JobRounds::Begun(std::uint32_t index, TimePoint now) const {
  std::optional<TimePoint> begun;
  if (index >= jobs_.size()) return begun;
  if (jobs_[index].busy_outside > 0) begun = jobs_[index].outside_began;
  for (const Group& group : jobs_[index].groups) {
    if (!group.began || IsOver(group, now)) continue;
    begun = begun ? std::min(*begun, *group.began) : *group.began;
  }
  return begun;
}

std::uint64_t JobRounds::Count(std::uint32_t index, TimePoint now) const {
  if (index >= jobs_.size()) return 0;
  const Job& job = jobs_[index];
  const auto over = std::ranges::count_if(
      job.groups, [&](const Group& group) { return IsOver(group, now) && !group.is_mixed; });
  return job.count + static_cast<std::uint64_t>(over);
}

std::size_t JobRounds::Groups(std::uint32_t index, TimePoint now) const {
  if (index >= jobs_.size()) return 0;
  return static_cast<std::size_t>(
      std::ranges::count_if(jobs_[index].groups, [&](const Group& group) {
        return !group.finished.empty() || (IsOver(group, now) && !group.is_mixed);
      }));
}

}  // namespace espalier::controller
