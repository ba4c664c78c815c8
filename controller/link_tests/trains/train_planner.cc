#include "controller/link_tests/trains/train_planner.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "proto/messages.h"

namespace espalier::controller {

using fabric::DirectedLink;
using fabric::LinkId;
using fabric::NodeId;

namespace {

constexpr int kTries = 8;  // to draw a route that a train can take now
// Receivers must know of a train before it comes.
constexpr Duration kLead = std::chrono::milliseconds(100);
constexpr Duration kUrgentLead = std::chrono::milliseconds(20);
constexpr Duration kPatience = std::chrono::milliseconds(400);
constexpr Duration kUrgentPatience = std::chrono::milliseconds(60);
constexpr Duration kLongestGap = std::chrono::milliseconds(1);
// Trains over a link in focus, at most, in a second: enough for 1 % in some seconds.
constexpr double kFocusTrains = 64;
constexpr double kMostForFocus = 0.75;   // of all trains, which few hosts can send
constexpr double kMostOfProtocol = 0.8;  // of these, if one protocol loses more than the other
constexpr double kFewTrains = 256;       // a second, of which each is reported at once
constexpr double kRecoveryTrains = 16;   // over a link that is out of use
constexpr std::size_t kUrgentRoutes = 8;
constexpr Duration kUrgentRound = std::chrono::milliseconds(120);  // between its two rounds

}  // namespace

TrainPlanner::TrainPlanner(const State& state, EventLoop& loop, const TestRoutes& routes,
                           TrainBook& book, const LinkTestOptions& options, Callbacks callbacks)
    : state_(state),
      loop_(loop),
      routes_(routes),
      book_(book),
      options_(options),
      callbacks_(std::move(callbacks)),
      secrets_(options.seed),
      random_(options.seed.value_or(1)),
      credit_(state.topology.nodes().size()) {}

bool TrainPlanner::IsReady(NodeId nic) const {
  const auto agent = callbacks_.find_prober(nic);
  return agent && state_.agents.At(*agent).Has("link_tests");
}

bool TrainPlanner::CanTest(LinkId link) const {
  return std::ranges::all_of(std::array{true, false}, [&](bool forward) {
    return std::ranges::any_of(routes_.Over({link, forward}), [&](std::uint32_t route) {
      const TestPair& pair = routes_.PairOf(route);
      return IsReady(pair.source) && IsReady(pair.destination);
    });
  });
}

bool TrainPlanner::Plan(TrainOrders& orders, std::uint32_t route, std::uint8_t protocol,
                        Duration start) {
  const TestPair& pair = routes_.PairOf(route);
  const auto port = routes_.PortOf(route, protocol);
  if (!port || !IsReady(pair.source) || !IsReady(pair.destination)) return false;
  const AgentId sender = *callbacks_.find_prober(pair.source);
  const AgentId receiver = *callbacks_.find_prober(pair.destination);
  if (sender == receiver) return false;
  const std::uint64_t number = secrets_.NextNumber();
  const std::string key = secrets_.KeyOf(sender);
  book_.Expect(number, {.route = route,
                        .protocol = protocol,
                        .port = *port,
                        .sender = sender,
                        .receiver = receiver,
                        .key = key,
                        .at = loop_.Now() + start});
  orders.Add({.sender = sender,
              .receiver = receiver,
              .source = state_.topology.node(pair.source).addresses.front(),
              .destination = state_.topology.node(pair.destination).addresses.front(),
              .key = key},
             {.number = number,
              .source_port = *port,
              .protocol = protocol,
              .dscp = protocol == wire::kProtocolTcp ? options_.tcp_dscp : options_.udp_dscp,
              .start_us = static_cast<std::uint64_t>(MicrosecondsOf(start))});
  ++planned_;
  return true;
}

Duration TrainPlanner::DrawStart(Duration within) {
  return kLead +
         std::chrono::nanoseconds(random_.Below(static_cast<std::uint64_t>(within.count())));
}

std::uint32_t TrainPlanner::DrawRoute(NodeId source) {
  const auto pairs = routes_.From(source);
  const TestPair& pair = routes_.pairs()[pairs[random_.Below(pairs.size())]];
  return pair.first_route + static_cast<std::uint32_t>(random_.Below(pair.route_count));
}

void TrainPlanner::PlanSweep(TrainOrders& orders, double trains) {
  for (std::size_t i = 0; i < credit_.size(); ++i) {
    const NodeId nic(static_cast<std::int32_t>(i));
    if (routes_.From(nic).empty() || !IsReady(nic)) continue;
    for (credit_[i] += trains; credit_[i] >= 1; credit_[i] -= 1) {
      const std::uint8_t protocol = random_.Chance(0.5) ? wire::kProtocolTcp : wire::kProtocolUdp;
      const Duration start = DrawStart(kPeriod);
      for (int tries = 0; tries < kTries; ++tries) {
        if (Plan(orders, DrawRoute(nic), protocol, start)) break;
      }
    }
  }
}

double TrainPlanner::FocusTrains(double all, std::size_t in_focus) {
  return std::min(kMostForFocus * all, kFocusTrains * static_cast<double>(in_focus));
}

double TrainPlanner::SweepTrains() const {
  std::size_t ready = 0;
  for (std::size_t i = 0; i < credit_.size(); ++i) {
    const NodeId nic(static_cast<std::int32_t>(i));
    ready += !routes_.From(nic).empty() && IsReady(nic) ? 1 : 0;
  }
  return static_cast<double>(options_.probes_per_second) / kPackets * static_cast<double>(ready);
}

// Reported at once, as each link in focus waits for its verdict.
void TrainPlanner::PlanFocus(std::span<const Focus> focus, const Links& out_of_use) {
  if (focus.empty()) return;
  TrainOrders orders(ShapeOf(kPatience, true));
  double weights = 0;
  for (const Focus& of : focus) weights += of.weight;
  const double all = FocusTrains(SweepTrains(), focus.size()) * SecondsOf(kFocusPeriod);
  for (const Focus& of : focus) {
    PlanOver(orders, of, all * of.weight / weights, kFocusPeriod, out_of_use);
  }
  Send(orders);
}

TrainOrders::Shape TrainPlanner::ShapeOf(Duration patience, bool urgent) const {
  return {.destination_port = TestRoutes::kDestinationPort,
          .packets = kPackets,
          .gap = std::min<Duration>(kLongestGap, options_.ShortQueue() / 8),
          .patience = patience + 2 * options_.full_queue,
          .urgent = urgent};
}

void TrainPlanner::PlanOver(TrainOrders& orders, const Focus& focus, double trains, Duration within,
                            const Links& out_of_use) {
  const auto routes = routes_.Over(focus.link);
  if (routes.empty()) return;
  const auto whole =
      static_cast<int>(trains) + (random_.Chance(trains - std::floor(trains)) ? 1 : 0);
  for (int i = 0; i < whole; ++i) {
    const double of_tcp = focus.protocol == 0                    ? 0.5
                          : focus.protocol == wire::kProtocolTcp ? kMostOfProtocol
                                                                 : 1 - kMostOfProtocol;
    const std::uint8_t protocol = random_.Chance(of_tcp) ? wire::kProtocolTcp : wire::kProtocolUdp;
    for (int tries = 0; tries < kTries; ++tries) {
      const std::uint32_t over = routes[random_.Below(routes.size())];
      const auto other = i % 3 == 2 ? OtherRoute(over, out_of_use) : std::nullopt;
      const std::uint32_t route = other.value_or(over);
      if (Plan(orders, route, protocol, DrawStart(within))) break;
    }
  }
}

void TrainPlanner::PlanPeriod(const Links& out_of_use, std::size_t in_focus_count) {
  const double all = SweepTrains();
  if (all == 0) return;
  TrainOrders orders(ShapeOf(kPatience, all <= kFewTrains));
  const double in_focus = FocusTrains(all, in_focus_count);
  const auto returning =
      static_cast<double>(std::ranges::count(out_of_use, true, &Links::value_type::second));
  const double recovering = std::min(all / 4, kRecoveryTrains * returning);
  for (const auto& [link, may_return] : out_of_use) {
    if (!may_return) continue;
    for (const bool forward : {true, false}) {
      PlanOver(orders, {{link, forward}}, recovering / 2 / returning, kPeriod, out_of_use);
    }
  }
  const double per_nic = static_cast<double>(options_.probes_per_second) / kPackets;
  PlanSweep(orders, std::max(per_nic / 4, per_nic * (1 - (in_focus + recovering) / all)));
  Send(orders);
}

void TrainPlanner::Send(TrainOrders& orders) {
  for (auto& [agent, order] : orders.Take()) callbacks_.send(agent, std::move(order));
}

std::optional<std::uint32_t> TrainPlanner::OtherRoute(std::uint32_t route,
                                                      const Links& out_of_use) const {
  const TestPair& pair = routes_.PairOf(route);
  for (std::uint32_t i = 1; i < pair.route_count; ++i) {
    const std::uint32_t other =
        pair.first_route + (route - pair.first_route + i) % pair.route_count;
    const auto hops = routes_.HopsOf(other);
    const bool is_in_use =
        std::ranges::none_of(hops, [&](DirectedLink hop) { return out_of_use.contains(hop.link); });
    if (is_in_use && routes_.PortOf(other, wire::kProtocolUdp)) return other;
  }
  return std::nullopt;
}

std::vector<std::uint32_t> TrainPlanner::UrgentRoutes(DirectedLink link,
                                                      const std::set<std::size_t>& rivals,
                                                      const Links& out_of_use) {
  const auto over = routes_.Over(link);
  std::vector<std::uint32_t> chosen;
  std::set<NodeId> used;
  std::map<std::size_t, std::size_t> crossed;  // other links, and by how many chosen routes
  // First hosts that do not take part yet, over links that few others cross; then any.
  for (const bool is_strict : {true, false}) {
    const std::size_t start = over.empty() ? 0 : random_.Below(over.size());
    for (std::size_t i = 0; i < over.size() && chosen.size() < kUrgentRoutes; ++i) {
      const std::uint32_t route = over[(start + i) % over.size()];
      const TestPair& pair = routes_.PairOf(route);
      const auto hops = routes_.HopsOf(route);
      const bool is_new = !used.contains(pair.source) && !used.contains(pair.destination);
      const bool avoids = std::ranges::none_of(
          hops, [&](DirectedLink hop) { return hop != link && rivals.contains(hop.Index()); });
      const bool is_spread = std::ranges::all_of(
          hops, [&](DirectedLink hop) { return hop == link || crossed[hop.Index()] < 2; });
      if (is_strict && !(is_new && avoids && is_spread)) continue;
      if (!routes_.PortOf(route, wire::kProtocolUdp) || !OtherRoute(route, out_of_use)) continue;
      if (std::ranges::find(chosen, route) != chosen.end()) continue;
      used.insert({pair.source, pair.destination});
      for (const DirectedLink hop : hops) ++crossed[hop.Index()];
      chosen.push_back(route);
    }
  }
  return chosen;
}

void TrainPlanner::TestNow(DirectedLink link, const std::set<std::size_t>& rivals,
                           const Links& out_of_use) {
  TrainOrders orders(ShapeOf(kUrgentPatience, true));
  for (const std::uint32_t route : UrgentRoutes(link, rivals, out_of_use)) {
    for (const Duration start : {kUrgentLead, kUrgentLead + kUrgentRound}) {
      Plan(orders, route, wire::kProtocolUdp, start);
    }
    Plan(orders, *OtherRoute(route, out_of_use), wire::kProtocolUdp, kUrgentLead);
  }
  Send(orders);
}

}  // namespace espalier::controller
