#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "agent/probe/probe_socket.h"
#include "common/base/event_loop.h"
#include "common/base/metrics.h"
#include "proto/messages.h"

namespace espalier::agent {

struct ProberOptions {
  std::size_t max_orders = 256;  // at work; further ones are refused with an error
  std::uint32_t max_probes_per_second = 100'000;
  std::size_t burst = 64;
  // Of the controller's orders, which could use hosts against others if it were broken into.
  // Fabrics have up to six hops; what is behind them is not to be reached. Services that answer
  // strangers have the ports below 1024.
  std::uint8_t max_ttl = 16;
  std::uint16_t min_destination_port = 1'024;
  Duration max_timeout = std::chrono::seconds(10);
  Duration report_interval = std::chrono::milliseconds(20);
  std::size_t report_answers = 512;
};

// Carries out probe orders: one at a time is sending, at its own pace, while those that have sent
// everything still listen. Answers are reported in batches, `done` comes after the timeout or
// with the last answer. Only the first answer to a probe counts. Silence is no answer.
// Thread safety: the agent's loop thread; reports are called back from it, an error in an order
// already inside Start.
class Prober {
 public:
  using OnReport = std::function<void(const wire::ProbeReport&)>;

  Prober(const ProberOptions& options, EventLoop& loop, ProbeSocket& socket, Metrics& metrics);
  ~Prober();
  Prober(const Prober&) = delete;
  Prober& operator=(const Prober&) = delete;

  // An order of the controller. One whose number this controller has used before is ignored, one
  // beyond the limits is answered by a report with an error.
  void Start(wire::ProbeOrder order, OnReport on_report);
  // A check of the agent's own: goes ahead of all orders, and has no number.
  void StartUrgent(wire::ProbeOrder order, OnReport on_report);
  // Drops the controller's orders without reports: it is gone, and the next one counts anew.
  void ForgetController();

 private:
  struct Run {
    wire::ProbeOrder order;
    OnReport on_report;
    bool urgent = false;
    std::size_t next = 0;  // probe: port-major
    double tokens = 1;
    TimePoint refilled;
    std::unordered_map<std::uint32_t, TimePoint> unanswered;  // by port and TTL: when sent
    wire::ProbeReport batch;
    TimerPtr timeout;

    std::size_t Size() const { return order.source_ports.size() * order.ttls.size(); }
  };
  using Runs = std::list<Run>;

  // What is wrong with an order of the controller, or "".
  std::string Excess(const wire::ProbeOrder& order) const;
  bool HasRoom(const wire::ProbeOrder& order, const OnReport& on_report) const;
  Run MakeRun(wire::ProbeOrder order, OnReport on_report, bool urgent) const;
  void Pump();
  // False where the order has to wait for its turn to send.
  bool SendSome(Run& run);
  void Listen(Runs::iterator run);
  void HandleReply(const ProbeReply& reply);
  bool Take(Run& run, const ProbeReply& reply);
  void Report(Run& run);
  void Finish(Runs& runs, Runs::iterator run, std::string error);

  const ProberOptions options_;
  EventLoop& loop_;
  ProbeSocket& socket_;
  Counter& sent_;
  Counter& answered_;
  Counter& refused_;
  Runs sending_;                                    // the front one sends
  Runs listening_;                                  // all sent
  std::unordered_set<std::uint64_t> used_numbers_;  // of this controller's orders
  TimerPtr pump_timer_;
  TimerPtr report_timer_;
};

}  // namespace espalier::agent
