#include "deploy/demo/damage.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

#include "deploy/demo/main_job.h"
#include "deploy/lab/link_faults.h"
#include "deploy/lab/run_traffic.h"

namespace espalier::demo {
namespace {

using namespace std::chrono_literals;

constexpr auto kTimeLimit = 60s;
constexpr auto kDamageAt = 400ms;
constexpr auto kSteeredWithin = 30s;
constexpr const char* kSpine = "spine0";
constexpr const char* kLink = "leaf0--spine0";
// Programs listen on this port, so data packets go to it and acknowledgements come from it.
constexpr int kListeningPort = 4791;

// Drops packets at the spine while it exists.
class Loss {
 public:
  static Result<Loss> Begin(const lab::Lab& lab, Damage damage) {
    const fabric::Topology& topology = lab.topology();
    const auto link = topology.FindLink(kLink);
    if (!link) return Fail(ErrorCode::kNotFound, fmt::format("the lab has no link {}", kLink));
    const std::string& port = topology.link(*link).b_port;
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
    auto done = lab.Run(kSpine, {"nft", rules});
    if (!done) return Propagate(done);
    return Loss(lab);
  }
  Loss(Loss&& other) noexcept : lab_(std::exchange(other.lab_, nullptr)) {}
  Loss& operator=(Loss&&) = delete;
  ~Loss() {
    if (lab_ != nullptr) (void)lab_->Run(kSpine, {"nft", "delete table ip damage"});
  }

 private:
  explicit Loss(const lab::Lab& lab) : lab_(&lab) {}

  const lab::Lab* lab_;
};

// Whether all flows have their paths and standby paths.
bool AreReady(const LabDaemons& daemons, std::size_t flows) {
  const Result<io::JsonValue> answer = daemons.Get("/api/v1/flows");
  if (!answer || answer->Find("flows")->items.size() < flows) return false;
  return std::ranges::all_of(answer->Find("flows")->items, [](const io::JsonValue& flow) {
    return flow.Find("status")->text == "ROUTED" &&
           std::ranges::all_of(flow.Find("paths")->items, [](const io::JsonValue& path) {
             return path.Find("standby_port")->text != "0";
           });
  });
}

// Takes the spine out of a leaf's routes to the first leaf, as a routing protocol would that has
// heard of a link between those two. The lab has none.
Result<void> Withdraw(const lab::Lab& lab, int leaf) {
  const std::string node = fmt::format("leaf{}", leaf);
  const auto link = lab.topology().FindLink(fmt::format("{}--{}", node, kSpine));
  if (!link) return Fail(ErrorCode::kNotFound, fmt::format("{} has no link to {}", node, kSpine));
  const std::string& lost = lab.topology().link(*link).a_port;
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
      if (device == lost) continue;
      command.insert(command.end(), {"nexthop", "via", hop.Find("gateway")->text, "dev", device});
    }
  }
  if (auto done = lab.Run(node, command); !done) return Propagate(done);
  return {};
}

// Everybody knows that the link is down: the switches by their routes, the controller from an
// operator.
Result<void> TakeDown(const lab::Lab& lab, const LabDaemons* daemons) {
  if (Result<bool> down = lab::FailLink(lab, kLink); !down) return Propagate(down);
  for (int leaf = 1; leaf < lab.layout().options().LeafCount(); ++leaf) {
    if (Result<void> done = Withdraw(lab, leaf); !done) return done;
  }
  if (daemons == nullptr) return {};
  auto told = daemons->Post(fmt::format("/api/v1/links/fail?id={}&reason=down", kLink));
  if (!told) return Propagate(told);
  return daemons->AwaitAcknowledged(kSteeredWithin);
}

void CountRecoveries(const LabDaemons& daemons, DamageFigures& figures) {
  constexpr std::string_view kSeconds = "seconds_after_move=";
  const Result<io::JsonValue> answer = daemons.Get("/api/v1/events");
  if (!answer) return;  // the controller was killed
  for (const io::JsonValue& event : answer->Find("events")->items) {
    if (event.Find("kind")->text != "flow_recovered") continue;
    const std::string& text = event.Find("text")->text;
    const std::size_t at = text.find(kSeconds);
    if (at == std::string::npos) continue;
    ++figures.recovered_flows;
    figures.slowest_recovery_seconds =
        std::max(figures.slowest_recovery_seconds, std::stod(text.substr(at + kSeconds.size())));
  }
}

}  // namespace

std::string NameOf(Damage damage) {
  switch (damage) {
    case Damage::kNone:
      return "none";
    case Damage::kDownBefore:
      return "before";
    case Damage::kDataLost:
      return "data";
    case Damage::kAcknowledgementsLost:
      return "acknowledgements";
    case Damage::kAllLost:
      return "all";
  }
  return "";
}

Result<DamageFigures> RunWithDamage(const lab::Lab& lab, const DamageCase& what, std::uint64_t seed,
                                    LabDaemons* daemons) {
  auto experiment = MakePermutation(lab.layout());
  if (!experiment) return Propagate(experiment);
  for (traffic::SingleFlow& flow : experiment->workload.flows) flow.paths = what.paths;
  const std::size_t flows = experiment->workload.flows.size();
  DamageFigures figures{.ideal_seconds = experiment->ideal.slowest_flow_seconds};
  if (what.damage == Damage::kDownBefore) {
    if (Result<void> down = TakeDown(lab, daemons); !down) return Propagate(down);
    const double spines = lab.layout().options().spines;
    figures.ideal_seconds *= spines / (spines - 1);
  }
  const bool happens_later = what.damage != Damage::kNone && what.damage != Damage::kDownBefore;

  std::optional<Result<Loss>> loss;
  const auto begin = std::chrono::steady_clock::now();
  lab::TrafficOptions options{
      .seed = seed, .use_agents = daemons != nullptr, .time_limit = kTimeLimit};
  options.on_running = [&](std::chrono::nanoseconds elapsed) {
    if (loss || !happens_later || elapsed < kDamageAt) return;
    const bool may_wait = std::chrono::steady_clock::now() - begin < kSteeredWithin;
    if (daemons != nullptr && may_wait && !AreReady(*daemons, flows)) return;
    if (what.kills_controller && daemons != nullptr) daemons->KillController();
    loss.emplace(Loss::Begin(lab, what.damage));
  };
  auto result = lab::RunTraffic(lab, experiment->workload, options);
  if (!result) return Propagate(result);
  if (loss && !loss->has_value()) return Propagate(*loss);
  if (happens_later && !loss) {
    return Fail(ErrorCode::kFailedPrecondition, "the flows ended before the damage");
  }
  figures.slowest_seconds = result->SlowestFlowSeconds();
  figures.hanging_flows = static_cast<int>(std::ranges::count_if(
      result->flows, [](const lab::FlowOutcome& flow) { return !flow.IsWhole(); }));
  if (daemons != nullptr) CountRecoveries(*daemons, figures);
  return figures;
}

}  // namespace espalier::demo
