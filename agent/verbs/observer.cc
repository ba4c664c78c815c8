#include "agent/verbs/observer.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>

namespace espalier::shim {
namespace {

std::uint64_t KeyOf(const void* object) { return reinterpret_cast<std::uintptr_t>(object); }

// Numbers of queue pairs are unique in one device only.
std::uint64_t KeyOf(std::uint32_t device, std::uint32_t pair) {
  return std::uint64_t{device} << 32 | pair;
}

// A look-up takes nanoseconds and a turn milliseconds, so no look-up outlasts this many turns.
constexpr std::uint64_t kTurnsKept = 5000;

// kAsking requests have no payload to send. Requests that are not counted complete with opcodes
// that are not counted.
enum class Kind : std::uint8_t { kOutgoing, kAsking, kNotCounted };

Kind KindOf(ibv_wr_opcode opcode) {
  switch (opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
    case IBV_WR_SEND_WITH_INV:
    case IBV_WR_TSO:
      return Kind::kOutgoing;
    case IBV_WR_RDMA_READ:
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return Kind::kAsking;
    default:
      return Kind::kNotCounted;
  }
}

SendRequest RequestOf(const ObservedPair& pair, const ibv_send_wr& request) {
  const Kind kind = KindOf(request.opcode);
  if (kind == Kind::kNotCounted) return {};
  SendRequest counted = {
      .bytes = 0, .signalled = pair.all_signalled || (request.send_flags & IBV_SEND_SIGNALED) != 0};
  if (kind == Kind::kAsking) return counted;
  for (int i = 0; i < request.num_sge; ++i) counted.bytes += request.sg_list[i].length;
  return counted;
}

void CountList(ObservedPair& pair, const ibv_send_wr* first, const ibv_send_wr* end) {
  std::uint64_t words = 0;
  for (const ibv_send_wr* at = first; at != end; at = at->next) {
    words += TrafficCount::WordOf(RequestOf(pair, *at));
  }
  std::uint64_t at_word = pair.count.Reserve(words);
  for (const ibv_send_wr* at = first; at != end; at = at->next) {
    at_word = pair.count.Note(at_word, RequestOf(pair, *at));
  }
}

bool IsCounted(ibv_wc_opcode opcode) {
  return opcode < IBV_WC_RECV && opcode != IBV_WC_BIND_MW && opcode != IBV_WC_LOCAL_INV;
}

void CountCompletion(ObservedPair& pair, ibv_wc_status status, ibv_wc_opcode opcode) {
  if (IsCounted(opcode)) pair.count.Complete();
  if (status != IBV_WC_SUCCESS) pair.count.Fail();
}

}  // namespace

void BegunRequests::AddFurther(const SendRequest& request) {
  const bool is_added = Attempt([&] {
    if (others_ == nullptr) others_ = std::make_unique<std::vector<SendRequest>>();
    others_->push_back(request);
  });
  if (is_added) {
    ++count_;
  } else {
    takes_bytes_ = false;
  }
}

// The functions that replace those of devices.
struct Hooks {
  // The observer has an address that is known at link time, as finding it would add a call to each
  // of the four calls of a post by ibv_wr_*. It is never destroyed, as threads of the program may
  // post while the process exits.
  union Lasting {
    constexpr Lasting() : observer() {}
    ~Lasting() {}
    Observer observer;
  };
  static constinit Lasting lasting;
  static Observer& Us() { return lasting.observer; }

  static int PostSend(ibv_qp* pair, ibv_send_wr* request, ibv_send_wr** failed) {
    ObservedPair* const known = Us().pairs_.Find(KeyOf(pair));
    if (known == nullptr) [[unlikely]] {
      return Us().devices_.Find(KeyOf(pair->context))->post_send(pair, request, failed);
    }
    const int error = known->post_send(pair, request, failed);
    if (error == 0 && request != nullptr && request->next == nullptr) [[likely]] {
      known->count.Post(RequestOf(*known, *request));
    } else {
      CountList(*known, request, error == 0 || failed == nullptr ? nullptr : *failed);
    }
    return error;
  }

