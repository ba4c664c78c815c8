#include "tests/studies/lab/link_damage.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>
#include <vector>

#include "common/files/json.h"
#include "deploy/lab/link_faults.h"

namespace espalier::demo {
namespace {

using namespace std::chrono_literals;

constexpr auto kSteeredWithin = 30s;
constexpr const char* kToFirstSpine = "s0";  // the interface of every leaf
// Programs listen on this port, so data packets go to it and acknowledgements come from it.
constexpr int kListeningPort = 4791;

// The first leaf's first spine.
std::string SpineOf(const lab::Lab& lab) {
  return lab.layout().options().pods == 0 ? "spine0" : "agg0";
}

std::string LinkOf(const lab::Lab& lab) { return "leaf0--" + SpineOf(lab); }

Result<fabric::LinkId> FindDamagedLink(const lab::Lab& lab) {
  const auto link = lab.topology().FindLink(LinkOf(lab));
  if (!link) return Fail(ErrorCode::kNotFound, fmt::format("the lab has no link {}", LinkOf(lab)));
  return *link;
}

// Takes the first spine out of a leaf's routes to the first leaf, as a routing protocol would that
// has heard of a link between those two. The lab has none. In three tiers the first spines of all
// pods are of one plane, of which no path leads to the first leaf then.
Result<void> Withdraw(const lab::Lab& lab, int leaf) {
  const std::string node = fmt::format("leaf{}", leaf);
  const std::string prefix = lab.layout().LeafPrefix(0);
  auto shown = lab.Run(node, {"ip", "-j", "route", "show", prefix});
  if (!shown) return Propagate(shown);
  auto routes = io::ParseJson(*shown, "the routes of " + node);
  if (!routes) return Propagate(routes);
  std::vector<std::string> command = {"ip", "route", "replace", prefix};
  for (const io::JsonValue& route : routes->items) {
    const io::JsonValue* const hops = route.Find("nexthops");
    if (hops == nullptr) continue;
    for (const io::JsonValue& hop : hops->items) {
      const std::string& device = hop.Find("dev")->text;
      if (device == kToFirstSpine) continue;
      command.insert(command.end(), {"nexthop", "via", hop.Find("gateway")->text, "dev", device});
    }
  }
  if (auto done = lab.Run(node, command); !done) return Propagate(done);
  return {};
}

// Everybody knows that the link is down: the switches by their routes, the controller from an
// operator.
Result<void> TakeDown(const lab::Lab& lab, const LabDaemons* daemons) {
  if (Result<bool> down = lab::FailLink(lab, LinkOf(lab)); !down) return Propagate(down);
  for (int leaf = 1; leaf < lab.layout().options().LeafCount(); ++leaf) {
    if (Result<void> done = Withdraw(lab, leaf); !done) return done;
  }
  if (daemons == nullptr) return {};
  auto told = daemons->Post(fmt::format("/api/v1/links/fail?id={}&reason=down", LinkOf(lab)));
  if (!told) return Propagate(told);
  return daemons->AwaitAcknowledged(kSteeredWithin);
}

// The switches hash as before; the controller learns of the rate from a topology that an operator
// applies.
Result<void> HalveRate(const lab::Lab& lab, const LabDaemons* daemons) {
  Result<fabric::LinkId> link = FindDamagedLink(lab);
  if (!link) return Propagate(link);
  fabric::TopologySpec topology = lab.topology().Spec();
  BitsPerSecond& rate = topology.links[link->Index()].rate;
  rate.value /= 2;
  if (Result<void> limited = lab::LimitLink(lab, LinkOf(lab), rate); !limited) return limited;
  return daemons == nullptr ? Result<void>() : daemons->ApplyTopology(topology);
}

}  // namespace

std::string NameOf(Damage damage) {
  switch (damage) {
    case Damage::kNone:
      return "none";
    case Damage::kDownBefore:
      return "before";
    case Damage::kHalfRateBefore:
      return "half";
    case Damage::kDataLost:
      return "data";
    case Damage::kAcknowledgementsLost:
      return "acknowledgements";
    case Damage::kAllLost:
      return "all";
  }
  return "";
}

bool HappensLater(Damage damage) {
  return damage == Damage::kDataLost || damage == Damage::kAcknowledgementsLost ||
         damage == Damage::kAllLost;
}

double PartLeft(Damage damage, int spines) {
  const double lost = damage == Damage::kDownBefore       ? 1
                      : damage == Damage::kHalfRateBefore ? 0.5
                                                          : 0;
  return 1 - lost / spines;
}

Result<void> DamageBefore(const lab::Lab& lab, Damage damage, const LabDaemons* daemons) {
  if (damage == Damage::kDownBefore) return TakeDown(lab, daemons);
  if (damage == Damage::kHalfRateBefore) return HalveRate(lab, daemons);
  return {};
}

Result<PacketLoss> PacketLoss::Begin(const lab::Lab& lab, Damage damage) {
  Result<fabric::LinkId> link = FindDamagedLink(lab);
  if (!link) return Propagate(link);
  const std::string& port = lab.topology().link(*link).b_port;
  std::string rules =
      "add table ip damage; add chain ip damage forward "
      "{ type filter hook forward priority 0; };";
  const auto drop = [&](std::string_view side, std::string_view match) {
    rules += fmt::format("add rule ip damage forward {} {} {} drop;", side, port, match);
  };
  const std::string data = fmt::format("tcp dport {}", kListeningPort);
  const std::string acknowledgements = fmt::format("tcp sport {}", kListeningPort);
  if (damage == Damage::kDataLost || damage == Damage::kAllLost) {
    drop("oifname", data);
    // Probes share the fate of data.
    drop("oifname", fmt::format("udp dport {}", kListeningPort));
  }
  if (damage == Damage::kAcknowledgementsLost || damage == Damage::kAllLost) {
    drop("oifname", acknowledgements);
    drop("iifname", acknowledgements);
  }
  auto done = lab.Run(SpineOf(lab), {"nft", rules});
  if (!done) return Propagate(done);
  return PacketLoss(lab);
}

PacketLoss::PacketLoss(PacketLoss&& other) noexcept : lab_(std::exchange(other.lab_, nullptr)) {}

PacketLoss::~PacketLoss() {
  if (lab_ != nullptr) (void)lab_->Run(SpineOf(*lab_), {"nft", "delete table ip damage"});
}

}  // namespace espalier::demo
