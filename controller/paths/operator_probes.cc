#include "controller/paths/operator_probes.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "controller/paths/path_answers.h"
#include "controller/paths/path_learner.h"

namespace espalier::controller {
namespace {

using fabric::NodeId;
using fabric::Path;

constexpr Duration kAnswerTimeout = std::chrono::milliseconds(200);
constexpr Duration kGrace = std::chrono::seconds(3);

}  // namespace

std::vector<std::uint16_t> SpreadPorts(std::size_t count, std::uint16_t first) {
  constexpr std::size_t kStep = 10'007;  // odd, so that no port comes twice
  const bool is_roce = first >= fabric::kFirstRocePort;
  const std::size_t begin = is_roce ? first - fabric::kFirstRocePort : 0U;
  std::vector<std::uint16_t> ports;
  for (std::size_t i = 0; i < std::min(count, fabric::kRocePortCount); ++i) {
    const std::size_t offset = (begin + i * kStep) % fabric::kRocePortCount;
    ports.push_back(static_cast<std::uint16_t>(fabric::kFirstRocePort + offset));
  }
  if (!is_roce && !ports.empty()) ports.front() = first;
  return ports;
}

Result<NodeId> OperatorProbes::FindNic(const std::string& name) const {
  const auto node = topology_.FindNode(name);
  if (node && !topology_.node(*node).addresses.empty()) return *node;
  std::vector<NodeId> nics;
  for (std::size_t i = 0; i < topology_.nodes().size(); ++i) {
    const NodeId id(static_cast<std::int32_t>(i));
    const fabric::Node& each = topology_.node(id);
    const bool is_host = each.kind != fabric::NodeKind::kSwitch && fabric::HostOf(each) == name;
    if (is_host && !each.addresses.empty()) nics.push_back(id);
  }
  if (nics.size() == 1) return nics.front();
  if (nics.empty()) {
    return Fail(
        ErrorCode::kNotFound,
        fmt::format("there is no NIC or host \"{}\" with an address (`espalier nodes` lists "
                    "them)",
                    name));
  }
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("host \"{}\" has {} NICs (name one of them, such as {})", name,
                          nics.size(), topology_.node(nics.front()).id));
}

Result<OperatorProbes::Order> OperatorProbes::Begin(const Request& request,
                                                    const std::function<bool(NodeId)>& can_probe,
                                                    TimePoint now, Done done) {
  const auto source = FindNic(request.source);
  if (!source) return tl::unexpected<Error>(source.error());
  const auto destination = FindNic(request.destination);
  if (!destination) return tl::unexpected<Error>(destination.error());
  if (request.ports.empty() || request.ports.size() > kMaxPorts) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("{} source ports (probe 1 to {} at a time)", request.ports.size(), kMaxPorts));
  }
  const auto from = paths_.FindAttachment(*source);
  const auto to = paths_.FindAttachment(*destination);
  const bool are_apart = from && to && from->leaf != to->leaf;
  const auto paths = are_apart ? paths_.Between(from->leaf, to->leaf) : std::span<const Path>();
  if (paths.empty()) {
    return Fail(ErrorCode::kFailedPrecondition,
                fmt::format("there is no choice of paths from {} to {} (name two NICs on different "
                            "leaves that the fabric connects)",
                            request.source, request.destination));
  }
  if (!can_probe(*source)) {
    return Fail(
        ErrorCode::kFailedPrecondition,
        fmt::format("host {} has no connected agent that could probe (`espalier nodes` shows "
                    "which hosts have one)",
                    fabric::HostOf(topology_.node(*source))));
  }
  if (open_.size() >= kMaxOpen) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("{} probes of operators are already running (try again in a moment)",
                            kMaxOpen));
  }
  Open open{.pair = {*source, *destination, from->leaf, to->leaf, {}}, .done = std::move(done)};
  for (const std::uint16_t port : request.ports) open.pair.ports.push_back({.port = port});
  const AnsweredHops hops = HopsThatAnswer(topology_, paths);
  open.first_ttl = hops.first_ttl;
  open.ttls = hops.count;
  Order order{*source, {}};
  order.order.order = numbers_.Next();
  order.order.source = topology_.node(*source).addresses.front();
  order.order.destination = topology_.node(*destination).addresses.front();
  order.order.destination_port = fabric::PortKey{}.destination_port;
  order.order.source_ports = request.ports;
  for (std::size_t hop = 0; hop < open.ttls; ++hop) {
    order.order.ttls.push_back(static_cast<std::uint8_t>(hop + open.first_ttl));
  }
  order.order.probes_per_second = kProbesPerSecond;
  order.order.timeout_us = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(kAnswerTimeout).count());
  const auto sending =
      std::chrono::milliseconds(1'000 * request.ports.size() * open.ttls / kProbesPerSecond);
  open.deadline = now + sending + kAnswerTimeout + kGrace;
  open_.emplace(order.order.order, std::move(open));
  return order;
}

void OperatorProbes::HandleReport(const wire::ProbeReport& report,
                                  const std::function<bool(NodeId)>& is_own) {
  const auto found = open_.find(report.order);
  if (found == open_.end() || !is_own(found->second.pair.source)) return;
  Open& open = found->second;
  if (!report.error.empty()) {
    const Done done = std::move(open.done);
    const std::string& host = fabric::HostOf(topology_.node(open.pair.source));
    const std::string text = fmt::format("the agent of {} cannot probe: {}", host, report.error);
    open_.erase(found);
    return done(Fail(ErrorCode::kUnavailable, text));
  }
  for (const wire::ProbeAnswer& answer : report.answers) {
    const bool is_asked = std::ranges::any_of(open.pair.ports,
                                              [&](const ProbedPort& one) {
                                                return one.port == answer.source_port;
                                              }) &&
                          answer.ttl >= open.first_ttl && answer.ttl < open.first_ttl + open.ttls;
    if (!is_asked) continue;
    auto& answers = open.answers[answer.source_port];
    if (answers.size() < open.ttls) answers.push_back(answer);
  }
  if (report.done) Finish(found);
}

void OperatorProbes::Finish(std::map<std::uint64_t, Open>::iterator open) {
  Open finished = std::move(open->second);
  open_.erase(open);
  ProbedPair& pair = finished.pair;
  const auto paths = paths_.Between(pair.source_leaf, pair.destination_leaf);
  for (ProbedPort& port : pair.ports) {
    const auto& answers = finished.answers[port.port];
    if (answers.empty()) continue;
    port.path = PathOfAnswers(topology_, paths, answers);
    const auto furthest = std::ranges::max_element(answers, {}, &wire::ProbeAnswer::ttl);
    port.hops_answered = static_cast<std::uint8_t>(furthest->ttl - finished.first_ttl + 1);
    port.rtt_us = furthest->rtt_us;
  }
  finished.done(std::move(pair));
}

void OperatorProbes::Expire(TimePoint now) {
  for (auto open = open_.begin(); open != open_.end();) {
    const auto next = std::next(open);
    if (open->second.deadline <= now) {
      if (open->second.answers.empty()) {
        const Done done = std::move(open->second.done);
        const std::string host = fabric::HostOf(topology_.node(open->second.pair.source));
        open_.erase(open);
        done(Fail(ErrorCode::kUnavailable,
                  fmt::format("the agent of {} did not report in time (`espalier agents` shows "
                              "whether it is connected)",
                              host)));
      } else {
        Finish(open);
      }
    }
    open = next;
  }
}

}  // namespace espalier::controller
