#include "agent/nccl/profiler.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <utility>

namespace espalier::nccl {
namespace {

constexpr std::uint64_t kOurEvents =
    kCollective | kPointToPoint | kProxyOp | kProxyStep | kNetPlugin;
constexpr int kQueuePairLimit = 1 << 24;

std::string_view TextOf(const char* text) { return text == nullptr ? "" : text; }

std::uint64_t StepBytes(const ProxyOp& op) {
  if (op.steps <= 0 || op.chunk_bytes <= 0) return 0;
  return static_cast<std::uint64_t>(op.steps) * static_cast<std::uint64_t>(op.chunk_bytes);
}

bool IsCall(std::uint64_t type) { return type == kCollective || type == kPointToPoint; }

}  // namespace

void WarnOnce(const char* what) {
  static std::atomic<bool> told = false;
  if (!told.exchange(true)) std::fprintf(stderr, "espalier-nccl: %s\n", what);
}

void* Profiler::Open(int ranks, Expect* expect, const Calls* other, void* other_context) {
  const std::lock_guard lock(mutex_);
  has_shim_ = expect != nullptr;
  expectations_.TellTo(expect);
  communicators_[++last_communicator_] = {ranks, other, other_context};
  // NOLINTNEXTLINE(performance-no-int-to-ptr): never followed
  return reinterpret_cast<void*>(last_communicator_);
}

int Profiler::ActivationMask() {
  const int other = __atomic_load_n(&other_mask_, __ATOMIC_RELAXED);
  const std::lock_guard lock(mutex_);
  return other | (has_shim_ ? static_cast<int>(kOurEvents) : 0);
}

bool Profiler::OtherWants(std::uint64_t type) const {
  const int mask = __atomic_load_n(&other_mask_, __ATOMIC_RELAXED);
  return (type & static_cast<unsigned>(mask)) != 0;
}

void* Profiler::Start(void* context, const EventFields& fields, void* descriptor) {
  const auto id = reinterpret_cast<std::uintptr_t>(context);
  // Handles of another process are meaningless here.
  const bool is_foreign = fields.proxy_op != nullptr && fields.proxy_op->process != getpid();
  void* const parent = is_foreign ? nullptr : *fields.parent;
  Communicator communicator{};
  void* other_parent = nullptr;
  void* other_group = nullptr;
  {
    const std::lock_guard lock(mutex_);
    const auto known = communicators_.find(id);
    if (known == communicators_.end()) return nullptr;
    communicator = known->second;
    const auto other_of = [&](void* handle) {
      const Event* const event = events_.Find(handle);
      return event == nullptr ? nullptr : event->other;
    };
    other_parent = other_of(parent);
    if (fields.group != nullptr) other_group = other_of(*fields.group);
  }
  void* other = nullptr;
  if (communicator.other != nullptr && OtherWants(fields.type)) {
    other = StartOther(communicator, fields, descriptor, other_parent, other_group);
  }
  const std::lock_guard lock(mutex_);
  if (communicators_.count(id) == 0) return nullptr;
  return Note(id, communicator.ranks, fields, parent, other);
}

void* Profiler::StartOther(const Communicator& communicator, const EventFields& fields,
                           void* descriptor, void* parent, void* group) {
  void* const our_parent = std::exchange(*fields.parent, parent);
  void* const our_group = fields.group == nullptr ? nullptr : std::exchange(*fields.group, group);
  void* handle = nullptr;
  if (communicator.other->start(communicator.other_context, &handle, descriptor) != kSuccess) {
    WarnOnce("the other profiler plugin refused an event");
    handle = nullptr;
  }
  *fields.parent = our_parent;
  if (fields.group != nullptr) *fields.group = our_group;
  return handle;
}

void* Profiler::Note(std::uint64_t id, int ranks, const EventFields& fields, void* parent,
                     void* other) {
  Event event{.type = fields.type, .communicator = id, .other = other};
  if (has_shim_ && IsCall(fields.type)) {
    event.most_bytes = MostBytes(TextOf(fields.function), fields.count, TextOf(fields.datatype),
                                 ranks, fields.channels);
  } else if (has_shim_ && fields.proxy_op != nullptr && fields.proxy_op->is_send != 0) {
    const ProxyOp& op = *fields.proxy_op;
    const Event* const call = events_.Find(parent);
    std::uint64_t bytes = StepBytes(op);
    if (call != nullptr && IsCall(call->type)) bytes = std::min(bytes, call->most_bytes);
    event.operation = expectations_.Start({id, op.channel, op.peer}, bytes);
  } else if (has_shim_ && fields.type == kProxyStep) {
    event.parent = parent;
  } else {
    if (has_shim_ && fields.net_plugin != nullptr) NotePost(*fields.net_plugin, parent);
    if (other == nullptr) return nullptr;
  }
  return events_.Add(std::move(event));
}

void Profiler::NotePost(const NetPlugin& post, void* step) {
  if (post.id != kVerbsPlugin || post.data == nullptr) return;
  const auto& details = *static_cast<const QueuePairEvent*>(post.data);
  if (details.type != kQueuePairEvent || details.queue_pair <= 0 ||
      details.queue_pair >= kQueuePairLimit) {
    return;
  }
  const Event* const of_step = events_.FindLive(step);
  Event* const of_op = of_step == nullptr ? nullptr : events_.FindLive(of_step->parent);
  if (of_op == nullptr || !of_op->operation) return;
  expectations_.HandlePost(*of_op->operation, static_cast<std::uint32_t>(details.queue_pair),
                           details.bytes);
}

Profiler::OtherEvent Profiler::OtherEventOf(const Event* event) const {
  if (event == nullptr || event->other == nullptr) return {};
  const auto known = communicators_.find(event->communicator);
  if (known == communicators_.end()) return {};
  return {known->second.other, event->other};
}

void Profiler::Stop(void* handle) {
  OtherEvent other;
  {
    const std::lock_guard lock(mutex_);
    Event* const event = events_.FindLive(handle);
    if (event == nullptr) return;
    if (event->operation) expectations_.Stop(*event->operation);
    other = OtherEventOf(event);
    events_.Stop(handle);
  }
  if (other.calls != nullptr && other.calls->stop(other.handle) != kSuccess) {
    WarnOnce("the other profiler plugin could not stop an event");
  }
}

void Profiler::Record(void* handle, int state, void* arguments) {
  OtherEvent other;
  {
    const std::lock_guard lock(mutex_);
    other = OtherEventOf(events_.FindLive(handle));
  }
  if (other.calls != nullptr && other.calls->record(other.handle, state, arguments) != kSuccess) {
    WarnOnce("the other profiler plugin could not record an event's state");
  }
}

void Profiler::Finalize(void* context) {
  const auto id = reinterpret_cast<std::uintptr_t>(context);
  Communicator ended{};
  {
    const std::lock_guard lock(mutex_);
    const auto known = communicators_.find(id);
    if (known == communicators_.end()) return;
    ended = known->second;
    communicators_.erase(known);
    events_.EndAllOf(id, [this](Event& event) {
      if (event.operation) expectations_.Stop(*event.operation);
    });
    expectations_.Forget(id);
  }
  if (ended.other != nullptr && ended.other->finalize(ended.other_context) != kSuccess) {
    WarnOnce("the other profiler plugin could not be finalized");
  }
}

}  // namespace espalier::nccl
