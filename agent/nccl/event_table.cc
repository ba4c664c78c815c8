#include "agent/nccl/event_table.h"

#include <new>
#include <utility>

#include "agent/nccl/profiler_abi.h"

namespace espalier::nccl {
namespace {

constexpr unsigned kIndexBits = 17;
constexpr std::size_t kMaxEvents = (1U << kIndexBits) - 1;
constexpr std::size_t kMaxStopped = 1U << 14;
// Events without children that start after they have stopped.
constexpr std::uint64_t kLeaves = kProxyStep | kProxyControl | kKernelChannel | kNetPlugin;

void* HandleOf(std::size_t index, std::uint64_t use) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): never followed
  return reinterpret_cast<void*>(use << kIndexBits | (index + 1));
}

}  // namespace

EventTable::Slot* EventTable::SlotOf(void* handle) {
  const auto number = reinterpret_cast<std::uintptr_t>(handle);
  const std::size_t index = (number & kMaxEvents) - 1;
  if (index >= slots_.size() || slots_[index].use != number >> kIndexBits) return nullptr;
  return &slots_[index];
}

void* EventTable::Add(Event event) {
  if (free_.empty()) {
    if (slots_.size() >= kMaxEvents) return nullptr;
    slots_.emplace_back();
    free_.push_back(slots_.size() - 1);
  }
  const std::size_t index = free_.front();
  free_.pop_front();
  Slot& slot = slots_[index];
  ++slot.use;
  slot.state = Slot::State::kLive;
  slot.event = std::move(event);
  return HandleOf(index, slot.use);
}

Event* EventTable::Find(void* handle) {
  Slot* const slot = SlotOf(handle);
  return slot == nullptr || slot->state == Slot::State::kFree ? nullptr : &slot->event;
}

Event* EventTable::FindLive(void* handle) {
  Slot* const slot = SlotOf(handle);
  return slot == nullptr || slot->state != Slot::State::kLive ? nullptr : &slot->event;
}

void EventTable::Free(std::size_t index) {
  slots_[index].state = Slot::State::kFree;
  slots_[index].event = {};
  try {
    free_.push_back(index);
  } catch (const std::bad_alloc&) {
    // The slot is lost, as it cannot be noted as free.
  }
}

void EventTable::Stop(void* handle) {
  Slot* const slot = SlotOf(handle);
  if (slot == nullptr || slot->state != Slot::State::kLive) return;
  const auto index = static_cast<std::size_t>(slot - slots_.data());
  if ((slot->event.type & kLeaves) != 0) return Free(index);
  stopped_.push_back(index);
  slot->state = Slot::State::kStopped;
  slot->event.operation.reset();
  if (stopped_.size() <= kMaxStopped) return;
  Free(stopped_.front());
  stopped_.pop_front();
}

void EventTable::EndAllOf(std::uint64_t communicator,
                          const std::function<void(Event&)>& last_word) {
  std::erase_if(stopped_, [&](std::size_t index) {
    const bool ends = slots_[index].event.communicator == communicator;
    if (ends) Free(index);
    return ends;
  });
  for (std::size_t index = 0; index < slots_.size(); ++index) {
    Slot& slot = slots_[index];
    if (slot.state != Slot::State::kLive || slot.event.communicator != communicator) continue;
    last_word(slot.event);
    Free(index);
  }
}

}  // namespace espalier::nccl
