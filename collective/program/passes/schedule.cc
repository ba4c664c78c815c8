#include "collective/program/passes/schedule.h"

#include <algorithm>
#include <deque>
#include <map>
#include <queue>
#include <tuple>

#include "collective/program/passes/fuse.h"

namespace espalier::program {
namespace {

std::size_t At(std::int32_t id) { return static_cast<std::size_t>(id); }

struct Connection {
  std::deque<std::int32_t> waiting;  // receives of the messages in flight, in sending order
  std::vector<std::int32_t> blocked_sends;
};

// Problem: order all instructions so that every edge goes forward and no FIFO holds more than its
// slots; then blocks that follow the order cannot deadlock.
//
// Idea: list scheduling, a simulated run. An instruction is ready once all its predecessors are in
// the order; the ready one with the best priority runs first. A send also needs a free slot, and a
// receive must be next in its FIFO. An instruction that must wait is queued again when that
// changes. A pure send leaves one slot free for instructions that receive and send, so that a ring
// of full connections does not block itself.
//
// Invariant: the order so far is a legal run; `waiting` holds the receives of exactly the messages
// in flight on each connection.
// Cost: n log n in instructions and edges.
// Source: GC3, section 5.2 (priority by hops); the limit on messages in flight is this project's.
class Scheduler {
 public:
  Scheduler(const InstructionDag& dag, int fifo_slots, SchedulePriority priority)
      : dag_(dag),
        fifo_slots_(static_cast<std::size_t>(fifo_slots)),
        // One slot stays free for messages that are passed on, so that a ring cannot fill itself
        // up.
        slots_of_first_(priority == SchedulePriority::kDepth && fifo_slots > 1 ? fifo_slots_ - 1
                                                                               : fifo_slots_),
        priority_(priority) {
    const std::size_t size = dag.instructions.size();
    missing_.resize(size, 0);
    is_done_.resize(size, false);
    followers_.resize(size);
    sends_on_.resize(size, nullptr);
    receives_on_.resize(size, nullptr);
    if (priority == SchedulePriority::kDepth) distances_ = MeasureDistances(dag);
    for (std::size_t i = 0; i < size; ++i) {
      const Instruction& instruction = dag.instructions[i];
      missing_[i] = instruction.after.size() + (instruction.receives_from == kNone ? 0 : 1);
      for (const std::int32_t id : instruction.after) {
        followers_[At(id)].push_back(static_cast<std::int32_t>(i));
      }
      if (instruction.sends_to == kNone) continue;
      Connection* connection =
          &connections_[{instruction.rank, dag.instructions[At(instruction.sends_to)].rank,
                         dag.instructions[At(instruction.sends_to)].channel}];
      sends_on_[i] = connection;
      receives_on_[At(instruction.sends_to)] = connection;
    }
  }

  std::optional<std::vector<std::int32_t>> Run() {
    for (std::size_t i = 0; i < missing_.size(); ++i) {
      if (missing_[i] == 0) Push(static_cast<std::int32_t>(i));
    }
    while (!ready_.empty()) {
      const std::int32_t id = std::get<2>(ready_.top());
      ready_.pop();
      if (!CanRun(id)) continue;
      Perform(id);
    }
    if (order_.size() < missing_.size()) return std::nullopt;
    return std::move(order_);
  }

 private:
  // Lowest first.
  using Entry = std::tuple<std::int32_t, std::int32_t, std::int32_t>;

  void Push(std::int32_t id) {
    if (priority_ == SchedulePriority::kTrace) {
      ready_.emplace(0, 0, id);
    } else {
      ready_.emplace(distances_.before[At(id)], -distances_.after[At(id)], id);
    }
  }

  // An instruction that cannot run is queued again when its obstacle changes, so it may be queued
  // twice.
  bool CanRun(std::int32_t id) {
    if (is_done_[At(id)]) return false;
    const Connection* from = receives_on_[At(id)];
    if (from != nullptr && from->waiting.front() != id) return false;
    Connection* to = sends_on_[At(id)];
    const bool is_first = dag_.instructions[At(id)].op == OpCode::kSend;
    if (to != nullptr && to->waiting.size() >= (is_first ? slots_of_first_ : fifo_slots_)) {
      to->blocked_sends.push_back(id);
      return false;
    }
    return true;
  }

  void Perform(std::int32_t id) {
    order_.push_back(id);
    is_done_[At(id)] = true;
    if (Connection* from = receives_on_[At(id)]; from != nullptr) {
      from->waiting.pop_front();
      if (!from->waiting.empty() && missing_[At(from->waiting.front())] == 0) {
        Push(from->waiting.front());
      }
      for (const std::int32_t send : from->blocked_sends) Push(send);
      from->blocked_sends.clear();
    }
    if (Connection* to = sends_on_[At(id)]; to != nullptr) {
      const std::int32_t receive = dag_.instructions[At(id)].sends_to;
      to->waiting.push_back(receive);
      Release(receive);
    }
    for (const std::int32_t follower : followers_[At(id)]) Release(follower);
  }

  void Release(std::int32_t id) {
    if (--missing_[At(id)] == 0) Push(id);
  }

  const InstructionDag& dag_;
  std::size_t fifo_slots_;
  std::size_t slots_of_first_;
  SchedulePriority priority_;
  Distances distances_;
  std::map<std::tuple<std::int32_t, std::int32_t, std::int32_t>, Connection> connections_;
  std::vector<Connection*> sends_on_;
  std::vector<Connection*> receives_on_;
  std::vector<std::size_t>
      missing_;  // by instruction: incoming edges from instructions outside the order
  std::vector<std::vector<std::int32_t>> followers_;
  std::vector<bool> is_done_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready_;
  std::vector<std::int32_t> order_;
};

}  // namespace

std::optional<std::vector<std::int32_t>> Schedule(const InstructionDag& dag, int fifo_slots,
                                                  SchedulePriority priority) {
  return Scheduler(dag, fifo_slots, priority).Run();
}

}  // namespace espalier::program
