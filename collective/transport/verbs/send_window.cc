#include "collective/transport/verbs/send_window.h"

#include <algorithm>

namespace espalier::transport {

void SendWindow::Commit() {
  sent_[SlotOf(committed_)] = false;
  waiting_.push_back(committed_++);
}

void SendWindow::MarkArrived(std::uint64_t message) {
  sent_[SlotOf(message)] = true;
  is_needed_ = false;
}

bool SendWindow::MarkReleased(std::uint64_t released) {
  if (released > committed_) return false;
  if (released <= freed_) return true;
  freed_ = released;
  is_needed_ = false;
  return true;
}

void SendWindow::Settle(std::vector<std::uint64_t> uncertain, std::uint64_t released,
                        std::uint64_t arrived) {
  // Push the highest number first, so that they end up in order before all others.
  std::sort(uncertain.rbegin(), uncertain.rend());
  for (const std::uint64_t message : uncertain) {
    if (message < released || (arrived >> SlotOf(message) & 1) != 0) {
      MarkArrived(message);
    } else {
      waiting_.push_front(message);
    }
  }
}

bool SendWindow::IsFlushed() const {
  return std::all_of(sent_.begin(), sent_.end(), [](bool is_sent) { return is_sent; });
}

}  // namespace espalier::transport
