#include "agent/probe/prober.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

// Problem: orders come from the controller (path mapping, many probes, patient) and from the path
// guard (few probes, urgent), and share one socket. The send rate is limited, and answers arrive in
// any order, late, or never.
// Idea: two lists of runs. The front of sending_ sends as its token bucket allows; urgent runs are
// inserted before all others. A run that has sent everything moves to listening_ until its last
// answer or its timeout, so that waiting for answers never delays sending. An answer is matched to
// a run by addresses and destination port, then by source port and TTL, and believed if it quotes
// the probe's mark.
// Invariant: a run is in exactly one list. Between calls pump_timer_ is set if sending_ is not
// empty. A probe is in `unanswered` from its sending to its first answer.
// Cost: O(1) for each probe; O(runs) for each answer, of which there are at most max_orders.

namespace espalier::agent {
namespace {

constexpr Duration kMinWait = std::chrono::milliseconds(1);
constexpr std::size_t kRememberedNumbers = 65'536;

std::uint32_t Key(std::uint16_t port, std::uint8_t ttl) { return std::uint32_t{port} << 8 | ttl; }

std::uint32_t MicrosecondsBetween(TimePoint from, TimePoint to) {
  return static_cast<std::uint32_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(to - from).count());
}

// Routers quote as much of an IPv6 packet as fits (RFC 4443, section 2.4), so there the nonce must
// be quoted. Over IPv4 the head alone has 32 bits.
bool Quotes(const ProbeReply& reply, const ProbeMark& mark) {
  const bool is_short = reply.mark.nonce == 0 && reply.source.IsV4();
  return reply.mark.head == mark.head && (is_short || reply.mark.nonce == mark.nonce);
}

}  // namespace

Prober::Prober(const ProberOptions& options, EventLoop& loop, ProbeSocket& socket, Metrics& metrics)
    : options_(options),
      loop_(loop),
      socket_(socket),
      sent_(metrics.MakeCounter("espalier_agent_probes_sent_total", "Probes sent")),
      answered_(metrics.MakeCounter("espalier_agent_probes_answered_total",
                                    "Probes that a switch or host answered in time")),
      unmatched_(metrics.MakeCounter(
          "espalier_agent_probe_answers_unmatched_total",
          "Answers for which no probe waited, as they were late, repeated or invented")),
      forged_(metrics.MakeCounter(
          "espalier_agent_probe_answers_forged_total",
          "Answers that named a probe that waited, but did not quote its mark: somebody invents "
          "answers")),
      refused_(metrics.MakeCounter("espalier_agent_probe_orders_refused_total",
                                   "Probe orders refused because they exceed the agent's "
                                   "limits")) {
  socket_.OnReply([this](const ProbeReply& reply) { HandleReply(reply); });
}

Prober::~Prober() { socket_.OnReply({}); }

void Prober::Start(wire::ProbeOrder order, OnReport on_report) {
  if (used_numbers_.contains(order.order)) return;
  if (std::string excess = Excess(order); !excess.empty()) {
    refused_.Add();
    return on_report({.order = order.order, .done = true, .error = std::move(excess)});
  }
  if (!HasRoom(order, on_report)) return;
  if (used_numbers_.size() >= kRememberedNumbers) used_numbers_.clear();
  used_numbers_.insert(order.order);
  sending_.push_back(MakeRun(std::move(order), std::move(on_report), false));
  if (!pump_timer_) Pump();
}

void Prober::StartUrgent(wire::ProbeOrder order, OnReport on_report) {
  if (!HasRoom(order, on_report)) return;
  const auto first_order =
      std::find_if(sending_.begin(), sending_.end(), [](const Run& run) { return !run.urgent; });
  sending_.insert(first_order, MakeRun(std::move(order), std::move(on_report), true));
  Pump();
}

std::string Prober::Excess(const wire::ProbeOrder& order) const {
  const auto highest = std::max_element(order.ttls.begin(), order.ttls.end());
  if (highest != order.ttls.end() && *highest > options_.max_ttl) {
    return fmt::format("TTL {} exceeds this agent's max_probe_ttl, which is {}", *highest,
                       options_.max_ttl);
  }
  if (order.destination_port < options_.min_destination_port) {
    return fmt::format("destination port {} is not allowed (use {} or higher)",
                       order.destination_port, options_.min_destination_port);
  }
  return "";
}

bool Prober::HasRoom(const wire::ProbeOrder& order, const OnReport& on_report) const {
  if (sending_.size() + listening_.size() < options_.max_orders) return true;
  on_report({.order = order.order,
             .done = true,
             .error = fmt::format("{} probe orders are already running (try again later)",
                                  options_.max_orders)});
  return false;
}

Prober::Run Prober::MakeRun(wire::ProbeOrder order, OnReport on_report, bool urgent) const {
  Run run{.order = std::move(order), .on_report = std::move(on_report), .urgent = urgent};
  run.order.probes_per_second =
      std::clamp(run.order.probes_per_second, 1U, options_.max_probes_per_second);
  run.refilled = loop_.Now();
  run.batch.order = run.order.order;
  return run;
}

