// Measures what the shim adds to a post and to a completion: calls the programs' functions on a
// device whose own functions do nothing, in turn with and without the shim. Shows minima over the
// rounds.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "agent/verbs/observer.h"

namespace espalier::shim {
namespace {

constexpr int kRounds = 200;
constexpr int kCalls = 20'000;

// A device that accepts every post and completes every poll.
struct IdleDevice {
  IdleDevice() {
    context.sz = sizeof(context);
    context.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
    context.context.ops.post_send = [](ibv_qp*, ibv_send_wr*, ibv_send_wr**) { return 0; };
    context.context.ops.poll_cq = [](ibv_cq*, int, ibv_wc* completion) {
      completion->status = IBV_WC_SUCCESS;
      completion->opcode = IBV_WC_RDMA_WRITE;
      return 1;
    };
    queue.context = &context.context;
  }
  verbs_context context = {};
  ibv_cq queue = {};
};

struct IdlePair {
  IdlePair(IdleDevice& device, std::uint32_t number) {
    pair().context = &device.context.context;
    pair().qp_num = number;
    extended.wr_start = [](ibv_qp_ex*) {};
    extended.wr_complete = [](ibv_qp_ex*) { return 0; };
    extended.wr_rdma_write = [](ibv_qp_ex*, std::uint32_t, std::uint64_t) {};
    extended.wr_set_sge = [](ibv_qp_ex*, std::uint32_t, std::uint64_t, std::uint32_t) {};
  }
  ibv_qp& pair() { return extended.qp_base; }
  ibv_qp_ex extended = {};
};

struct Side {
  explicit Side(std::uint32_t pair_count) {
    for (std::uint32_t i = 0; i < pair_count; ++i) {
      pairs.push_back(std::make_unique<IdlePair>(device, 100 + i));
    }
  }
  void Watch() {
    ibv_qp_init_attr description = {};
    description.cap.max_send_wr = 256;
    for (const auto& pair : pairs) {
      Observer::OfThisProcess().Watch(pair->pair(), description);
      Observer::OfThisProcess().WatchExtended(pair->extended);
    }
  }
  IdleDevice device;
  std::vector<std::unique_ptr<IdlePair>> pairs;
};

using Work = std::function<void(Side&, std::size_t)>;

double NanosecondsPerCall(Side& side, const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kCalls; ++i) work(side, static_cast<std::size_t>(i) % side.pairs.size());
  const auto took = std::chrono::steady_clock::now() - begin;
  return std::chrono::duration<double, std::nano>(took).count() / kCalls;
}

void Post(Side& side, std::size_t at, unsigned flags) {
  ibv_sge part = {.addr = 0, .length = 65536, .lkey = 0};
  ibv_send_wr request = {};
  request.sg_list = &part;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_WRITE;
  request.send_flags = flags;
  ibv_send_wr* failed = nullptr;
  ibv_post_send(&side.pairs[at]->pair(), &request, &failed);
}

void PostExtended(Side& side, std::size_t at) {
  ibv_qp_ex* const pair = &side.pairs[at]->extended;
  ibv_wr_start(pair);
  pair->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_rdma_write(pair, 1, 2);
  ibv_wr_set_sge(pair, 1, 2, 65536);
  ibv_wr_complete(pair);
}

void Poll(Side& side, std::size_t at) {
  ibv_wc completion = {};
  completion.qp_num = side.pairs[at]->pair().qp_num;
  ibv_poll_cq(&side.device.queue, 1, &completion);
}

void Measure(const char* name, Side& bare, Side& watched, const Work& work) {
  double without = 1e9;
  double with = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    without = std::min(without, NanosecondsPerCall(bare, work));
    with = std::min(with, NanosecondsPerCall(watched, work));
  }
  fmt::print("{:<24} {:>6} {:>8.1f} {:>8.1f} {:>8.1f}\n", name, bare.pairs.size(), without, with,
             with - without);
}

void MeasureAll() {
  fmt::print("{:<24} {:>6} {:>8} {:>8} {:>8}\n", "ns per call", "pairs", "bare", "shim", "added");
  for (const std::uint32_t pairs : {1U, 64U, 1024U}) {
    Side bare(pairs);
    // Never destroyed, as the shim keeps devices until the process ends.
    Side& watched = *new Side(pairs);
    watched.Watch();
    Measure("post", bare, watched, [](Side& s, std::size_t at) { Post(s, at, 0); });
    Measure("post, signalled", bare, watched,
            [](Side& s, std::size_t at) { Post(s, at, IBV_SEND_SIGNALED); });
    Measure("post by ibv_wr_*", bare, watched, &PostExtended);
    Measure("poll one completion", bare, watched, &Poll);
  }
}

}  // namespace
}  // namespace espalier::shim

int main() { espalier::shim::MeasureAll(); }
