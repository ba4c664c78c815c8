#include "tests/studies/packets/packet_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "common/files/json_writer.h"

namespace espalier::offline {
namespace {

using fabric::DirectedLink;
using fabric::Topology;

// Seconds that flows take alone, each kind simulated once.
class AloneTimes {
 public:
  AloneTimes(const Topology& topology, const PacketOptions& options)
      : topology_(topology), options_(options) {}

  Result<double> Of(const TableFlow& flow) {
    const std::vector<std::uint32_t>& links = flow.parts.front().links;
    const BitsPerSecond rate = topology_.link(DirectedLink::FromIndex(links.front()).link).rate;
    const auto [entry, is_new] =
        seconds_.try_emplace({flow.Bytes(), links.size(), rate.value}, 0.0);
    if (!is_new) return entry->second;
    if (seconds_.size() > kMostAlone) {
      return Fail(ErrorCode::kResourceExhausted,
                  fmt::format("more than {} flows differ in bytes or length, and each would be "
                              "simulated alone (replay flows of fewer sizes)",
                              kMostAlone));
    }
    fabric::TopologySpec spec = topology_.Spec();
    for (const std::uint32_t link : links) {
      spec.links[DirectedLink::FromIndex(link).link.Index()].rate = rate;
    }
    auto even = Topology::Build(std::move(spec));
    if (!even) return tl::unexpected<Error>(even.error().error);
    const PacketMessage message{.bytes = flow.Bytes(), .links = links};
    const auto outcome = SendPackets(*even, {&message, 1}, options_);
    if (!outcome) return tl::unexpected<Error>(outcome.error());
    entry->second = outcome->seconds.front();
    return entry->second;
  }

 private:
  const Topology& topology_;
  const PacketOptions& options_;
  std::map<std::tuple<std::int64_t, std::size_t, std::int64_t>, double> seconds_;
};

struct OwnedMessage {
  PacketMessage message;
  const TableFlow* flow = nullptr;
};

// The parts of the flows by start, those of a flow together, and which wait for which.
class MessageList {
 public:
  explicit MessageList(std::span<const TableFlow> flows) {
    std::vector<const TableFlow*> order;
    for (const TableFlow& flow : flows) order.push_back(&flow);
    std::ranges::stable_sort(order, {}, &TableFlow::start_ns);
    for (std::size_t i = 0; i < order.size();) {
      const std::size_t begin = owned_.size();
      const std::int64_t start_ns = order[i]->start_ns;
      for (; i < order.size() && order[i]->start_ns == start_ns; ++i) AddFlow(*order[i]);
      RememberFrom(begin);
    }
  }
  std::vector<OwnedMessage> Take() { return std::move(owned_); }

 private:
  // By job and destination, then by source: the parts of the last flow.
  using LastOfSource = std::map<std::int32_t, std::vector<std::size_t>>;

  void AddFlow(const TableFlow& flow) {
    std::vector<std::size_t> after;
    for (const auto& [source, parts] : last_[{flow.job, flow.source.value()}]) {
      after.insert(after.end(), parts.begin(), parts.end());
    }
    const LastOfSource& same = last_[{flow.job, flow.destination.value()}];
    if (const auto last = same.find(flow.source.value()); last != same.end()) {
      after.insert(after.end(), last->second.begin(), last->second.end());
    }
    for (const TableFlow::Part& part : flow.parts) {
      if (part.bytes == 0) continue;
      owned_.push_back(
          {{.start_ns = flow.start_ns, .bytes = part.bytes, .links = part.links, .after = after},
           &flow});
    }
  }

  void RememberFrom(std::size_t begin) {
    for (std::size_t i = begin; i < owned_.size(); ++i) {
      const TableFlow& flow = *owned_[i].flow;
      std::vector<std::size_t>& last =
          last_[{flow.job, flow.destination.value()}][flow.source.value()];
      if (!last.empty() && last.back() < begin) last.clear();
      last.push_back(i);
    }
  }

  std::vector<OwnedMessage> owned_;
  std::map<std::pair<std::string, std::int32_t>, LastOfSource> last_;
};

}  // namespace

Result<PacketReport> ReplayFlows(const Topology& topology, std::span<const TableFlow> flows,
                                 const PacketOptions& options) {
  const std::vector<OwnedMessage> owned = MessageList(flows).Take();
  if (owned.empty()) {
    return Fail(ErrorCode::kInvalidArgument, "no flow has bytes to send (nothing to replay)");
  }
  std::vector<PacketMessage> messages;
  for (const OwnedMessage& one : owned) messages.push_back(one.message);
  auto outcome = SendPackets(topology, messages, options);
  if (!outcome) return Propagate(outcome);

  PacketReport report{.parts = messages.size()};
  AloneTimes alone(topology, options);
  std::vector<double> ratios;
  for (std::size_t i = 0; i < messages.size();) {
    const TableFlow& flow = *owned[i].flow;
    double seconds = 0;
    for (; i < messages.size() && owned[i].flow == &flow; ++i) {
      seconds = std::max(seconds, outcome->seconds[i]);
      report.last_seconds = std::max(report.last_seconds, outcome->starts[i] + outcome->seconds[i]);
    }
    const auto least = alone.Of(flow);
    if (!least) return tl::unexpected<Error>(least.error());
    ratios.push_back(seconds / *least);
  }
  std::ranges::sort(ratios);
  report.flows = ratios.size();
  report.slowest = ratios.back();
  report.p99 = ratios[(ratios.size() - 1) * 99 / 100];
  report.median = ratios[(ratios.size() - 1) / 2];
  report.packets = std::move(*outcome);
  return report;
}

std::string FormatPacketReport(const PacketReport& report) {
  io::JsonWriter json;
  json.BeginObject().Key("flows").Integer(static_cast<std::int64_t>(report.flows));
  json.Key("parts").Integer(static_cast<std::int64_t>(report.parts));
  json.Key("slowest").Double(report.slowest).Key("p99").Double(report.p99);
  json.Key("median").Double(report.median).Key("last_seconds").Double(report.last_seconds);
  json.Key("longest_queue_bytes").Integer(report.packets.longest_queue_bytes);
  json.Key("marked_packets").Integer(report.packets.marked_packets);
  json.Key("dropped_packets").Integer(report.packets.dropped_packets);
  json.Key("events").Integer(static_cast<std::int64_t>(report.packets.events)).EndObject();
  return json.Text();
}

void PrintPacketReport(const PacketReport& report) {
  fmt::print(
      "{} flows on {} paths, last byte after {:.6f} s\n"
      "relative to the same flow alone: slowest {:.3f}, p99 {:.3f}, median {:.3f}\n"
      "longest queue of a switch {} bytes, {} packets marked, {} dropped ({} events)\n",
      report.flows, report.parts, report.last_seconds, report.slowest, report.p99, report.median,
      report.packets.longest_queue_bytes, report.packets.marked_packets,
      report.packets.dropped_packets, report.packets.events);
}

}  // namespace espalier::offline
