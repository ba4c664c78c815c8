#include "collective/program/passes/channels.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace espalier::program {
namespace {

std::size_t At(std::int32_t id) { return static_cast<std::size_t>(id); }

// The connections of each rank that share a thread block, by channel.
class Pairing {
 public:
  // Whether `rank` may receive from `from` and send to `to` in one block.
  bool Allows(std::int32_t rank, std::int32_t channel, std::int32_t from, std::int32_t to) const {
    const auto in = receives_.find({rank, channel, from});
    const auto out = sends_.find({rank, channel, to});
    return (in == receives_.end() || in->second == to) &&
           (out == sends_.end() || out->second == from);
  }
  void Add(std::int32_t rank, std::int32_t channel, std::int32_t from, std::int32_t to) {
    receives_[{rank, channel, from}] = to;
    sends_[{rank, channel, to}] = from;
  }

 private:
  using Key = std::tuple<std::int32_t, std::int32_t, std::int32_t>;  // rank, channel, peer
  std::map<Key, std::int32_t> receives_;
  std::map<Key, std::int32_t> sends_;
};

class Assigner {
 public:
  explicit Assigner(InstructionDag& dag) : dag_(dag) {}

  Result<void> Run() {
    for (std::size_t i = 0; i < dag_.instructions.size(); ++i) {
      const Instruction& send = dag_.instructions[i];
      const bool begins_chain = send.op == OpCode::kSend && !IsFused(static_cast<std::int32_t>(i));
      if (!begins_chain) continue;
      if (auto done = AssignFrom(static_cast<std::int32_t>(i)); !done) return done;
    }
    return {};
  }

 private:
  Instruction& Get(std::int32_t id) { return dag_.instructions[At(id)]; }

  bool IsFused(std::int32_t send) {
    const std::int32_t writer = Get(send).source_writer;
    return writer != kNone && Get(writer).fused_send == send;
  }

  // Returns the sends of the chain that begins with this one.
  std::vector<std::int32_t> Chain(std::int32_t send) {
    std::vector<std::int32_t> sends;
    while (send != kNone) {
      sends.push_back(send);
      send = Get(Get(send).sends_to).fused_send;
    }
    return sends;
  }

  Result<void> AssignFrom(std::int32_t first) {
    while (first != kNone) {
      const std::vector<std::int32_t> chain = Chain(first);
      const Instruction& send = Get(first);
      const std::int32_t step = send.instances;
      std::int32_t channel =
          send.channel == kNone ? send.instance : send.channel * step + send.instance;
      if (channel >= kMaxChannels) {
        return Fail(ErrorCode::kInvalidArgument,
                    fmt::format("{}: needs channel {}, but there are only {} channels", dag_.name,
                                channel, kMaxChannels));
      }
      std::size_t length = ValidLength(chain, channel);
      // Chooses the lowest channel that is valid for the whole chain, else the one that is valid
      // longest.
      for (auto other = channel + step;
           send.channel == kNone && length < chain.size() && other < kMaxChannels; other += step) {
        const std::size_t reach = ValidLength(chain, other);
        if (reach > length) {
          length = reach;
          channel = other;
        }
      }
      first = length < chain.size() ? chain[length] : kNone;
      Commit(chain, length, channel);
    }
    return {};
  }

  std::int32_t RankBefore(std::int32_t fused_send) {
    const Instruction& receive = Get(Get(fused_send).source_writer);
    return Get(receive.receives_from).rank;
  }
  std::int32_t RankAfter(std::int32_t send) { return Get(Get(send).sends_to).rank; }

  // Returns how many sends of the chain the channel serves before it would need a second partner.
  std::size_t ValidLength(const std::vector<std::int32_t>& chain, std::int32_t channel) {
    Pairing own;
    for (std::size_t i = 1; i < chain.size(); ++i) {
      const std::int32_t rank = Get(chain[i]).rank;
      const std::int32_t from = RankBefore(chain[i]);
      const std::int32_t to = RankAfter(chain[i]);
      if (!pairing_.Allows(rank, channel, from, to) || !own.Allows(rank, channel, from, to)) {
        return i;
      }
      own.Add(rank, channel, from, to);
    }
    return chain.size();
  }

  void Commit(const std::vector<std::int32_t>& chain, std::size_t length, std::int32_t channel) {
    for (std::size_t i = 0; i < length; ++i) {
      if (i > 0) {
        pairing_.Add(Get(chain[i]).rank, channel, RankBefore(chain[i]), RankAfter(chain[i]));
      }
      Get(chain[i]).channel = channel;
      Get(Get(chain[i]).sends_to).channel = channel;
    }
    if (length < chain.size()) {
      Instruction& cut = Get(chain[length]);
      // The send still holds its directive; the receive before it has its channel already.
      Get(cut.source_writer).fused_send = kNone;
    }
  }

  InstructionDag& dag_;
  Pairing pairing_;
};

}  // namespace

Result<void> AssignChannels(InstructionDag& dag) { return Assigner(dag).Run(); }

}  // namespace espalier::program
