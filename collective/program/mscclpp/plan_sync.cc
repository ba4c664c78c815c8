#include "collective/program/mscclpp/plan_sync.h"

#include <fmt/format.h>

#include <algorithm>

#include "collective/program/mscclpp/plan_counts.h"

namespace espalier::program {
namespace {

std::size_t At(std::int64_t i) { return static_cast<std::size_t>(i); }

}  // namespace

std::int64_t PlanSync::CountClocks(const ExecutionPlan& plan) {
  std::int64_t blocks = 0;
  std::int64_t actors = 0;
  for (const PlanRank& rank : plan.ranks) {
    blocks += static_cast<std::int64_t>(rank.blocks.size());
    actors += 1 + std::ranges::count(rank.channels, true, &PlanChannel::is_port);
  }
  constexpr std::int64_t kClocksOfABlock = 6;  // two kinds of knowledge, three times
  return (actors + blocks) * (blocks + 1) * kClocksOfABlock;
}

PlanSync::PlanSync(const ExecutionPlan& plan) : plan_(plan) {
  for (const PlanRank& rank : plan.ranks) {
    Rank& made = ranks_.emplace_back();
    made.first_block = actors_;
    made.blocks = static_cast<std::int32_t>(rank.blocks.size());
    made.channels.resize(rank.channels.size());
    for (const std::int32_t value : rank.semaphores) made.semaphores.emplace_back().value = value;
    actors_ += made.blocks;
  }
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    ranks_[r].caller = actors_++;
    for (std::size_t c = 0; c < ranks_[r].channels.size(); ++c) {
      if (plan.ranks[r].channels[c].is_port) ranks_[r].channels[c].actor = actors_++;
    }
  }
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    for (std::int32_t b = 0; b < ranks_[r].blocks; ++b) {
      blocks_.push_back({.rank = static_cast<std::int32_t>(r),
                         .number = b,
                         .operations = &plan.ranks[r].blocks[At(b)],
                         .known = Knowledge(At(actors_)),
                         .received = Knowledge(At(actors_)),
                         .first_received = Knowledge(At(actors_))});
      CountOperations(static_cast<std::int32_t>(blocks_.size()) - 1);
    }
  }
}

void PlanSync::CountOperations(std::int32_t id) {
  Rank& rank = RankOf(id);
  for (const PlanOperation& one : *block(id).operations) {
    for (const std::int32_t semaphore : one.semaphores) {
      if (one.action != PlanAction::kRelease) continue;
      ++rank.semaphores[At(semaphore)].total[id];
      ++rank.semaphores[At(semaphore)].all;
    }
    if (one.action != PlanAction::kBarrier) continue;
    auto& users = rank.barriers[one.barrier].users;
    if (users.empty() || users.back() != id) users.push_back(id);
  }
}

PlanSync::Rank& PlanSync::RankOf(std::int32_t id) { return ranks_[At(block(id).rank)]; }
std::int32_t PlanSync::first_block(std::int32_t rank) const { return ranks_[At(rank)].first_block; }
std::int32_t PlanSync::blocks_of(std::int32_t rank) const { return ranks_[At(rank)].blocks; }
int PlanSync::run_of(std::int32_t rank) const { return ranks_[At(rank)].run; }

bool PlanSync::HasEnded(std::int32_t rank) const {
  const Rank& own = ranks_[At(rank)];
  const auto first = blocks_.begin() + own.first_block;
  return std::all_of(first, first + own.blocks,
                     [](const PlanBlock& one) { return one.has_ended(); });
}

Event PlanSync::Caller(std::int32_t rank) const {
  return {ranks_[At(rank)].caller, ranks_[At(rank)].run + 1, -1, ranks_[At(rank)].run};
}

Knowledge PlanSync::StartFirst() {
  Knowledge start(At(actors_));
  for (const Rank& rank : ranks_) start.LearnEvent(rank.caller, 1);
  const auto shared = std::make_shared<const Knowledge>(start);
  for (std::size_t r = 0; r < ranks_.size(); ++r) StartRun(static_cast<std::int32_t>(r), shared);
  return start;
}

Knowledge PlanSync::EndRun(std::int32_t rank) {
  Rank& own = ranks_[At(rank)];
  Knowledge end = *own.start;
  for (std::int32_t id = own.first_block; id < own.first_block + own.blocks; ++id) {
    end.Learn(block(id).known);
    end.Learn(block(id).received);
    end.LearnEvent(id, block(id).events);
  }
  cost_ += std::int64_t{actors_} * own.blocks;
  ++own.run;
  return end;
}

void PlanSync::StartNext(std::int32_t rank, Knowledge known) {
  known.LearnEvent(ranks_[At(rank)].caller, Caller(rank).number);
  StartRun(rank, std::make_shared<const Knowledge>(std::move(known)));
  woken_.push_back(rank);
}

