#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "agent/probe/probe_socket.h"
#include "common/base/metrics.h"
#include "common/base/time/event_loop.h"
#include "proto/messages.h"

namespace espalier::agent {

struct ProberOptions {
  std::size_t max_orders = 256;  // at the same time; further ones are refused with an error
  std::uint32_t max_probes_per_second = 100'000;
  std::size_t burst = 64;
  // Limits of the controller's orders, so that an attacker in control of it cannot use hosts
  // against others. Fabrics have up to six hops, and probes must not get far beyond them. Ports
  // below 1024 belong to services that answer strangers.
  std::uint8_t max_ttl = 16;
  std::uint16_t min_destination_port = 1'024;
  Duration max_timeout = std::chrono::seconds(10);
  Duration report_interval = std::chrono::milliseconds(20);
  std::size_t report_answers = 512;
};

// Carries out probe orders. One order at a time sends, at its own rate, while orders that have sent
// everything wait for answers. Answers are reported in batches; the report with `done` comes after
// the timeout or with the last answer. Only the first answer to a probe counts, and only if it
// quotes the mark of the probe: a stranger who has not seen the probe has to guess 32 bits, or 48
// over IPv6. All other answers are counted, however many arrive: a limit on answers would let the
// stranger silence paths.
// Thread safety: the agent's loop thread, which also calls back reports. An error in an order is
// called back inside Start.
class Prober {
 public:
  using OnReport = std::function<void(const wire::ProbeReport&)>;

  Prober(const ProberOptions& options, EventLoop& loop, ProbeSocket& socket, Metrics& metrics);
  ~Prober();
  Prober(const Prober&) = delete;
  Prober& operator=(const Prober&) = delete;

  // Starts an order of the controller. An order is ignored if this controller has used its number
  // before. An order beyond the limits is answered by a report with an error.
  void Start(wire::ProbeOrder order, OnReport on_report);
  // Starts a check of the agent's own, which has no number and sends before all orders.
  void StartUrgent(wire::ProbeOrder order, OnReport on_report);
  // Drops the orders of the controller without reports, as it has gone. Numbers may then repeat.
  void ForgetController();

 private:
  struct Sent {
    TimePoint at;
    ProbeMark mark;
  };
  enum class Match { kNone, kWrongMark, kAnswer };
  struct Run {
    wire::ProbeOrder order;
    OnReport on_report;
    bool urgent = false;
    std::size_t next = 0;  // index of the next probe: all TTLs of a port, then the next port
    double tokens = 1;
    TimePoint refilled;
    std::unordered_map<std::uint32_t, Sent> unanswered;  // by port and TTL
    wire::ProbeReport batch;
    TimerPtr timeout;

    std::size_t Size() const { return order.source_ports.size() * order.ttls.size(); }
  };
  using Runs = std::list<Run>;

  // Returns how an order of the controller exceeds the limits, or "".
  std::string Excess(const wire::ProbeOrder& order) const;
  bool HasRoom(const wire::ProbeOrder& order, const OnReport& on_report) const;
  Run MakeRun(wire::ProbeOrder order, OnReport on_report, bool urgent) const;
  void Pump();
  // Returns false if the order has to wait before it can send more.
  bool SendSome(Run& run);
  void Listen(Runs::iterator run);
  void HandleReply(const ProbeReply& reply);
  Match Take(Run& run, const ProbeReply& reply);
  void Report(Run& run);
  void Finish(Runs& runs, Runs::iterator run, std::string error);

  const ProberOptions options_;
  EventLoop& loop_;
  ProbeSocket& socket_;
  Counter& sent_;
  Counter& answered_;
  Counter& unmatched_;
  Counter& forged_;
  Counter& refused_;
  Runs sending_;                                    // the front one sends
  Runs listening_;                                  // all probes sent
  std::unordered_set<std::uint64_t> used_numbers_;  // of orders of this controller
  TimerPtr pump_timer_;
  TimerPtr report_timer_;
};

}  // namespace espalier::agent
