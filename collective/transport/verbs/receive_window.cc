#include "collective/transport/verbs/receive_window.h"

#include "common/base/check.h"

namespace espalier::transport {

ReceiveWindow::Arrival ReceiveWindow::Accept(std::uint32_t low_bits) {
  const std::uint32_t ahead = low_bits - static_cast<std::uint32_t>(released_);
  const std::uint32_t behind = 0 - ahead;
  // Soft RoCE sometimes delivers a message twice, when acknowledgements are late.
  if (behind >= 1 && behind <= slots_ && behind <= released_) {
    return Has(released_ - behind) ? Arrival::kOverAnother : Arrival::kRepeated;
  }
  if (ahead >= slots_) return Arrival::kTooEarly;
  arrived_ |= BitOf(released_ + ahead);
  is_needed_ = false;
  return Arrival::kExpected;
}

void ReceiveWindow::Release() {
  ESPALIER_CHECK(HasNext());
  arrived_ &= ~BitOf(released_);
  ++released_;
}

void ReceiveWindow::BeginTelling() {
  told_ = released_;
  is_telling_ = true;
}

void ReceiveWindow::EndTelling(bool succeeded) {
  is_telling_ = false;
  if (!succeeded) told_ = 0;
}

}  // namespace espalier::transport
