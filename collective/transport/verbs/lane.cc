#include "collective/transport/verbs/lane.h"

#include <arpa/inet.h>

#include <algorithm>
#include <random>
#include <utility>

#include "common/base/check.h"
#include "common/verbs/source_port.h"

namespace espalier::transport {
namespace {

constexpr std::uint32_t kPacketMask = 0xFFFFFF;
constexpr int kMaxDoublings = 4;     // of the retry timeout
constexpr int kLongestTimeout = 31;  // largest logarithm that a queue pair accepts

}  // namespace

Result<void> Lane::Make() {
  if (!buffer_region_) {
    buffers_.resize(resources_.receives);
    auto region = verbs::RegisterMemory(*resources_.domain, buffers_.data(),
                                        buffers_.size() * sizeof(Notice));
    if (!region) return Propagate(region);
    buffer_region_ = std::move(*region);
  }
  pair_.reset();
  auto pair = verbs::MakeQueuePair(
      *resources_.domain, *resources_.queue,
      {.sends = resources_.sends, .receives = resources_.receives, .inline_bytes = sizeof(Notice)},
      resources_.local->port);
  if (!pair) return Propagate(pair);
  pair_ = std::move(*pair);
  first_packet_ = std::random_device()() & kPacketMask;
  for (std::uint32_t buffer = 0; buffer < resources_.receives; ++buffer) PostReceive(buffer);
  return {};
}

Result<void> Lane::Connect(const IpAddress& peer, std::uint32_t number, std::uint32_t first_packet,
                           int path_mtu_bytes) {
  std::uint32_t label = 0;
  if (port != 0) {
    const auto chosen = verbs::FlowLabelFor(port);
    if (!chosen) return tl::unexpected(chosen.error());
    label = *chosen;
  }
  port_in_use = port;
  // A lane that fails repeatedly may have a slow peer, so it gets more time.
  verbs::RetryPolicy patience = resources_.patience;
  const int longer = std::clamp(failures, 0, kMaxDoublings);
  patience.timeout_log2 =
      static_cast<std::uint8_t>(std::min(patience.timeout_log2 + longer, kLongestTimeout));
  return verbs::Connect(*pair_, *resources_.local,
                        {.address = peer, .number = number, .first_packet = first_packet},
                        first_packet_, label, path_mtu_bytes, patience);
}

void Lane::Break() { verbs::Break(*pair_); }

void Lane::PostReceive(std::uint32_t buffer) {
  ibv_sge part = {.addr = reinterpret_cast<std::uintptr_t>(&buffers_[buffer]),
                  .length = sizeof(Notice),
                  .lkey = buffer_region_->lkey};
  ibv_recv_wr request = {};
  request.wr_id = IdOf(buffer);
  request.sg_list = &part;
  request.num_sge = 1;
  ibv_recv_wr* failed = nullptr;
  if (ibv_post_recv(pair_.get(), &request, &failed) == 0) ++receives_;
}

bool Lane::PostNotice(const Notice& notice) {
  ibv_sge part = {.addr = reinterpret_cast<std::uintptr_t>(&notice), .length = sizeof(notice)};
  ibv_send_wr request = {};
  request.wr_id = IdOf(kNoBuffer);
  request.sg_list = &part;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
  ibv_send_wr* failed = nullptr;
  if (ibv_post_send(pair_.get(), &request, &failed) != 0) return false;
  in_flight_.push_back({.is_notice = true, .notice = notice});
  return true;
}

bool Lane::PostMessage(std::uint64_t message, std::span<const std::byte> bytes,
                       std::uint32_t local_key, std::uint64_t remote_address,
                       std::uint32_t remote_key) {
  ibv_sge part = {.addr = reinterpret_cast<std::uintptr_t>(bytes.data()),
                  .length = static_cast<std::uint32_t>(bytes.size()),
                  .lkey = local_key};
  ibv_send_wr request = {};
  request.wr_id = IdOf(kNoBuffer);
  request.sg_list = &part;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  request.send_flags = IBV_SEND_SIGNALED;
  request.imm_data = htonl(static_cast<std::uint32_t>(message));
  request.wr.rdma.remote_addr = remote_address;
  request.wr.rdma.rkey = remote_key;
  ibv_send_wr* failed = nullptr;
  if (ibv_post_send(pair_.get(), &request, &failed) != 0) return false;
  in_flight_.push_back({.is_notice = false, .message = message});
  return true;
}

Posted Lane::TakePosted() {
  ESPALIER_CHECK(!in_flight_.empty(), "lane={}", index_);
  const Posted posted = in_flight_.front();
  in_flight_.pop_front();
  return posted;
}

}  // namespace espalier::transport