  static int PollCq(ibv_cq* queue, int entries, ibv_wc* completions) {
    const ObservedDevice& device = *Us().devices_.Find(KeyOf(queue->context));
    const int found = device.poll_cq(queue, entries, completions);
    ObservedPair* pair = nullptr;
    for (int i = 0; i < found; ++i) {
      const ibv_wc& completion = completions[i];
      const bool success = completion.status == IBV_WC_SUCCESS;
      if (success && !IsCounted(completion.opcode)) continue;
      const std::uint64_t key = KeyOf(device.number, completion.qp_num);
      if (pair == nullptr || pair->by_number.key != key) pair = Us().numbers_.Find(key);
      if (pair == nullptr) continue;
      CountCompletion(*pair, completion.status, success ? completion.opcode : IBV_WC_RECV);
    }
    return found;
  }

  static ibv_cq_ex* CreateQueue(ibv_context* context, ibv_cq_init_attr_ex* description) {
    const auto create = Us().devices_.Find(KeyOf(context))->create_cq_ex;
    ibv_cq_init_attr_ex wider = *description;
    wider.wc_flags |= IBV_WC_EX_WITH_QP_NUM;
    ibv_cq_ex* queue = create(context, &wider);
    if (queue == nullptr) queue = create(context, description);
    if (queue != nullptr && queue->start_poll != nullptr) {
      Attempt([&] { Us().Watch(*queue); });
    }
    return queue;
  }

  static void CountPolled(const ExtendedQueue& known, ibv_cq_ex* queue) {
    if (queue->read_qp_num == nullptr) return;
    const std::uint64_t key = KeyOf(known.device_number, queue->read_qp_num(queue));
    ObservedPair* const pair = Us().numbers_.Find(key);
    if (pair == nullptr) return;
    const bool success = queue->status == IBV_WC_SUCCESS;
    CountCompletion(*pair, queue->status, success ? queue->read_opcode(queue) : IBV_WC_RECV);
  }

  static int StartPoll(ibv_cq_ex* queue, ibv_poll_cq_attr* attributes) {
    const ExtendedQueue& known = *Us().extended_queues_.Find(KeyOf(queue));
    const int error = known.start_poll(queue, attributes);
    if (error == 0) CountPolled(known, queue);
    return error;
  }

  static int NextPoll(ibv_cq_ex* queue) {
    const ExtendedQueue& known = *Us().extended_queues_.Find(KeyOf(queue));
    const int error = known.next_poll(queue);
    if (error == 0) CountPolled(known, queue);
    return error;
  }

  static ExtendedPair& Known(ibv_qp_ex* pair) { return *Us().extended_pairs_.Find(KeyOf(pair)); }

  static void Begin(ExtendedPair& known, unsigned flags, Kind kind) {
    if (kind == Kind::kNotCounted) return known.begun.AddUncounted();
    known.begun.Add({.bytes = 0, .signalled = (flags & IBV_SEND_SIGNALED) != 0},
                    kind == Kind::kOutgoing);
  }

  // One instance for each function that begins a request.
  template <auto kMember, Kind kKind>
  struct Builder;
  template <typename... Arguments, void (*ibv_qp_ex::*kMember)(ibv_qp_ex*, Arguments...),
            Kind kKind>
  struct Builder<kMember, kKind> {
    static void Call(ibv_qp_ex* pair, Arguments... arguments) {
      ExtendedPair& known = Known(pair);
      Begin(known, pair->wr_flags, kKind);
      (known.original->*kMember)(pair, arguments...);
    }
    static void Install(ibv_qp_ex& pair) {
      if (pair.*kMember != nullptr) pair.*kMember = &Call;
    }
  };

  static void SetInlineData(ibv_qp_ex* pair, void* address, std::size_t bytes) {
    ExtendedPair& known = Known(pair);
    known.begun.AddBytes(bytes);
    known.original->wr_set_inline_data(pair, address, bytes);
  }
  static void SetInlineDataList(ibv_qp_ex* pair, std::size_t count, const ibv_data_buf* parts) {
    ExtendedPair& known = Known(pair);
    for (std::size_t i = 0; i < count; ++i) known.begun.AddBytes(parts[i].length);
    known.original->wr_set_inline_data_list(pair, count, parts);
  }
  static void SetPart(ibv_qp_ex* pair, std::uint32_t key, std::uint64_t address,
                      std::uint32_t bytes) {
    ExtendedPair& known = Known(pair);
    known.begun.AddBytes(bytes);
    known.original->wr_set_sge(pair, key, address, bytes);
  }
  static void SetPartList(ibv_qp_ex* pair, std::size_t count, const ibv_sge* parts) {
    ExtendedPair& known = Known(pair);
    for (std::size_t i = 0; i < count; ++i) known.begun.AddBytes(parts[i].length);
    known.original->wr_set_sge_list(pair, count, parts);
  }

