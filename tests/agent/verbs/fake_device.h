#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "agent/verbs/real_verbs.h"
#include "common/base/address/ip_address.h"

namespace espalier::shim {

// A device and its library as the shim uses them, whose functions record their
// arguments. They are plain functions without an object, so there is one device at a time.
class FakeDevice {
 public:
  FakeDevice() {
    current_ = this;
    context_.sz = sizeof(context_);
    context_.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
    context_.context.device = &device_;
    context_.context.ops.post_send = &PostSend;
    context_.context.ops.poll_cq = &PollCq;
    context_.create_cq_ex = &CreateQueue;
    context_.modify_qp_rate_limit = &LimitRate;
    context_.query_device_ex = &QueryDevice;
  }
  ~FakeDevice() { current_ = nullptr; }
  FakeDevice(const FakeDevice&) = delete;
  FakeDevice& operator=(const FakeDevice&) = delete;

  // Behaves like a driver.
  std::string driver = "rdma_rxe";
  std::uint32_t gid_type = IBV_GID_TYPE_ROCE_V2;
  bool all_signalled = false;
  int accepted_posts = 1 << 30;  // until posting fails
  int set_udp_port_error = 0;
  int rate_limit_error = 0;
  std::uint32_t highest_rate_kbps = 0;  // 0: no packet pacing
  int connect_error = 0;
  std::deque<ibv_wc> completions;
  std::deque<ibv_async_event> events;
  std::atomic<bool> drains = true;  // at once

  // What the shim has called.
  std::atomic<std::uint32_t> label{0};  // the last one
  std::atomic<ibv_qp_state> state{IBV_QPS_INIT};
  std::atomic<std::uint16_t> udp_port{0};
  std::atomic<std::uint32_t> rate_limit_kbps{0};
  std::atomic<int> rate_limits{0};  // how often it was asked
  std::atomic<int> doorbells{0};
  std::atomic<int> doorbells_to_send{0};  // of them, in RTS
  std::atomic<int> acknowledged{0};

  ibv_context& context() { return context_.context; }

  RealVerbs Library() {
    RealVerbs real;
    real.modify_qp = &Modify;
    real.query_qp = &Query;
    real.destroy_qp = [](ibv_qp*) { return 0; };
    real.query_gid_ex = &QueryGid;
    real.get_async_event = &GetEvent;
    real.ack_async_event = [](ibv_async_event*) { ++current_->acknowledged; };
    real.ring_doorbell = [](ibv_qp*, ibv_send_wr*, ibv_send_wr**) {
      if (current_->state == IBV_QPS_RTS) ++current_->doorbells_to_send;
      return ++current_->doorbells, 0;
    };
    real.set_udp_port = [](ibv_qp*, std::uint16_t port) {
      if (current_->set_udp_port_error == 0) current_->udp_port = port;
      return current_->set_udp_port_error;
    };
    real.is_of_driver = [](const ibv_context&, const char* name) {
      return current_->driver == name;
    };
    return real;
  }

 private:
  static int PostSend(ibv_qp*, ibv_send_wr* request, ibv_send_wr** failed) {
    for (; request != nullptr; request = request->next) {
      if (current_->accepted_posts-- > 0) continue;
      *failed = request;
      return ENOMEM;
    }
    return 0;
  }

  static int PollCq(ibv_cq*, int entries, ibv_wc* completions) {
    int found = 0;
    for (; found < entries && !current_->completions.empty(); ++found) {
      completions[found] = current_->completions.front();
      current_->completions.pop_front();
    }
    return found;
  }

  // An extended queue returns the entries of `completions`.
  static ibv_cq_ex* CreateQueue(ibv_context* context, ibv_cq_init_attr_ex* description) {
    static ibv_cq_ex queue;
    if ((description->wc_flags & IBV_WC_EX_WITH_QP_NUM) == 0) return nullptr;
    queue = {};
    queue.context = context;
    queue.start_poll = [](ibv_cq_ex* polled, ibv_poll_cq_attr*) { return Next(polled); };
    queue.next_poll = &Next;
    queue.read_qp_num = [](ibv_cq_ex*) { return current_->polled_.qp_num; };
    queue.read_opcode = [](ibv_cq_ex*) { return current_->polled_.opcode; };
    return &queue;
  }
  static int Next(ibv_cq_ex* queue) {
    if (PollCq(nullptr, 1, &current_->polled_) == 0) return ENOENT;
    queue->status = current_->polled_.status;
    return 0;
  }

