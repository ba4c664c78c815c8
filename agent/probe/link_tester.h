#pragma once

#include <cstdint>
#include <functional>
#include <map>

#include "agent/probe/train_receiver.h"
#include "agent/probe/train_sender.h"
#include "agent/probe/train_socket.h"
#include "common/base/metrics.h"
#include "common/base/time/event_loop.h"
#include "proto/messages.h"

namespace espalier::agent {

struct LinkTesterOptions {
  TrainSenderOptions sender;
  TrainReceiverOptions receiver;
  Duration report_interval = std::chrono::seconds(1);
  // Trains of urgent orders that end within this time share a report.
  Duration urgent_interval = std::chrono::milliseconds(5);
  std::size_t max_rows = 2'048;  // of a report, of trains sent and of trains received each
};

// Carries out the controller's orders of probe trains: sends and receives them, and reports those
// that have ended, in batches.
// Thread safety: the agent's loop thread, which also calls back reports.
class LinkTester {
 public:
  using OnReport = std::function<void(wire::TrainReport)>;

  LinkTester(const LinkTesterOptions& options, EventLoop& loop, TrainSocket& socket,
             Metrics& metrics, TrainSender::IsOwnAddress is_own, OnReport on_report);

  void Handle(const wire::TrainOrder& order);
  // Drops all orders and what is not yet reported, as their controller has gone.
  void ForgetController();

 private:
  // Reports what has been gathered soon enough for a train that has just ended.
  void Schedule(bool urgent);
  void Report();

  const LinkTesterOptions options_;
  EventLoop& loop_;
  const OnReport on_report_;
  // Trains that have ended, by number: a number occurs once in a report.
  std::map<std::uint64_t, wire::SentTrain> sent_;
  std::map<std::uint64_t, wire::ReceivedTrain> received_;
  TimerPtr timer_;
  bool is_urgent_ = false;  // the timer is that of an urgent train
  TrainSender sender_;
  TrainReceiver receiver_;
};

}  // namespace espalier::agent