  static int Complete(ibv_qp_ex* pair) {
    ExtendedPair& known = Known(pair);
    ObservedPair* const counted = known.counted;
    if (counted == nullptr) {
      known.begun.Clear();
      return known.original->wr_complete(pair);
    }
    if (const SendRequest* const only = known.begun.Only(); only != nullptr) [[likely]] {
      const SendRequest request{only->bytes, only->signalled || counted->all_signalled};
      counted->count.Post(request);
      known.begun.Clear();
      const int error = known.original->wr_complete(pair);
      if (error != 0) counted->count.Reserve(0 - TrafficCount::WordOf(request));
      return error;
    }
    std::uint64_t words = 0;
    known.begun.ForEach([&](SendRequest& request) {
      request.signalled |= counted->all_signalled;
      words += TrafficCount::WordOf(request);
    });
    // Counts before the device's function, after which another thread may post to this pair.
    std::uint64_t at = counted->count.Reserve(words);
    known.begun.ForEach([&](const SendRequest& request) { at = counted->count.Note(at, request); });
    known.begun.Clear();
    const int error = known.original->wr_complete(pair);
    if (error != 0) counted->count.Reserve(0 - words);
    return error;
  }
  static void Abort(ibv_qp_ex* pair) {
    ExtendedPair& known = Known(pair);
    known.begun.Clear();
    known.original->wr_abort(pair);
  }

