#include "common/verbs/verbs.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace espalier::verbs {
namespace {

// Takes ownership of an object, which is null if the call that makes it has failed.
template <typename Owner>
Result<Owner> Own(typename Owner::pointer object, const char* what) {
  if (object == nullptr) return tl::unexpected(ErrorOf(what, errno));
  return Owner(object);
}

ibv_mtu MtuOf(int bytes) {
  ibv_mtu mtu = IBV_MTU_256;
  for (const ibv_mtu larger : {IBV_MTU_512, IBV_MTU_1024, IBV_MTU_2048, IBV_MTU_4096}) {
    if (bytes >= 128 << static_cast<int>(larger)) mtu = larger;
  }
  return mtu;
}

Result<void> Modify(ibv_qp& pair, ibv_qp_attr& attributes, int mask, const char* what) {
  const int error = ibv_modify_qp(&pair, &attributes, mask);
  if (error != 0) return tl::unexpected(ErrorOf(what, error));
  return {};
}

}  // namespace

Error ErrorOf(const std::string& what, int error) {
  ErrorCode code = ErrorCode::kInternal;
  if (error == EOPNOTSUPP || error == ENOSYS || error == EPROTONOSUPPORT) {
    code = ErrorCode::kUnsupported;
  } else if (error == ENOMEM || error == EAGAIN) {
    code = ErrorCode::kResourceExhausted;
  }
  std::string message = fmt::format("{}: {}", what, std::strerror(error));
  if (error == ENOMEM) message += " (the limit on locked memory may be too low: see ulimit -l)";
  return {code, std::move(message)};
}

Result<Context> OpenDevice(const std::string& name) {
  int count = 0;
  ibv_device** const devices = ibv_get_device_list(&count);
  ibv_device** const end = devices + count;
  ibv_device** const found =
      std::find_if(devices, end, [&](ibv_device* d) { return name == ibv_get_device_name(d); });
  ibv_context* const context = found == end ? nullptr : ibv_open_device(*found);
  const int error = errno;
  const bool exists = found != end;
  if (devices != nullptr) ibv_free_device_list(devices);
  if (!exists) {
    return Fail(ErrorCode::kNotFound, fmt::format("this host has no RDMA device {}", name));
  }
  if (context == nullptr) return tl::unexpected(ErrorOf("cannot open " + name, error));
  return Context(context);
}

Result<ProtectionDomain> MakeProtectionDomain(ibv_context& context) {
  return Own<ProtectionDomain>(ibv_alloc_pd(&context), "cannot make a protection domain");
}

Result<MemoryRegion> RegisterMemory(ibv_pd& domain, void* memory, std::size_t bytes) {
  return Own<MemoryRegion>(
      ibv_reg_mr(&domain, memory, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE),
      "cannot register memory");
}

Result<CompletionChannel> MakeCompletionChannel(ibv_context& context) {
  auto channel =
      Own<CompletionChannel>(ibv_create_comp_channel(&context), "cannot make a completion channel");
  if (!channel) return channel;
  const int flags = ::fcntl((*channel)->fd, F_GETFL);
  if (flags < 0 || ::fcntl((*channel)->fd, F_SETFL, flags | O_NONBLOCK) < 0) {
    return tl::unexpected(ErrorOf("cannot make a completion channel non-blocking", errno));
  }
  return channel;
}

Result<CompletionQueue> MakeCompletionQueue(ibv_context& context, int entries,
                                            ibv_comp_channel* channel) {
  return Own<CompletionQueue>(ibv_create_cq(&context, entries, nullptr, channel, 0),
                              "cannot make a completion queue");
}

Result<QueuePair> MakeQueuePair(ibv_pd& domain, ibv_cq& queue, const QueuePairLimits& limits,
                                std::uint8_t port) {
  ibv_qp_init_attr description = {};
  description.send_cq = &queue;
  description.recv_cq = &queue;
  description.qp_type = IBV_QPT_RC;
  description.cap = {.max_send_wr = limits.sends,
                     .max_recv_wr = limits.receives,
                     .max_send_sge = 1,
                     .max_recv_sge = 1,
                     .max_inline_data = limits.inline_bytes};
  auto pair = Own<QueuePair>(ibv_create_qp(&domain, &description), "cannot make a queue pair");
  if (!pair) return pair;
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = port;
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  const auto done = Modify(**pair, attributes,
                           IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
                           "cannot move a queue pair to INIT");
  if (!done) return tl::unexpected(done.error());
  return pair;
}

Result<void> Connect(ibv_qp& pair, const RoceAddress& local, const RemoteEnd& remote,
                     std::uint32_t first_packet, std::uint32_t flow_label, int path_mtu_bytes,
                     const RetryPolicy& patience) {
  ibv_qp_attr receiving = {};
  receiving.qp_state = IBV_QPS_RTR;
  receiving.path_mtu = MtuOf(path_mtu_bytes);
  receiving.dest_qp_num = remote.number;
  receiving.rq_psn = remote.first_packet;
  receiving.min_rnr_timer = 12;  // 0.64 ms
  receiving.ah_attr.is_global = 1;
  receiving.ah_attr.port_num = local.port;
  const IpAddress::Bytes& gid = remote.address.bytes();
  std::copy(gid.begin(), gid.end(), std::begin(receiving.ah_attr.grh.dgid.raw));
  receiving.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(local.gid_index);
  receiving.ah_attr.grh.flow_label = flow_label;
  receiving.ah_attr.grh.hop_limit = 64;
  auto done = Modify(pair, receiving,
                     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
                     "cannot move a queue pair to RTR");
  if (!done) return done;
  ibv_qp_attr sending = {};
  sending.qp_state = IBV_QPS_RTS;
  sending.timeout = patience.timeout_log2;
  sending.retry_cnt = patience.retries;
  sending.rnr_retry = 7;  // unlimited
  sending.sq_psn = first_packet;
  return Modify(pair, sending,
                IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
                "cannot move a queue pair to RTS");
}

void Break(ibv_qp& pair) {
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_ERR;
  ibv_modify_qp(&pair, &attributes, IBV_QP_STATE);
}

}  // namespace espalier::verbs
