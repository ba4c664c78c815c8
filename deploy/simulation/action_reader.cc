#include "deploy/simulation/action_reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/fabric/ecmp/ecmp_hash.h"
#include "controller/offline/files/phase_reader.h"

namespace espalier::simulation {
namespace {

constexpr std::int64_t kMaxDelayMicroseconds = 10'000'000;

// Whom an action concerns, besides time and kind.
enum class Target { kNone, kLinkOrNode, kSwitchLinks, kSwitch, kHost, kHostOrAll };

struct Rule {
  ActionKind kind;
  Target target;
  bool is_operators = false;
};

constexpr Rule kRules[] = {
    {ActionKind::kFail, Target::kLinkOrNode, true},
    {ActionKind::kRestore, Target::kLinkOrNode, true},
    {ActionKind::kDrain, Target::kLinkOrNode, true},
    {ActionKind::kUndrain, Target::kLinkOrNode, true},
    {ActionKind::kRecompute, Target::kNone, true},
    {ActionKind::kLinkDown, Target::kSwitchLinks},
    {ActionKind::kLinkUp, Target::kSwitchLinks},
    {ActionKind::kRehash, Target::kSwitch},
    {ActionKind::kControllerDown, Target::kNone},
    {ActionKind::kControllerUp, Target::kNone},
    {ActionKind::kAgentDown, Target::kHost},
    {ActionKind::kAgentUp, Target::kHost},
    {ActionKind::kPartition, Target::kHost},
    {ActionKind::kHeal, Target::kHost},
    {ActionKind::kMessages, Target::kHostOrAll},
};

const Rule& RuleOf(ActionKind kind) { return *std::ranges::find(kRules, kind, &Rule::kind); }

std::string ListNames() {
  std::string names;
  for (const Rule& rule : kRules) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", ActionName(rule.kind));
  }
  return names;
}

bool IsOfFabric(ActionKind kind) {
  return kind == ActionKind::kLinkDown || kind == ActionKind::kLinkUp ||
         kind == ActionKind::kRehash;
}

}  // namespace

sim::LinkFaults ReadFaults(io::JsonFields& fields) {
  const sim::LinkFaults normal;
  const auto microseconds = [&](std::string_view key, Duration fallback) {
    return std::chrono::microseconds(
        fields.Integer(key, fallback / std::chrono::microseconds(1), 0, kMaxDelayMicroseconds));
  };
  const auto share = [&](std::string_view key) {
    return static_cast<double>(fields.Integer(key, 0, 0, 100)) / 100;
  };
  return {.delay = microseconds("delay_us", normal.delay),
          .jitter = microseconds("jitter_us", normal.jitter),
          .loss = share("loss_percent"),
          .duplication = share("duplication_percent")};
}

ActionReader::ActionReader(std::string_view file_name, const fabric::Topology& topology,
                           const Scenario& scenario)
    : file_(file_name),
      topology_(topology),
      scenario_(scenario),
      has_controller_(scenario.mode != Mode::kEcmp) {}

Result<Action> ActionReader::Read(const io::JsonValue& item) {
  io::JsonFields fields(item, file_);
  Action action;
  action.at = Duration(offline::ReadSeconds(fields, "at_seconds"));
  if (!fields.Has("at_seconds")) fields.AddError("at_seconds", "field \"at_seconds\" is missing");
  if (action.at > scenario_.duration)
    fields.AddError("at_seconds",
                    "the action is after the end of the run (raise duration_seconds)");
  if (action.at < last_)
    fields.AddError("at_seconds", "the action is before the one above it (order them by time)");
  last_ = action.at;
  const std::string name = fields.RequiredString("do");
  const Rule* const rule =
      std::ranges::find(kRules, name, [](const Rule& known) { return ActionName(known.kind); });
  if (rule == std::end(kRules)) {
    fields.AddError("do", fmt::format("there is no action \"{}\" (use one of {})",
                                      name.substr(0, 40), ListNames()));
    return tl::unexpected<Error>(fields.Finish().error());
  }
  action.kind = rule->kind;
  ReadTarget(fields, action);
  if (action.kind == ActionKind::kRehash) ReadHash(fields, action);
  if (action.kind == ActionKind::kMessages) action.faults = ReadFaults(fields);
  CheckProcesses(fields, action);
  if (auto done = fields.Finish(); !done) return Propagate(done);
  return action;
}