  static void Install(ibv_qp_ex& pair) {
    Builder<&ibv_qp_ex::wr_rdma_write, Kind::kOutgoing>::Install(pair);
    Builder<&ibv_qp_ex::wr_rdma_write_imm, Kind::kOutgoing>::Install(pair);
    Builder<&ibv_qp_ex::wr_send, Kind::kOutgoing>::Install(pair);
    Builder<&ibv_qp_ex::wr_send_imm, Kind::kOutgoing>::Install(pair);
    Builder<&ibv_qp_ex::wr_send_inv, Kind::kOutgoing>::Install(pair);
    Builder<&ibv_qp_ex::wr_send_tso, Kind::kOutgoing>::Install(pair);
    Builder<&ibv_qp_ex::wr_rdma_read, Kind::kAsking>::Install(pair);
    Builder<&ibv_qp_ex::wr_atomic_cmp_swp, Kind::kAsking>::Install(pair);
    Builder<&ibv_qp_ex::wr_atomic_fetch_add, Kind::kAsking>::Install(pair);
    Builder<&ibv_qp_ex::wr_bind_mw, Kind::kNotCounted>::Install(pair);
    Builder<&ibv_qp_ex::wr_local_inv, Kind::kNotCounted>::Install(pair);
    pair.wr_set_inline_data = &SetInlineData;
    pair.wr_set_inline_data_list = &SetInlineDataList;
    pair.wr_set_sge = &SetPart;
    pair.wr_set_sge_list = &SetPartList;
    pair.wr_complete = &Complete;
    pair.wr_abort = &Abort;
  }
};

constinit Hooks::Lasting Hooks::lasting;

Observer& Observer::OfThisProcess() { return Hooks::Us(); }

void Observer::Watch(ibv_context& context) {
  const std::lock_guard lock(mutex_);
  ObservedDevice* const known = devices_.Find(KeyOf(&context));
  // A device at that address was closed unseen, if the functions are the driver's again.
  if (known != nullptr && context.ops.post_send != &Hooks::PostSend) {
    devices_.Erase(*known);
    Retire(old_devices_, *known);
  }
  Device(context);
}

ObservedDevice& Observer::Device(ibv_context& context) {
  ObservedDevice* const known = devices_.Find(KeyOf(&context));
  if (known != nullptr) return *known;
  auto* const device = new ObservedDevice;  // until Retire
  device->number = ++last_device_;
  device->post_send = context.ops.post_send;
  device->poll_cq = context.ops.poll_cq;
  verbs_context* const extended = verbs_get_ctx(&context);
  if (extended != nullptr) device->create_cq_ex = extended->create_cq_ex;
  devices_.Insert(*device, KeyOf(&context));
  context.ops.post_send = &Hooks::PostSend;
  context.ops.poll_cq = &Hooks::PollCq;
  if (device->create_cq_ex != nullptr) extended->create_cq_ex = &Hooks::CreateQueue;
  return *device;
}

void Observer::Forget(ibv_context& context) {
  const std::lock_guard lock(mutex_);
  ObservedDevice* const known = devices_.Find(KeyOf(&context));
  if (known == nullptr) return;
  devices_.Erase(*known);
  Retire(old_devices_, *known);
}

ObservedPair& Observer::Watch(ibv_qp& pair, const ibv_qp_init_attr& description) {
  const std::lock_guard lock(mutex_);
  const ObservedDevice& device = Device(*pair.context);
  auto* const observed = new ObservedPair(device, description.cap.max_send_wr,
                                          description.sq_sig_all != 0);  // until Retire
  numbers_.Insert(*observed, KeyOf(device.number, pair.qp_num));
  pairs_.Insert(*observed, KeyOf(&pair));
  ExtendedPair* const extended = extended_pairs_.Find(KeyOf(&pair));
  if (extended != nullptr) extended->counted = observed;
  return *observed;
}

void Observer::Forget(ibv_qp& pair) {
  const std::lock_guard lock(mutex_);
  ExtendedPair* const extended = extended_pairs_.Find(KeyOf(&pair));
  if (extended != nullptr) extended->counted = nullptr;
  if (ObservedPair* const known = pairs_.Find(KeyOf(&pair)); known != nullptr) {
    pairs_.Erase(*known);
    numbers_.Erase(*known);
    Retire(old_pairs_, *known);
  }
}

void Observer::ForgetExtended(ibv_qp& pair) {
  const std::lock_guard lock(mutex_);
  if (ExtendedPair* const known = extended_pairs_.Find(KeyOf(&pair)); known != nullptr) {
    extended_pairs_.Erase(*known);
    Retire(old_extended_pairs_, *known);
  }
}

// A device has few kinds of queue pairs, and all pairs of one kind share their functions.
// Copies only what every version of libibverbs has: in an older one, data of the driver follow.
const ibv_qp_ex& Observer::FunctionsOf(const ibv_qp_ex& pair) {
  constexpr std::size_t kFirst = offsetof(ibv_qp_ex, wr_atomic_cmp_swp);
  constexpr std::size_t kBytes = offsetof(ibv_qp_ex, wr_abort) + sizeof(pair.wr_abort) - kFirst;
  const auto functions = [](const auto& of) { return reinterpret_cast<const char*>(&of) + kFirst; };
  for (const auto& known : functions_) {
    if (std::memcmp(functions(*known), functions(pair), kBytes) == 0) return *known;
  }
  auto copy = std::make_unique<ibv_qp_ex>();
  std::memcpy(reinterpret_cast<char*>(copy.get()) + kFirst, functions(pair), kBytes);
  functions_.push_back(std::move(copy));
  return *functions_.back();
}

void Observer::WatchExtended(ibv_qp_ex& pair) {
  const std::lock_guard lock(mutex_);
  if (pair.wr_complete == nullptr || pair.wr_complete == &Hooks::Complete) return;
  auto extended = std::make_unique<ExtendedPair>();
  extended->original = &FunctionsOf(pair);
  extended->counted = pairs_.Find(KeyOf(&pair));
  extended_pairs_.Insert(*extended.release(), KeyOf(&pair));  // until Retire
  Hooks::Install(pair);
}

void Observer::Watch(ibv_cq_ex& queue) {
  const std::lock_guard lock(mutex_);
  auto extended = std::make_unique<ExtendedQueue>();
  extended->device_number = Device(*queue.context).number;
  extended->start_poll = queue.start_poll;
  extended->next_poll = queue.next_poll;
  extended_queues_.Insert(*extended.release(), KeyOf(&queue));  // until Retire
  queue.start_poll = &Hooks::StartPoll;
  queue.next_poll = &Hooks::NextPoll;
}

void Observer::Forget(ibv_cq& queue) {
  const std::lock_guard lock(mutex_);
  ExtendedQueue* const known = extended_queues_.Find(KeyOf(&queue));
  if (known == nullptr) return;
  extended_queues_.Erase(*known);
  Retire(old_queues_, *known);
}

void Observer::EndForgotten() {
  const std::lock_guard lock(mutex_);
  ++turn_;
  const auto end = [this](auto& retired) {
    const auto kept = std::find_if(retired.begin(), retired.end(),
                                   [&](const auto& old) { return old.at + kTurnsKept > turn_; });
    retired.erase(retired.begin(), kept);
  };
  end(old_devices_);
  end(old_pairs_);
  end(old_extended_pairs_);
  end(old_queues_);
}

}  // namespace espalier::shim
