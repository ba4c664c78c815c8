#pragma once

#include "common/base/event_loop.h"
#include "common/base/unique_fd.h"

namespace espalier::io {

// Tells the service manager of a daemon how it is (sd_notify(3), whose protocol is datagrams to the
// socket in NOTIFY_SOCKET): that it is ready, as this is made; that its loop still turns, twice in
// each interval of the manager's watchdog (WATCHDOG_USEC); and that it stops, as this goes. A loop
// that hangs says nothing, and the manager starts the daemon anew. Without a manager it does
// nothing.
// Thread safety: the loop's thread. The loop must outlive it.
class ServiceNotifier {
 public:
  explicit ServiceNotifier(EventLoop& loop);
  ServiceNotifier(const ServiceNotifier&) = delete;
  ServiceNotifier& operator=(const ServiceNotifier&) = delete;
  ~ServiceNotifier();

 private:
  void Tell(const char* state) const;
  void Beat();

  EventLoop& loop_;
  UniqueFd socket_;  // connected; none without a manager
  Duration beat_{};  // zero: there is no watchdog
  TimerPtr timer_;
};

}  // namespace espalier::io