void PlanSync::StartRun(std::int32_t rank, Shared start) {
  Rank& own = ranks_[At(rank)];
  own.start = std::move(start);
  for (std::int32_t id = own.first_block; id < own.first_block + own.blocks; ++id) {
    block(id).done = 0;
    block(id).known = block(id).received = block(id).first_received = *own.start;
  }
  for (Semaphore& one : own.semaphores) {
    one.acquired = 0;
    one.releases.clear();
  }
}

bool PlanSync::Perform(std::int32_t id, const PlanOperation& operation) {
  switch (operation.action) {
    case PlanAction::kTransfer:
      break;
    case PlanAction::kMeet:
      Meet(id);
      break;
    case PlanAction::kBarrier:
      return PassBarrier(id, operation);
    case PlanAction::kSignal:
      for (std::size_t i = 0; i < operation.channels.size(); ++i) Send(id, operation, i);
      break;
    case PlanAction::kWait:
      return Await(id, operation);
    case PlanAction::kFlush:
      Flush(id, operation);
      break;
    case PlanAction::kAcquire:
      return Acquire(id, operation);
    case PlanAction::kRelease:
      for (std::size_t i = 0; i < operation.semaphores.size(); ++i) ReleaseOne(id, operation, i);
      break;
  }
  return true;
}

Event PlanSync::NextEvent(std::int32_t id) {
  PlanBlock& own = block(id);
  return {id, ++own.events, own.next().number, RankOf(id).run};
}

Event PlanSync::NextTransfer(std::int32_t id, const PlanTransfer& transfer, Knowledge& known) {
  Event event = NextEvent(id);
  cost_ += actors_;
  if (transfer.channel < 0) return event;
  ChannelEnd& end = RankOf(id).channels[At(transfer.channel)];
  known.LearnEvent(end.actor, end.transfers);
  event.actor = end.actor;
  event.number = ++end.transfers;
  return event;
}

void PlanSync::Meet(std::int32_t id) {
  PlanBlock& own = block(id);
  cost_ += actors_;
  own.known.Learn(own.received);
  own.known.LearnEvent(id, own.events);
}

bool PlanSync::PassBarrier(std::int32_t id, const PlanOperation& operation) {
  Barrier& barrier = RankOf(id).barriers[operation.barrier];
  // The last block to arrive moves the others on.
  if (block(id).is_at_barrier) return false;
  block(id).is_at_barrier = true;
  if (++barrier.arrived < barrier.users.size()) return false;
  barrier.arrived = 0;
  Knowledge all(At(actors_));
  for (const std::int32_t user : barrier.users) {
    Meet(user);
    all.Learn(block(user).known);
  }
  for (const std::int32_t user : barrier.users) {
    block(user).known = block(user).received = all;
    block(user).is_at_barrier = false;
    if (user != id) ++block(user).done;
  }
  cost_ += std::int64_t{actors_} * static_cast<std::int64_t>(barrier.users.size());
  woken_.push_back(block(id).rank);
  return true;
}

Knowledge PlanSync::KnownAt(std::int32_t id, std::size_t position) const {
  const PlanBlock& own = blocks_[At(id)];
  Knowledge known = own.known;
  if (position == 0) known.Learn(own.first_received);
  return known;
}

void PlanSync::Receive(std::int32_t id, std::size_t position, const Knowledge& known,
                       bool only_order) {
  PlanBlock& own = block(id);
  cost_ += actors_;
  for (Knowledge* const one : {&own.received, position == 0 ? &own.first_received : nullptr}) {
    if (one == nullptr) continue;
    only_order ? one->LearnOrder(known) : one->Learn(known);
  }
}

void PlanSync::Send(std::int32_t id, const PlanOperation& operation, std::size_t position) {
  const std::int32_t rank = block(id).rank;
  const std::int32_t channel = operation.channels[position];
  ChannelEnd& own = RankOf(id).channels[At(channel)];
  if (!CheckAlone(id, own.signalled, "signal on", DescribeChannel(plan_, rank, channel))) return;
  own.signalled = NextEvent(id);
  cost_ += actors_;
  Signal signal{RankOf(id).start, operation.is_relaxed};
  if (!operation.is_relaxed) {
    Knowledge known = KnownAt(id, position);
    if (own.actor >= 0) known.LearnEvent(own.actor, own.transfers);
    signal.knowledge = std::make_shared<const Knowledge>(std::move(known));
  }
  const PlanChannel& to = plan_.ranks[At(rank)].channels[At(channel)];
  ranks_[At(to.peer)].channels[At(to.other_end)].arrived.push_back(std::move(signal));
  woken_.push_back(to.peer);
}

