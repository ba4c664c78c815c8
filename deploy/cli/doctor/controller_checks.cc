#include "deploy/cli/doctor/controller_checks.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <set>

#include "common/identity/key_files.h"
#include "common/identity/key_ring.h"
#include "deploy/cli/doctor/host_view.h"

namespace espalier::doctor {
namespace {

constexpr std::size_t kMostNamed = 5;
constexpr const char* kMendPolarisation =
    "let one tier of switches hash with another function or other seed, or take other bits of the "
    "hash (in SONiC ecmp_hash_offset); with a linear hash such as crc32, other seeds alone do not "
    "mend it. `espalier topology check` says it of a file that names the switches' hashes";

double NumberIn(const io::JsonValue& object, std::string_view key) {
  const io::JsonValue* const value = object.Find(key);
  return value == nullptr ? 0 : std::strtod(value->text.c_str(), nullptr);
}

// The texts of an array: the first ones, and how many more there are.
std::string NamesIn(const io::JsonValue& object, std::string_view key, std::string_view separator) {
  const io::JsonValue* const array = object.Find(key);
  if (array == nullptr) return "";
  std::string names;
  std::size_t count = 0;
  for (const io::JsonValue& item : array->items) {
    if (++count > kMostNamed) continue;
    names += (names.empty() ? "" : std::string(separator)) + item.text;
  }
  if (count > kMostNamed) names += fmt::format(" and {} more", count - kMostNamed);
  return names;
}

// The value of KEY=VALUE in the text of an event.
std::string FieldOf(std::string_view text, std::string_view key) {
  const std::string wanted = std::string(key) + "=";
  std::size_t at = 0;
  while ((at = text.find(wanted, at)) != std::string_view::npos) {
    if (at == 0 || text[at - 1] == ' ') {
      text.remove_prefix(at + wanted.size());
      return std::string(text.substr(0, text.find(' ')));
    }
    at += wanted.size();
  }
  return "";
}

std::size_t CountEvents(const ControllerAnswers& answers, std::string_view kind) {
  std::size_t count = 0;
  for (const io::JsonValue& event : answers.events) count += TextIn(event, "kind") == kind ? 1 : 0;
  return count;
}

// The latest event of one of two kinds that end each other; null: there was none.
const io::JsonValue* LatestOf(const ControllerAnswers& answers, std::string_view begins,
                              std::string_view ends) {
  for (auto event = answers.events.rbegin(); event != answers.events.rend(); ++event) {
    const std::string kind = TextIn(*event, "kind");
    if (kind == begins || kind == ends) return &*event;
  }
  return nullptr;
}

void CheckHealth(const ControllerAnswers& answers, Findings& findings) {
  const std::string health = TextIn(answers.status, "health");
  const std::string reasons = NamesIn(answers.status, "health_reasons", "; ");
  const std::string topology = TextIn(answers.status, "topology");
  if (health == "ok") return findings.Ok("", fmt::format("fabric {}: ok", topology));
  const std::string remedy = "`espalier status`, and `espalier describe` of what it names";
  if (health == "degraded") return findings.Warn("", reasons, remedy);
  if (health == "failing") return findings.Fail("", reasons, remedy);
  findings.Skip("", "the controller does not say");
}

void CheckAgents(const ControllerAnswers& answers, Findings& findings) {
  const double missing = NumberIn(answers.status, "hosts_without_agent");
  const std::string found = fmt::format("{} agents connected; {:.0f} of {} hosts have none",
                                        TextIn(answers.status, "agents_connected"), missing,
                                        TextIn(answers.status, "hosts"));
  if (missing <= 0) return findings.Ok("", found);
  findings.Fail(
      "", found,
      "`espalier nodes --agent missing` lists these hosts: run `espalier doctor` on them");
}

// What the path map shows of the pairs with several paths and enough known ports for a verdict.
struct Coverage {
  std::size_t pairs = 0;
  std::size_t undecided = 0;  // pairs with too few known ports
  double paths = 0;
  double without_ports = 0;
  std::vector<std::string> one_path;  // pairs of which all ports take one path
};

Coverage Cover(const ControllerAnswers& answers) {
  Coverage coverage;
  const io::JsonValue* const pairs = answers.paths ? answers.paths->Find("pairs") : nullptr;
  if (pairs == nullptr) return coverage;
  for (const io::JsonValue& pair : pairs->items) {
    const double paths = NumberIn(pair, "paths");
    const double known = NumberIn(pair, "paths_known");
    const double ports =
        NumberIn(pair, "verified") + NumberIn(pair, "predicted") + NumberIn(pair, "reverify");
    if (paths < 2) continue;
    if (known < paths && (known < 1 || ports < PortsThatShowAll(known))) {
      ++coverage.undecided;
      continue;
    }
    ++coverage.pairs;
    coverage.paths += paths;
    coverage.without_ports += paths - known;
    if (known == 1) {
      coverage.one_path.push_back(
          fmt::format("{} to {}", TextIn(pair, "source"), TextIn(pair, "destination")));
    }
  }
  return coverage;
}

constexpr const char* kNothingKnown =
    "no pair of NICs with several paths has enough known ports for a verdict: ports are learned "
    "when "
    "flows open";
constexpr const char* kLinksDown =
    "links are out of use, whose paths have no ports for now: it is known when they are back";
constexpr const char* kLearn = "open flows between leaves, or run `espalier probe A B`";

bool HasLinksDown(const ControllerAnswers& answers) {
  double count = 0;
  for (const char* const key : {"links_down", "links_lossy", "drained_links", "drained_nodes"}) {
    count += NumberIn(answers.status, key);
  }
  return count > 0;
}

void CheckSourcePort(const ControllerAnswers& answers, const Coverage& coverage,
                     Findings& findings) {
  if (coverage.pairs == 0) return findings.Skip("", kNothingKnown, kLearn);
  if (!coverage.one_path.empty() && HasLinksDown(answers)) return findings.Skip("", kLinksDown);
  if (coverage.one_path.size() == coverage.pairs) {
    return findings.Fail(
        "", fmt::format("all known ports take one path, for each of {} pairs", coverage.pairs),
        "the source port does not change the path: let switches hash layer 4 (UDP source port) for "
        "ECMP, on Linux net.ipv4.fib_multipath_hash_policy=1");
  }
  if (!coverage.one_path.empty()) {
    return findings.Warn(
        "",
        fmt::format("of {} pairs, {} have one path for all ports, such as {}", coverage.pairs,
                    coverage.one_path.size(), coverage.one_path.front()),
        "look at the hash of the leaves of these NICs: it must cover the UDP source port");
  }
  const std::size_t elsewhere = CountEvents(answers, "flow_seen_elsewhere");
  if (elsewhere > 0) {
    return findings.Warn("",
                         fmt::format("switches saw {} flow{} elsewhere than decided", elsewhere,
                                     elsewhere == 1 ? "" : "s"),
                         "`espalier events --kind flow_seen_elsewhere` names the causes");
  }
  findings.Ok("", fmt::format("it chooses the path, for {} of {} pairs that have several",
                              coverage.pairs, coverage.pairs + coverage.undecided));
}

// The paths without ports of one leaf, as the controller found them.
struct Unreachable {
  std::string toward;
  std::string via;
  double unreachable = 0;
  double paths = 0;
};

void CheckPolarisation(const ControllerAnswers& answers, const Coverage& coverage,
                       Findings& findings) {
  std::map<std::string, Unreachable> by_leaf;
  for (const io::JsonValue& event : answers.events) {
    const std::string kind = TextIn(event, "kind");
    if (kind == "controller_started" || kind == "fabric_rehashed") by_leaf.clear();
    if (kind != "paths_unreachable") continue;
    const std::string text = TextIn(event, "text");
    const auto number = [&](std::string_view key) {
      return static_cast<double>(ParseNumber(FieldOf(text, key)).value_or(0));
    };
    by_leaf[FieldOf(text, "leaf")] = {.toward = FieldOf(text, "toward"),
                                      .via = FieldOf(text, "via"),
                                      .unreachable = number("unreachable"),
                                      .paths = number("paths")};
  }
  double unreachable = 0;
  double paths = 0;
  for (const auto& [leaf, one] : by_leaf) {
    unreachable += one.unreachable;
    paths += one.paths;
  }
  if (unreachable > 0 && paths > 0) {
    const auto& [leaf, one] = *by_leaf.begin();
    return findings.Fail(
        "",
        fmt::format("no source port takes {:.0f} % of the paths from {} leaves, such as {:.0f} of "
                    "{:.0f} from {} to {} (via {}): nothing is optimal over all paths",
                    100 * unreachable / paths, by_leaf.size(), one.unreachable, one.paths, leaf,
                    one.toward, one.via),
        kMendPolarisation);
  }
  if (coverage.without_ports > 0 && HasLinksDown(answers)) return findings.Skip("", kLinksDown);
  if (coverage.without_ports > 0) {
    return findings.Warn(
        "",
        fmt::format("{:.0f} of {:.0f} paths of {} pairs have no known port, although so many ports "
                    "are known that they should",
                    coverage.without_ports, coverage.paths, coverage.pairs),
        kMendPolarisation);
  }
  if (coverage.pairs == 0) return findings.Skip("", kNothingKnown, kLearn);
  findings.Ok("", fmt::format("every path has a port, for the {} pairs with enough known ports",
                              coverage.pairs));
}

void CheckSpraying(const ControllerAnswers& answers, Findings& findings) {
  const std::string hosts = NamesIn(answers.status, "sprayed_hosts", ", ");
  if (hosts.empty()) {
    if (answers.paths && NumberIn(*answers.paths, "pairs_known") > 0) {
      return findings.Ok("", "each source port takes one path, as far as probes repeat ports");
    }
    return findings.Skip("", kNothingKnown, kLearn);
  }
  std::set<std::string> switches;
  for (const io::JsonValue& event : answers.events) {
    const std::string kind = TextIn(event, "kind");
    const std::string name = FieldOf(TextIn(event, "text"), "switch");
    if (kind == "switch_sprays") switches.insert(name);
    if (kind == "switch_sprays_no_longer") switches.erase(name);
  }
  findings.Warn(
      fmt::format("{}", fmt::join(switches, ", ")),
      fmt::format("packets of one source port take several paths for hosts {}: their flows are not "
                  "steered, and nothing is called optimal for them",
                  hosts),
      "turn packet spraying or adaptive routing off at this switch for RoCE, or accept that it "
      "spreads these hosts");
}

void CheckRefusals(const ControllerAnswers& answers, Findings& findings) {
  std::string found;
  for (const auto& [kind, what] : {std::pair("agent_refused", "agents refused"),
                                   {"peer_refused", "peers without valid key"},
                                   {"bad_message", "unreadable messages"},
                                   {"stale_epoch", "agents of another controller"}}) {
    if (const std::size_t count = CountEvents(answers, kind); count > 0) {
      found += fmt::format("{}{} {}", found.empty() ? "" : ", ", count, what);
    }
  }
  if (found.empty()) return findings.Ok("", "no agent was refused for its name, key or version");
  findings.Warn(
      "", found + ", by the events that are kept",
      "`espalier events --kind 'agent_refused'` (peer_refused, bad_message) has the reason: "
      "a name or address that is not of the topology, a key, or another version");
}

void CheckStoredTime(const ControllerAnswers& answers, Findings& findings) {
  if (CountEvents(answers, "clock_behind_store") == 0) {
    return findings.Ok("", "it is not behind the controller's store");
  }
  findings.Fail("", "the latest change in the store is later than the controller's clock",
                "check the clock of the controller's machine");
}

void CheckCapacity(const ControllerAnswers& answers, Findings& findings) {
  const io::JsonValue* const late = LatestOf(answers, "controller_late", "controller_on_time");
  const std::string size =
      fmt::format("{} hosts, {} flows, {} ports of {} pairs", TextIn(answers.status, "hosts"),
                  TextIn(answers.status, "flows"), TextIn(answers.status, "path_map_ports"),
                  TextIn(answers.status, "path_map_pairs"));
  if (late != nullptr && TextIn(*late, "kind") == "controller_late") {
    return findings.Fail("", size + ": the controller works more slowly than its inputs arrive",
                         "assign it more processor time, or find a host that reports too much");
  }
  const std::size_t refused = CountEvents(answers, "flows_refused");
  const std::size_t full = CountEvents(answers, "pair_full");
  if (refused + full > 0) {
    return findings.Warn("",
                         fmt::format("{}; {} times too many flows of an agent, {} times of a "
                                     "pair of NICs: the rest stays on plain ECMP",
                                     size, refused, full),
                         "raise max_flows_per_agent, or open fewer connections");
  }
  findings.Ok("", size + ": in time");
}

}  // namespace

double PortsThatShowAll(double paths) {
  constexpr double kDoubt = 0.001;
  return std::ceil(std::log(kDoubt / (paths + 1)) / std::log(paths / (paths + 1)));
}

void CheckController(const ControllerAnswers& answers, Findings& findings) {
  const Coverage coverage = Cover(answers);
  const auto begin = [&](const char* check) { findings.Begin("controller", check); };
  begin("health");
  CheckHealth(answers, findings);
  begin("agents");
  CheckAgents(answers, findings);
  begin("source_port");
  CheckSourcePort(answers, coverage, findings);
  begin("polarisation");
  CheckPolarisation(answers, coverage, findings);
  begin("spraying");
  CheckSpraying(answers, findings);
  begin("refusals");
  CheckRefusals(answers, findings);
  begin("clock");
  CheckStoredTime(answers, findings);
  begin("capacity");
  CheckCapacity(answers, findings);
}

void CheckKeyFolder(const std::string& folder, bool is_root, WallTime now, Findings& findings) {
  const auto pair = identity::ReadKeyFile(folder + "/controller.key");
  if (!pair && pair.error().code == ErrorCode::kNotFound) return;  // an agent's folder, or none
  findings.Begin("controller", "keys");
  const auto ring = identity::KeyRing::Read(folder + "/agents.pub");
  for (const Error* const error :
       {pair ? nullptr : &pair.error(), ring ? nullptr : &ring.error()}) {
    if (error == nullptr) continue;
    if (error->code == ErrorCode::kPermissionDenied && !is_root) {
      return findings.Skip("", "only root and the controller can read the keys", "run it as root");
    }
    return findings.Fail("", error->message, "`espalier keys make` makes what is missing");
  }
  std::set<std::string> names;
  std::string expiring;
  std::size_t without = 0;
  for (const identity::AgentKey& key : ring->keys()) names.insert(key.name);
  for (const std::string& name : names) {
    if (ring->HasGoodKey(name, now + std::chrono::hours(24))) continue;
    if (++without > kMostNamed) continue;
    expiring += (expiring.empty() ? "" : ", ") + name;
  }
  const std::string found = fmt::format("key of the controller, made {}; keys of {} agents",
                                        FormatWallTime(pair->made), names.size());
  if (without == 0) return findings.Ok("", found);
  findings.Warn("",
                fmt::format("{}; {} without a valid key in a day: {}", found, without, expiring),
                "`espalier keys rotate AGENT` makes a new one; revoked agents stay out");
}

}  // namespace espalier::doctor