void ActionReader::ReadTarget(io::JsonFields& fields, Action& action) {
  const Target target = RuleOf(action.kind).target;
  if (target == Target::kNone) return;
  if (target == Target::kHost || target == Target::kHostOrAll)
    return ReadHost(fields, action, target == Target::kHost);
  if (target != Target::kSwitch) action.link = fields.String("link");
  action.node = fields.String("node");
  if (action.link.empty() == action.node.empty()) {
    const char* const what = target == Target::kSwitch
                                 ? "the action needs a \"node\""
                                 : "the action needs a \"link\" or a \"node\"";
    return fields.AddError(action.node.empty() ? "do" : "node", what);
  }
  if (!action.link.empty()) {
    const auto link = topology_.FindLink(action.link);
    if (!link) return fields.AddError("link", "no link has this id");
    if (target == Target::kSwitchLinks && !topology_.IsFabricLink(*link))
      fields.AddError("link", "the link must be between two switches");
    return;
  }
  if (!topology_.FindNode(action.node)) return fields.AddError("node", "no node has this id");
  if (target != Target::kLinkOrNode && FindSwitch(action.node) == nullptr)
    fields.AddError("node", "the node must be a switch of the fabric");
}

void ActionReader::ReadHost(io::JsonFields& fields, Action& action, bool is_required) {
  if (!is_required && !fields.Has("host")) return;
  const std::string name = fields.RequiredString("host");
  const std::vector<fabric::NodeId> nics = ListNics(topology_);
  const auto found = std::ranges::find(
      nics, name, [&](fabric::NodeId nic) { return HostOf(topology_.node(nic)); });
  if (found == nics.end()) return fields.AddError("host", "no host has this name");
  action.host = static_cast<int>(found - nics.begin());
}

void ActionReader::ReadHash(io::JsonFields& fields, Action& action) {
  action.hash_seed = static_cast<std::uint64_t>(fields.Integer("seed", 1, 0, 0xFFFF'FFFF));
  const fabric::Node* const node = FindSwitch(action.node);
  if (node == nullptr) return;
  const std::string& hash = node->ecmp ? node->ecmp->hash : scenario_.hash;
  const auto made = fabric::MakeEcmpHash({hash, action.hash_seed});
  if (!made) fields.AddError("seed", made.error().message);
}

// Refuses what needs a process that does not run then.
void ActionReader::CheckProcesses(io::JsonFields& fields, const Action& action) {
  if (scenario_.mode == Mode::kEcmp && !IsOfFabric(action.kind))
    return fields.AddError("do", "in the mode ecmp there is neither a controller nor an agent");
  const bool needs_controller =
      RuleOf(action.kind).is_operators || action.kind == ActionKind::kControllerDown;
  if (needs_controller && !has_controller_)
    return fields.AddError("do", "no controller runs then (add \"controller-up\" before)");
  if (action.kind == ActionKind::kControllerUp && has_controller_)
    return fields.AddError("do", "a controller runs then (add \"controller-down\" before)");
  if (action.kind == ActionKind::kControllerDown) has_controller_ = false;
  if (action.kind == ActionKind::kControllerUp) has_controller_ = true;
  if (action.kind == ActionKind::kAgentDown && !agents_down_.insert(action.host).second)
    fields.AddError("do", "the agent does not run then (add \"agent-up\" before)");
  if (action.kind == ActionKind::kAgentUp && agents_down_.erase(action.host) == 0)
    fields.AddError("do", "the agent runs then (add \"agent-down\" before)");
}

const fabric::Node* ActionReader::FindSwitch(const std::string& id) const {
  const auto found = topology_.FindNode(id);
  if (!found) return nullptr;
  const fabric::Node& node = topology_.node(*found);
  return node.kind == fabric::NodeKind::kSwitch && node.host.empty() ? &node : nullptr;
}

}  // namespace espalier::simulation