  static int Modify(ibv_qp* pair, ibv_qp_attr* attributes, int mask) {
    if (attributes->qp_state == IBV_QPS_RTR && current_->connect_error != 0) {
      return current_->connect_error;
    }
    if ((mask & IBV_QP_AV) != 0) current_->label = attributes->ah_attr.grh.flow_label;
    if ((mask & IBV_QP_STATE) != 0) pair->state = current_->state = attributes->qp_state;
    return 0;
  }

  static int LimitRate(ibv_qp*, ibv_qp_rate_limit_attr* limit) {
    ++current_->rate_limits;
    if (current_->rate_limit_error == 0) current_->rate_limit_kbps = limit->rate_limit;
    return current_->rate_limit_error;
  }

  static int QueryDevice(ibv_context*, const ibv_query_device_ex_input*,
                         ibv_device_attr_ex* attributes, std::size_t) {
    attributes->packet_pacing_caps = {.qp_rate_limit_min = 1,
                                      .qp_rate_limit_max = current_->highest_rate_kbps,
                                      .supported_qpts = 1U << IBV_QPT_RC};
    return 0;
  }

  static int Query(ibv_qp* pair, ibv_qp_attr* attributes, int, ibv_qp_init_attr* description) {
    *attributes = {};
    *description = {};
    attributes->qp_state = pair->state = current_->state;  // as libibverbs does
    attributes->sq_draining = current_->drains ? 0 : 1;
    description->cap.max_send_wr = 16;
    description->sq_sig_all = current_->all_signalled ? 1 : 0;
    return 0;
  }

  static int QueryGid(ibv_context*, std::uint32_t, std::uint32_t, ibv_gid_entry* entry,
                      std::uint32_t, std::size_t) {
    const IpAddress::Bytes bytes = IpAddress::Parse("10.0.0.1")->bytes();
    std::memcpy(entry->gid.raw, bytes.data(), bytes.size());
    entry->gid_type = current_->gid_type;
    return 0;
  }

  static int GetEvent(ibv_context*, ibv_async_event* event) {
    if (current_->events.empty()) return -1;
    *event = current_->events.front();
    current_->events.pop_front();
    return 0;
  }

  inline static FakeDevice* current_ = nullptr;
  verbs_context context_ = {};
  ibv_device device_ = {};
  ibv_wc polled_ = {};
};

// A queue pair of the device, with the functions of an extended one.
struct FakePair {
  FakePair(FakeDevice& device, std::uint32_t number) {
    pair().context = &device.context();
    pair().qp_num = number;
    pair().qp_type = IBV_QPT_RC;
    pair().state = IBV_QPS_INIT;
    extended.wr_start = [](ibv_qp_ex*) {};
    extended.wr_complete = [](ibv_qp_ex* on) { return on->comp_mask == 0 ? 0 : ENOMEM; };
    extended.wr_abort = [](ibv_qp_ex*) {};
    extended.wr_rdma_write = [](ibv_qp_ex*, std::uint32_t, std::uint64_t) {};
    extended.wr_rdma_read = [](ibv_qp_ex*, std::uint32_t, std::uint64_t) {};
    extended.wr_local_inv = [](ibv_qp_ex*, std::uint32_t) {};
    extended.wr_set_sge = [](ibv_qp_ex*, std::uint32_t, std::uint64_t, std::uint32_t) {};
    extended.wr_set_sge_list = [](ibv_qp_ex*, std::size_t, const ibv_sge*) {};
    extended.wr_set_inline_data = [](ibv_qp_ex*, void*, std::size_t) {};
    extended.wr_set_inline_data_list = [](ibv_qp_ex*, std::size_t, const ibv_data_buf*) {};
  }

  ibv_qp& pair() { return extended.qp_base; }
  ibv_qp_ex extended = {};
};

}  // namespace espalier::shim
