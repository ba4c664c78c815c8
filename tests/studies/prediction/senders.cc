#include "tests/studies/prediction/senders.h"

#include <algorithm>
#include <utility>

namespace espalier::offline {
namespace {

std::vector<double> Capacities(const fabric::Topology& topology) {
  std::vector<double> capacities;
  for (const fabric::Link& link : topology.links()) {
    capacities.insert(capacities.end(), 2, static_cast<double>(link.rate.value) / 1e9);
  }
  return capacities;
}

}  // namespace

Senders::Senders(const fabric::Topology& topology, fabric::PathTable& paths, std::size_t flows)
    : paths_(paths), network_(Capacities(topology)), sendings_(flows) {}

std::span<const fabric::Path> Senders::PathsOf(const SimulatedFlow& flow) {
  if (flow.source_attachment.leaf == flow.destination_attachment.leaf) return {};
  return paths_.Between(flow.source_attachment.leaf, flow.destination_attachment.leaf);
}

void Senders::Start(std::uint32_t flow, const SimulatedFlow& spec, std::uint64_t serial,
                    double bits, std::int32_t path) {
  sendings_[flow] = {.serial = serial, .path = path, .bits = bits};
  Send(flow, spec, bits);
}

void Senders::Reroute(std::uint32_t flow, const SimulatedFlow& spec, std::int32_t path,
                      std::int64_t now) {
  const double left = network_.Remove(sendings_[flow].transfer, now);
  sendings_[flow].path = path;
  Send(flow, spec, std::max(left, 1e-3));
}

void Senders::Send(std::uint32_t flow, const SimulatedFlow& spec, double bits) {
  Sending& sending = sendings_[flow];
  std::vector<std::uint32_t> links;
  spec.AppendLinks({}, links);
  if (sending.path >= 0) {
    for (const auto hop : PathsOf(spec)[static_cast<std::size_t>(sending.path)].hops) {
      links.push_back(static_cast<std::uint32_t>(hop.Index()));
    }
  }
  sending.transfer = network_.Add(links, 1, bits);
  if (flow_of_.size() <= sending.transfer) flow_of_.resize(sending.transfer + 1);
  flow_of_[sending.transfer] = flow;
}

std::span<const std::uint32_t> Senders::TakeEnded(std::int64_t now) {
  ended_.clear();
  for (const auto transfer : network_.TakeEnded(now)) {
    ended_.push_back(flow_of_[transfer]);
    sendings_[ended_.back()].is_sent = true;
  }
  return ended_;
}

}  // namespace espalier::offline