void Prober::ForgetController() {
  const auto of_controller = [](const Run& run) { return !run.urgent; };
  sending_.remove_if(of_controller);
  listening_.remove_if(of_controller);
  used_numbers_.clear();
}

void Prober::Pump() {
  pump_timer_.reset();
  while (!sending_.empty()) {
    const auto run = sending_.begin();
    if (!SendSome(*run)) {
      const double missing = std::max(0.0, 1.0 - run->tokens);
      const auto wait = std::chrono::duration_cast<Duration>(
          std::chrono::duration<double>(missing / run->order.probes_per_second));
      pump_timer_ = loop_.After(std::max(wait, kMinWait), [this] { Pump(); });
      return;
    }
    // After an error the run has been removed.
    if (!sending_.empty() && sending_.begin() == run) Listen(run);
  }
}

bool Prober::SendSome(Run& run) {
  const TimePoint now = loop_.Now();
  const double elapsed = SecondsOf(now - run.refilled);
  run.refilled = now;
  run.tokens = std::min(run.tokens + elapsed * run.order.probes_per_second,
                        static_cast<double>(options_.burst));
  while (run.next < run.Size()) {
    if (run.tokens < 1) return false;
    const Probe probe{.source = run.order.source,
                      .destination = run.order.destination,
                      .source_port = run.order.source_ports[run.next / run.order.ttls.size()],
                      .destination_port = run.order.destination_port,
                      .destination_qpn = run.order.destination_qpn,
                      .ttl = run.order.ttls[run.next % run.order.ttls.size()],
                      .flow_protocol = run.order.flow_protocol};
    const Result<ProbeMark> sent = socket_.Send(probe);
    if (!sent && sent.error().code == ErrorCode::kUnavailable) return false;
    if (!sent) {
      Finish(sending_, sending_.begin(), sent.error().message);
      return true;
    }
    sent_.Add();
    run.tokens -= 1;
    run.unanswered.insert_or_assign(Key(probe.source_port, probe.ttl), Sent{now, *sent});
    ++run.batch.sent;
    ++run.next;
  }
  return true;
}

void Prober::Listen(Runs::iterator run) {
  listening_.splice(listening_.end(), sending_, run);
  if (run->unanswered.empty()) return Finish(listening_, run, "");
  const Duration timeout =
      std::min<Duration>(std::chrono::microseconds(std::min<std::uint64_t>(
                             run->order.timeout_us, std::uint64_t{3'600} * 1'000'000)),
                         options_.max_timeout);
  run->timeout = loop_.After(timeout, [this, run] { Finish(listening_, run, ""); });
}

void Prober::HandleReply(const ProbeReply& reply) {
  Match best = Match::kNone;
  for (Run& run : sending_) best = std::max(best, Take(run, reply));
  for (auto run = listening_.begin(); run != listening_.end();) {
    const auto current = run++;
    best = std::max(best, Take(*current, reply));
    if (current->unanswered.empty()) Finish(listening_, current, "");
  }
  Counter& counter = best == Match::kAnswer      ? answered_
                     : best == Match::kWrongMark ? forged_
                                                 : unmatched_;
  counter.Add();
}

Prober::Match Prober::Take(Run& run, const ProbeReply& reply) {
  if (run.order.source != reply.source || run.order.destination != reply.destination ||
      run.order.destination_port != reply.destination_port) {
    return Match::kNone;
  }
  const auto probe = run.unanswered.find(Key(reply.source_port, reply.ttl));
  if (probe == run.unanswered.end()) return Match::kNone;
  if (!Quotes(reply, probe->second.mark)) return Match::kWrongMark;
  run.batch.answers.push_back({.source_port = reply.source_port,
                               .ttl = reply.ttl,
                               .responder = reply.responder,
                               .rtt_us = MicrosecondsBetween(probe->second.at, loop_.Now())});
  run.unanswered.erase(probe);
  if (run.batch.answers.size() >= options_.report_answers) {
    Report(run);
  } else if (!report_timer_) {
    report_timer_ = loop_.After(options_.report_interval, [this] {
      report_timer_.reset();
      for (Runs* runs : {&sending_, &listening_}) {
        for (Run& waiting : *runs) {
          if (!waiting.batch.answers.empty()) Report(waiting);
        }
      }
    });
  }
  return Match::kAnswer;
}

void Prober::Report(Run& run) {
  const wire::ProbeReport report = run.batch;
  run.batch.answers.clear();
  run.on_report(report);
}

void Prober::Finish(Runs& runs, Runs::iterator run, std::string error) {
  // The run is removed first, as the callback may start another one.
  Runs finished;
  finished.splice(finished.end(), runs, run);
  finished.front().batch.done = true;
  finished.front().batch.error = std::move(error);
  finished.front().on_report(finished.front().batch);
}

}  // namespace espalier::agent
