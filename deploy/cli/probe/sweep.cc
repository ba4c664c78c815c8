#include "deploy/cli/probe/sweep.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "common/files/json_writer.h"
#include "common/terminal/interrupt.h"
#include "common/terminal/progress.h"
#include "common/terminal/table.h"
#include "deploy/cli/probe/probe_summary.h"

namespace espalier::cli {
namespace {

// The hosts with a connected agent at each switch, in the order of the topology.
std::map<std::string, std::vector<std::string>> HostsByLeaf(
    const std::vector<io::JsonValue>& nodes, const std::vector<io::JsonValue>& links) {
  std::set<std::string> switches;
  std::set<std::string> hosts;
  for (const io::JsonValue& node : nodes) {
    if (RawText(node, "kind") == "SWITCH" && RawText(node, "host") == "-") {
      switches.insert(RawText(node, "id"));
    } else if (RawText(node, "agent") == "connected") {
      hosts.insert(RawText(node, "id"));
    }
  }
  std::map<std::string, std::vector<std::string>> by_leaf;
  for (const io::JsonValue& link : links) {
    const std::string a = RawText(link, "a");
    const std::string b = RawText(link, "b");
    if (hosts.contains(a) && switches.contains(b)) by_leaf[b].push_back(a);
    if (hosts.contains(b) && switches.contains(a)) by_leaf[a].push_back(b);
  }
  return by_leaf;
}

// A pair with ports of which no path is known.
struct SilentPair {
  LeafPair pair;
  std::size_t ports = 0;
};

// What a sweep has found.
struct Findings {
  std::size_t pairs = 0;     // probed
  std::size_t left_out = 0;  // pairs that could not be probed
  std::string why;           // of the first of these
  SweepCounts counts;
  std::vector<SilentPair> silent;
};

void Print(const Findings& found) {
  const std::vector<ProbeCount> suspects = found.counts.Suspects();
  fmt::print("{} pairs of leaves probed with {} source ports\n", found.pairs, found.counts.sent());
  if (found.counts.silent() > 0) {
    fmt::print("{} ports have no path that is known: no switch answered, or several paths fit\n",
               found.counts.silent());
  }
  constexpr std::size_t kMostPairs = 12;
  for (std::size_t i = 0; i < std::min(found.silent.size(), kMostPairs); ++i) {
    const SilentPair& one = found.silent[i];
    fmt::print("  {} to {} ({} to {}): {}\n", one.pair.leaf, one.pair.destination_leaf,
               one.pair.source, one.pair.destination, one.ports);
  }
  if (found.silent.size() > kMostPairs) {
    fmt::print("  and {} more pairs (--json has them)\n", found.silent.size() - kMostPairs);
  }
  if (suspects.empty()) {
    return fmt::print("{}\n", found.counts.silent() < found.counts.sent()
                                  ? "every other answer came to the end of its path"
                                  : "nothing is known of any link");
  }
  std::vector<io::JsonValue> rows;
  for (const ProbeCount& one : suspects) {
    rows.push_back(MakeRow({{"direction", one.name},
                            {"lost", fmt::format("{}", one.sent - one.answered)},
                            {"sent", fmt::format("{}", one.sent)}}));
  }
  PrintTable({{"NO ANSWER BEHIND", "direction"}, {"LOST", "lost"}, {"SENT", "sent"}}, rows);
  fmt::print(
      "switches limit their answers, so that a few that are lost prove nothing: probe a pair "
      "again with --ports 64\n");
}

void PrintJson(const Findings& found, std::size_t all) {
  io::JsonWriter json;
  json.BeginObject();
  json.Key("pairs").Integer(static_cast<std::int64_t>(found.pairs));
  json.Key("pairs_in_all").Integer(static_cast<std::int64_t>(all));
  json.Key("pairs_left_out").Integer(static_cast<std::int64_t>(found.left_out));
  json.Key("why_left_out").String(found.why);
  json.Key("ports").Integer(static_cast<std::int64_t>(found.counts.sent()));
  json.Key("ports_silent").Integer(static_cast<std::int64_t>(found.counts.silent()));
  json.Key("silent").BeginArray();
  for (const SilentPair& one : found.silent) {
    json.BeginObject();
    json.Key("leaf").String(one.pair.leaf);
    json.Key("source").String(one.pair.source);
    json.Key("destination_leaf").String(one.pair.destination_leaf);
    json.Key("destination").String(one.pair.destination);
    json.Key("ports").Integer(static_cast<std::int64_t>(one.ports));
    json.EndObject();
  }
  json.EndArray();
  json.Key("suspects").BeginArray();
  for (const ProbeCount& one : found.counts.Suspects()) {
    json.BeginObject();
    json.Key("direction").String(one.name);
    json.Key("lost").Integer(static_cast<std::int64_t>(one.sent - one.answered));
    json.Key("sent").Integer(static_cast<std::int64_t>(one.sent));
    json.EndObject();
  }
  json.EndArray();
  fmt::print("{}\n", json.EndObject().Text());
}

Findings ProbeAll(Session& session, const std::vector<LeafPair>& pairs, unsigned ports,
                  const std::vector<io::JsonValue>& links) {
  const Interrupt interrupt;
  Findings found{.why = "", .counts = SweepCounts(links)};
  Progress progress("pair", static_cast<int>(pairs.size()));
  for (const LeafPair& pair : pairs) {
    if (interrupt.IsRequested()) break;
    progress.Next(fmt::format("{} to {}", pair.leaf, pair.destination_leaf));
    const auto response =
        Send(session, "POST",
             fmt::format("/api/v1/probe?source={}&destination={}&ports={}", UrlEncode(pair.source),
                         UrlEncode(pair.destination), ports),
             "");
    const auto answer = response ? io::ParseJson(response->body, "answer")
                                 : Result<io::JsonValue>(tl::unexpected<Error>(response.error()));
    if (!answer || response->status != 200) {
      const io::JsonValue* const error = answer ? answer->Find("error") : nullptr;
      const std::string why = !answer            ? answer.error().message
                              : error == nullptr ? "no answer"
                                                 : RawText(*error, "message");
      if (found.left_out++ == 0)
        found.why = fmt::format("{} to {}: {}", pair.source, pair.destination, why);
      continue;
    }
    ++found.pairs;
    const std::size_t silent = found.counts.Add(*answer, pair.leaf);
    if (silent > 0) found.silent.push_back({pair, silent});
  }
  return found;
}

}  // namespace

std::vector<LeafPair> ChoosePairs(const std::vector<io::JsonValue>& nodes,
                                  const std::vector<io::JsonValue>& links, const std::string& a,
                                  const std::string& b, std::size_t most) {
  const auto by_leaf = HostsByLeaf(nodes, links);
  std::vector<std::string> leaves;
  for (const auto& [leaf, hosts] : by_leaf) leaves.push_back(leaf);
  const auto is_wanted = [&](const std::string& from, const std::string& to) {
    return a.empty() || (from == a && to == b) || (from == b && to == a);
  };
  std::vector<LeafPair> pairs;
  for (std::size_t step = 1; step < leaves.size(); ++step) {
    for (std::size_t i = 0; i < leaves.size() && pairs.size() < most; ++i) {
      const std::string& from = leaves[i];
      const std::string& to = leaves[(i + step) % leaves.size()];
      if (!is_wanted(from, to)) continue;
      const auto& senders = by_leaf.at(from);
      const auto& receivers = by_leaf.at(to);
      pairs.push_back(
          {from, senders[step % senders.size()], to, receivers[step % receivers.size()]});
    }
  }
  return pairs;
}

void Sweep(Session& session, const SweepOptions& options) {
  const auto nodes = AskPages(session, "/api/v1/nodes", "nodes", /*print_json=*/false);
  if (!nodes) return;
  const auto links = AskPages(session, "/api/v1/links", "links", /*print_json=*/false);
  if (!links) return;
  const auto& node_rows = nodes->Find("nodes")->items;
  const auto& link_rows = links->Find("links")->items;
  const std::vector<LeafPair> all =
      ChoosePairs(node_rows, link_rows, options.a, options.b, SIZE_MAX);
  if (all.empty()) {
    std::vector<std::string> leaves;
    for (const auto& [leaf, hosts] : HostsByLeaf(node_rows, link_rows)) leaves.push_back(leaf);
    return Report(session, ErrorCodeName(ErrorCode::kNotFound),
                  fmt::format("there is no pair of leaves to probe (leaves with a connected agent: "
                              "{})",
                              leaves.empty() ? "none" : fmt::format("{}", fmt::join(leaves, ", "))),
                  1);
  }
  std::vector<LeafPair> pairs = all;
  if (pairs.size() > options.pairs) {
    pairs.resize(options.pairs);
    fmt::print(stderr, "espalier: probes {} of {} pairs of leaves (--pairs raises the limit)\n",
               pairs.size(), all.size());
  }
  const Findings found = ProbeAll(session, pairs, options.ports, link_rows);
  session.exit_code = 0;
  if (session.json) {
    PrintJson(found, all.size());
  } else if (found.pairs > 0) {
    Print(found);
  }
  if (found.left_out > 0) {
    session.exit_code = ReportError(fmt::format("{} pair{} could not be probed: {}", found.left_out,
                                                found.left_out == 1 ? "" : "s", found.why),
                                    1);
  }
}

}  // namespace espalier::cli