// Two blocks may use a channel or semaphore only one after the other.
bool PlanSync::CheckAlone(std::int32_t id, const Event& last, std::string_view what,
                          const std::string& where) {
  const PlanBlock& own = block(id);
  if (last.actor < 0 || last.actor == id || own.known.Follows(last)) return true;
  violation_ = MakeViolation(ViolationKind::kRace, own.rank, own.number, own.next().number,
                             fmt::format("blocks {} and {} {} {} in any order",
                                         block(last.actor).number, own.number, what, where));
  return false;
}

bool PlanSync::Await(std::int32_t id, const PlanOperation& operation) {
  PlanBlock& own = block(id);
  for (; own.waited < operation.channels.size(); ++own.waited) {
    const std::int32_t channel = operation.channels[own.waited];
    ChannelEnd& end = RankOf(id).channels[At(channel)];
    if (end.arrived.empty()) return false;
    if (!CheckAlone(id, end.waited, "wait on", DescribeChannel(plan_, own.rank, channel))) {
      return false;
    }
    end.waited = NextEvent(id);
    const Signal signal = std::move(end.arrived.front());
    end.arrived.pop_front();
    // A relaxed signal conveys what was complete before its rank's run began.
    Receive(id, own.waited, *signal.knowledge, operation.is_relaxed && !signal.is_relaxed);
  }
  own.waited = 0;
  return true;
}

void PlanSync::Flush(std::int32_t id, const PlanOperation& operation) {
  for (std::size_t i = 0; i < operation.channels.size(); ++i) {
    const ChannelEnd& end = RankOf(id).channels[At(operation.channels[i])];
    if (end.actor < 0) continue;
    block(id).received.LearnEvent(end.actor, end.transfers);
    if (i == 0) block(id).first_received.LearnEvent(end.actor, end.transfers);
  }
}

bool PlanSync::Acquire(std::int32_t id, const PlanOperation& operation) {
  PlanBlock& own = block(id);
  for (; own.waited < operation.semaphores.size(); ++own.waited) {
    const std::int32_t number = operation.semaphores[own.waited];
    Semaphore& semaphore = RankOf(id).semaphores[At(number)];
    if (semaphore.value == 0) return false;
    if (!CheckAlone(id, semaphore.last_acquire, "acquire", fmt::format("semaphore {}", number))) {
      return false;
    }
    semaphore.last_acquire = NextEvent(id);
    --semaphore.value;
    ++semaphore.acquired;
    // Some `needed` releases have happened. One is certain if all others are too few.
    const std::int64_t needed =
        semaphore.acquired - plan_.ranks[At(own.rank)].semaphores[At(number)];
    for (const Release& one : semaphore.releases) {
      if (semaphore.all - semaphore.total[one.block] + one.index >= needed) continue;
      Receive(id, own.waited, *one.knowledge, false);
    }
  }
  own.waited = 0;
  return true;
}

void PlanSync::ReleaseOne(std::int32_t id, const PlanOperation& operation, std::size_t position) {
  Semaphore& semaphore = RankOf(id).semaphores[At(operation.semaphores[position])];
  const auto index = std::ranges::count(semaphore.releases, id, &Release::block);
  cost_ += actors_ + static_cast<std::int64_t>(semaphore.releases.size());
  semaphore.releases.push_back({id, static_cast<std::int32_t>(index),
                                std::make_shared<const Knowledge>(KnownAt(id, position))});
  ++semaphore.value;
  woken_.push_back(block(id).rank);
}

std::string PlanSync::Describe(const Event& event) const {
  if (At(event.actor) < blocks_.size()) {
    const PlanBlock& one = blocks_[At(event.actor)];
    return fmt::format("rank {} block {} step {}", one.rank, one.number, event.step);
  }
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    if (ranks_[r].caller == event.actor) return fmt::format("the caller of rank {}", r);
    if (std::ranges::find(ranks_[r].channels, event.actor, &ChannelEnd::actor) !=
        ranks_[r].channels.end()) {
      return fmt::format("step {} of rank {} through its port channel", event.step, r);
    }
  }
  return "nobody";
}

std::string PlanSync::DescribeWait(const PlanBlock& block) const {
  const PlanOperation& operation = block.next();
  const std::string place =
      fmt::format("rank {} block {} step {}", block.rank, block.number, operation.number);
  switch (operation.action) {
    case PlanAction::kWait:
      return fmt::format("{} waits for a signal on {}", place,
                         DescribeChannel(plan_, block.rank, operation.channels[block.waited]));
    case PlanAction::kAcquire:
      return fmt::format("{} waits for semaphore {}", place, operation.semaphores[block.waited]);
    case PlanAction::kBarrier:
      return fmt::format("{} waits at barrier {}", place, operation.barrier);
    default:
      return fmt::format("{} waits for packets", place);
  }
}

}  // namespace espalier::program
