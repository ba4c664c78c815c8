#include "collective/program/verifier/execution.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <string>

namespace espalier::program {
namespace {

std::size_t At(std::int32_t id) { return static_cast<std::size_t>(id); }

class Runner {
 public:
  Runner(const ProgramIndex& index, int fifo_slots)
      : index_(index),
        fifo_slots_(At(fifo_slots)),
        done_(index.blocks.size(), 0),
        waiters_(index.blocks.size()),
        is_queued_(index.blocks.size(), false),
        in_flight_(index.connections.size()) {
    run_.received_of.assign(index.block_of_node.size(), -1);
    run_.order.reserve(index.block_of_node.size());
  }

  Execution Run() {
    for (std::size_t i = 0; i < index_.blocks.size(); ++i) Wake(static_cast<std::int32_t>(i));
    while (!queue_.empty() && !run_.violation) {
      const std::int32_t block = queue_.front();
      queue_.pop_front();
      is_queued_[At(block)] = false;
      RunBlock(block);
    }
    if (!run_.violation) CheckEnd();
    return std::move(run_);
  }

 private:
  void Wake(std::int32_t block) {
    if (is_queued_[At(block)]) return;
    is_queued_[At(block)] = true;
    queue_.push_back(block);
  }

  void RunBlock(std::int32_t id) {
    const ProgramIndex::Block& block = index_.blocks[At(id)];
    while (At(done_[At(id)]) < block.program->steps.size()) {
      const Step& step = block.program->steps[At(done_[At(id)])];
      if (!IsReady(id, block, step)) return;
      Perform(id, block, step);
      if (run_.violation) return;
    }
  }

  std::int32_t BlockNumber(const ProgramIndex::Block& block, std::int32_t number) const {
    return index_.first_block[At(block.rank)] + number;
  }

  bool IsReady(std::int32_t id, const ProgramIndex::Block& block, const Step& step) {
    for (const Dependency& on : step.after) {
      const std::int32_t other = BlockNumber(block, on.block);
      if (done_[At(other)] > on.step) continue;
      waiters_[At(other)].push_back(id);
      return false;
    }
    if (Receives(step.op) && in_flight_[At(block.receive_connection)].empty()) return false;
    return !Sends(step.op) || in_flight_[At(block.send_connection)].size() < fifo_slots_;
  }

  void Perform(std::int32_t id, const ProgramIndex::Block& block, const Step& step) {
    const std::int32_t node = block.first_node + done_[At(id)];
    if (Receives(step.op)) {
      auto& messages = in_flight_[At(block.receive_connection)];
      const std::int32_t sent = messages.front();
      messages.pop_front();
      run_.received_of[At(node)] = sent;
      if (const auto size = index_.StepOf(sent).count; size != step.count) {
        run_.violation =
            index_.ViolationAt(ViolationKind::kCountMismatch, node,
                               fmt::format("receives {} chunks where rank {} sends {}", step.count,
                                           block.program->receive_peer, size));
        return;
      }
      Wake(index_.connections[At(block.receive_connection)].sender);
    }
    if (Sends(step.op)) {
      auto& messages = in_flight_[At(block.send_connection)];
      messages.push_back(node);
      run_.most_outstanding = std::max(run_.most_outstanding, static_cast<int>(messages.size()));
      Wake(index_.connections[At(block.send_connection)].receiver);
    }
    run_.order.push_back(node);
    ++done_[At(id)];
    for (const std::int32_t waiter : waiters_[At(id)]) Wake(waiter);
    waiters_[At(id)].clear();
  }

  void CheckEnd() {
    for (std::size_t i = 0; i < index_.blocks.size(); ++i) {
      const ProgramIndex::Block& block = index_.blocks[i];
      if (At(done_[i]) < block.program->steps.size()) {
        run_.violation = index_.ViolationAt(ViolationKind::kDeadlock, block.first_node + done_[i],
                                            "never runs: " + DescribeCycle(block));
        return;
      }
    }
    for (const auto& messages : in_flight_) {
      if (messages.empty()) continue;
      run_.violation = index_.ViolationAt(ViolationKind::kCountMismatch, messages.front(),
                                          "sends a message that is never received");
      return;
    }
  }

  struct Blocked {
    std::string reason;
    std::int32_t on = -1;  // block that must move first
  };

  Blocked FindReason(const ProgramIndex::Block& block) const {
    const Step& step = block.program->steps[At(done_[At(BlockNumber(block, block.number))])];
    for (const Dependency& on : step.after) {
      const std::int32_t other = BlockNumber(block, on.block);
      if (done_[At(other)] > on.step) continue;
      return {fmt::format("waits for step {} of block {}", on.step, on.block), other};
    }
    if (Receives(step.op) && in_flight_[At(block.receive_connection)].empty()) {
      return {fmt::format("waits for a message from rank {}", block.program->receive_peer),
              index_.connections[At(block.receive_connection)].sender};
    }
    return {
        fmt::format("waits for one of {} slots to rank {}", fifo_slots_, block.program->send_peer),
        index_.connections[At(block.send_connection)].receiver};
  }

  // Names the first few blocks that wait for one another.
  std::string DescribeCycle(const ProgramIndex::Block& first) const {
    constexpr int kShown = 6;
    std::string text;
    const ProgramIndex::Block* block = &first;
    for (int i = 0; i < kShown; ++i) {
      const Blocked blocked = FindReason(*block);
      text += fmt::format("{}rank {} block {} {}", i == 0 ? "" : ", ", block->rank, block->number,
                          blocked.reason);
      block = &index_.blocks[At(blocked.on)];
      if (At(done_[At(blocked.on)]) == block->program->steps.size()) {
        return text + fmt::format(", rank {} block {} has ended", block->rank, block->number);
      }
      if (block == &first) break;
    }
    return text;
  }

  const ProgramIndex& index_;
  std::size_t fifo_slots_;
  Execution run_;
  std::vector<std::int32_t> done_;                  // by block: steps done
  std::vector<std::vector<std::int32_t>> waiters_;  // by block: blocks that wait for its next step
  std::vector<bool> is_queued_;
  std::deque<std::int32_t> queue_;
  std::vector<std::deque<std::int32_t>> in_flight_;  // by connection: the sending nodes
};

}  // namespace

Execution Execute(const ProgramIndex& index, int fifo_slots) {
  return Runner(index, fifo_slots).Run();
}

}  // namespace espalier::program
