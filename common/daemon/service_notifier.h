#pragma once

#include "common/base/time/event_loop.h"
#include "common/base/unique_fd.h"

namespace espalier::io {

// Reports a daemon's state to the service manager (sd_notify(3): datagrams to the socket in
// NOTIFY_SOCKET). Reports that the daemon is ready on construction, that its loop still runs twice
// per watchdog interval (WATCHDOG_USEC), and that it stops on destruction. If the loop hangs, the
// reports cease and the manager restarts the daemon. Does nothing without a service manager.
// Thread safety: the loop's thread. The loop must outlive it.
class ServiceNotifier {
 public:
  explicit ServiceNotifier(EventLoop& loop);
  ServiceNotifier(const ServiceNotifier&) = delete;
  ServiceNotifier& operator=(const ServiceNotifier&) = delete;
  ~ServiceNotifier();

  // The process goes on with another notifier: this one's end is not that of the service.
  void StartAgain() { starts_again_ = true; }

 private:
  void Tell(const char* state) const;
  void Beat();

  EventLoop& loop_;
  UniqueFd socket_;  // connected; closed without a manager
  Duration beat_{};  // zero: no watchdog
  bool starts_again_ = false;
  TimerPtr timer_;
};

}  // namespace espalier::io
