#include "deploy/lab/ground_truth.h"

#include <fmt/format.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <sstream>
#include <tuple>
#include <utility>

#include "common/files/json.h"

namespace espalier::lab {
namespace {

using FlowKey = std::tuple<std::string, std::uint8_t, IpAddress, IpAddress, std::uint16_t>;

FlowKey KeyOf(const FlowCount& count) {
  return {count.spine, count.protocol, count.source, count.destination, count.source_port};
}

std::int64_t ToInteger(const io::JsonValue* value) {
  std::int64_t number = 0;
  if (value != nullptr) {
    std::from_chars(value->text.data(), value->text.data() + value->text.size(), number);
  }
  return number;
}

const io::JsonValue* FindDeep(const io::JsonValue& root, std::initializer_list<const char*> path) {
  const io::JsonValue* value = &root;
  for (const char* key : path) {
    if (value != nullptr) value = value->Find(key);
  }
  return value;
}

// {"elem": {"val": {"concat": ["udp", "10.0.0.1", "10.1.0.1", 50000]},
//           "counter": {"packets": 1, "bytes": 31}}}
std::optional<FlowCount> ParseElement(const std::string& spine, const io::JsonValue& element) {
  const io::JsonValue* key = FindDeep(element, {"elem", "val", "concat"});
  const io::JsonValue* counter = FindDeep(element, {"elem", "counter"});
  if (key == nullptr || counter == nullptr || key->items.size() != 4) return std::nullopt;
  const Result<IpAddress> source = IpAddress::Parse(key->items[1].text);
  const Result<IpAddress> destination = IpAddress::Parse(key->items[2].text);
  if (!source || !destination) return std::nullopt;
  FlowCount count;
  count.spine = spine;
  count.protocol = key->items[0].text == "tcp" ? IPPROTO_TCP : IPPROTO_UDP;
  count.source = *source;
  count.destination = *destination;
  count.source_port = static_cast<std::uint16_t>(ToInteger(&key->items[3]));
  count.packets = ToInteger(counter->Find("packets"));
  count.bytes = ToInteger(counter->Find("bytes"));
  return count;
}

Result<void> AddSpine(const Lab& lab, const std::string& spine, std::vector<FlowCount>& counts) {
  Result<std::string> text = lab.Run(spine, {"nft", "-j", "list", "table", "inet", "ground_truth"});
  if (!text) return Propagate(text);
  Result<io::JsonValue> json = io::ParseJson(*text, spine + " nft");
  if (!json) return Propagate(json);
  const io::JsonValue* objects = json->Find("nftables");
  if (objects == nullptr)
    return Fail(ErrorCode::kInternal, spine + ": nft lists no counter table (restart the lab)");
  for (const io::JsonValue& object : objects->items) {
    const io::JsonValue* elements = FindDeep(object, {"set", "elem"});
    if (elements == nullptr) continue;
    for (const io::JsonValue& element : elements->items) {
      std::optional<FlowCount> count = ParseElement(spine, element);
      if (!count)
        return Fail(ErrorCode::kInternal, spine + ": nft's counters have an unknown form");
      counts.push_back(std::move(*count));
    }
  }
  return {};
}

}  // namespace

Result<std::vector<FlowCount>> ReadFlowCounts(const Lab& lab) {
  std::vector<FlowCount> counts;
  for (const LabNode& node : lab.layout().nodes()) {
    if (node.role < Role::kSpine) continue;
    if (Result<void> added = AddSpine(lab, node.name, counts); !added) return Propagate(added);
  }
  return counts;
}

Result<std::vector<InterfaceCount>> ReadInterfaceCounts(const Lab& lab) {
  std::map<std::pair<std::string, std::string>, std::string> links;
  for (const fabric::Link& link : lab.topology().links()) {
    links[{lab.topology().node(link.a).id, link.a_port}] = link.id;
    links[{lab.topology().node(link.b).id, link.b_port}] = link.id;
  }
  std::vector<InterfaceCount> counts;
  for (const LabNode& node : lab.layout().nodes()) {
    if (node.role == Role::kHost) continue;
    Result<std::string> text = lab.Run(node.name, {"cat", "/proc/self/net/dev"});
    if (!text) return Propagate(text);
    std::istringstream lines(*text);
    for (std::string line; std::getline(lines, line);) {
      std::replace(line.begin(), line.end(), ':', ' ');
      std::istringstream fields(line);
      InterfaceCount count;
      std::string skip;
      std::int64_t in_dropped = 0;
      std::int64_t out_dropped = 0;
      fields >> count.interface >> count.in_bytes >> count.in_packets >> skip >> in_dropped;
      for (int i = 0; i < 4; ++i) fields >> skip;
      fields >> count.out_bytes >> count.out_packets >> skip >> out_dropped;
      const auto link = links.find({node.name, count.interface});
      if (!fields || link == links.end()) continue;  // skips headings and lo
      count.node = node.name;
      count.link = link->second;
      count.dropped = in_dropped + out_dropped;
      counts.push_back(std::move(count));
    }
  }
  return counts;
}

std::vector<FlowCount> Difference(std::span<const FlowCount> before,
                                  std::span<const FlowCount> after) {
  std::map<FlowKey, const FlowCount*> known;
  for (const FlowCount& count : before) known[KeyOf(count)] = &count;
  std::vector<FlowCount> difference;
  for (FlowCount count : after) {
    const auto old = known.find(KeyOf(count));
    if (old != known.end()) {
      count.packets -= old->second->packets;
      count.bytes -= old->second->bytes;
    }
    if (count.packets > 0) difference.push_back(std::move(count));
  }
  return difference;
}

namespace {

// The hop from the NIC with this address to its leaf.
std::optional<fabric::DirectedLink> HopToLeaf(const fabric::Topology& topology,
                                              const IpAddress& address) {
  const std::optional<fabric::NodeId> nic = topology.FindNic(address);
  if (!nic) return std::nullopt;
  for (const fabric::DirectedLink& hop : topology.Outgoing(*nic)) {
    if (topology.node(topology.To(hop)).kind == fabric::NodeKind::kSwitch) return hop;
  }
  return std::nullopt;
}

bool IsLinked(const fabric::Topology& topology, fabric::NodeId node, fabric::NodeId other) {
  return std::ranges::any_of(topology.Outgoing(node), [&](const fabric::DirectedLink& direction) {
    return topology.To(direction) == other;
  });
}

}  // namespace

std::map<std::string, int> CountFlowsPerDirection(const fabric::Topology& topology,
                                                  std::span<const FlowCount> counts,
                                                  std::int64_t min_bytes) {
  const auto leaf_of = [&](const IpAddress& address) -> std::optional<fabric::NodeId> {
    const auto hop = HopToLeaf(topology, address);
    return hop ? std::optional(topology.To(*hop)) : std::nullopt;
  };
  std::map<std::string, int> flows;
  const auto add = [&](fabric::NodeId from, fabric::NodeId to) {
    for (const fabric::DirectedLink& direction : topology.Outgoing(from)) {
      if (topology.To(direction) == to) ++flows[topology.DirectionName(direction)];
    }
  };
  for (const FlowCount& count : counts) {
    const std::optional<fabric::NodeId> spine = topology.FindNode(count.spine);
    const std::optional<fabric::NodeId> from = leaf_of(count.source);
    const std::optional<fabric::NodeId> to = leaf_of(count.destination);
    if (count.bytes < min_bytes || !spine || !from || !to) continue;
    // A core is linked to no leaf, an aggregation switch to those of its pod only.
    if (IsLinked(topology, *spine, *from)) add(*from, *spine);
    if (IsLinked(topology, *spine, *to)) add(*spine, *to);
    if (topology.node(*spine).role != fabric::SwitchRole::kCore) continue;
    for (const fabric::DirectedLink& down : topology.Outgoing(*spine)) {
      const fabric::NodeId agg = topology.To(down);
      if (IsLinked(topology, agg, *from)) add(agg, *spine);
      if (IsLinked(topology, agg, *to)) add(*spine, agg);
    }
  }
  return flows;
}

namespace {

// Look-ups at one switch.
struct SwitchBatch {
  std::string script;
  std::vector<std::size_t> queries;  // positions of the queries, in the order of the script's lines
};

// Finds the lines of a batch that failed, by "Command failed -:7".
std::set<std::size_t> FailedLines(const std::string& errors) {
  constexpr std::string_view kMark = "Command failed -:";
  std::set<std::size_t> failed;
  for (std::size_t at = errors.find(kMark); at != std::string::npos;
       at = errors.find(kMark, at + 1)) {
    failed.insert(std::strtoul(errors.c_str() + at + kMark.size(), nullptr, 10));
  }
  return failed;
}

// Returns "s1" for "10.1.0.1 from 10.0.0.1 via 172.16.0.3 dev s1 \    cache iif h0".
std::string InterfaceOfLine(const std::string& line) {
  constexpr std::string_view kMark = " dev ";
  const std::size_t at = line.find(kMark);
  if (at == std::string::npos) return "";
  const std::size_t begin = at + kMark.size();
  return line.substr(begin, line.find(' ', begin) - begin);
}

// Sets `answers` of the batch's queries to the interfaces over which the switch would send them.
Result<void> RunBatch(const Lab& lab, const std::string& node, const SwitchBatch& batch,
                      std::vector<std::string>& answers) {
  const Result<Command> command = lab.MakeCommand(node, {"ip", "-o", "-force", "-batch", "-"});
  if (!command) return tl::unexpected(command.error());
  const Result<CommandOutput> output = RunCommand(*command, batch.script);
  if (!output) return tl::unexpected(output.error());
  const std::set<std::size_t> failed = FailedLines(output->err);
  std::istringstream lines(output->out);
  std::size_t answered = 0;
  for (std::size_t i = 0; i < batch.queries.size(); ++i) {
    if (failed.contains(i + 1)) continue;
    std::string line;
    if (std::getline(lines, line)) ++answered;
    answers[batch.queries[i]] = InterfaceOfLine(line);
  }
  if (answered + failed.size() != batch.queries.size()) {
    return Fail(ErrorCode::kInternal, fmt::format("{}: {} route queries, {} answers: {}", node,
                                                  batch.queries.size(), answered, output->err));
  }
  return {};
}

// Follows packets up from switch to switch, one tier at a time.
class Ascent {
 public:
  Ascent(const Lab& lab, std::span<const RouteQuery> queries)
      : lab_(lab), topology_(lab.topology()), queries_(queries), tops_(queries.size()) {}

  Result<std::vector<std::optional<std::string>>> Run() {
    std::map<std::string, SwitchBatch> batches;
    for (std::size_t i = 0; i < queries_.size(); ++i) {
      const auto hop = HopToLeaf(topology_, queries_[i].source);
      if (!hop) {
        return Fail(ErrorCode::kNotFound,
                    fmt::format("{} is not a host of this lab", queries_[i].source.ToString()));
      }
      Ask(i, *hop, batches);
    }
    while (!batches.empty()) {
      std::map<std::string, SwitchBatch> next;
      for (const auto& [node, batch] : batches) {
        if (Result<void> done = Climb(node, batch, next); !done) return Propagate(done);
      }
      batches = std::move(next);
    }
    return std::move(tops_);
  }

 private:
  // Adds the look-up of a query at the switch at the end of this hop.
  void Ask(std::size_t query, fabric::DirectedLink hop,
           std::map<std::string, SwitchBatch>& batches) {
    const fabric::NodeId node = topology_.To(hop);
    const fabric::Link& link = topology_.link(hop.link);
    const RouteQuery& asked = queries_[query];
    SwitchBatch& batch = batches[topology_.node(node).id];
    batch.script += fmt::format(
        "route get {} from {} iif {} ipproto {} sport {} dport {}\n", asked.destination.ToString(),
        asked.source.ToString(), link.a == node ? link.a_port : link.b_port,
        asked.protocol == IPPROTO_TCP ? "tcp" : "udp", asked.source_port, asked.destination_port);
    batch.queries.push_back(query);
  }

  Result<void> Climb(const std::string& node, const SwitchBatch& batch,
                     std::map<std::string, SwitchBatch>& next) {
    std::vector<std::string> interfaces(queries_.size());
    if (Result<void> run = RunBatch(lab_, node, batch, interfaces); !run) return run;
    for (const std::size_t query : batch.queries) {
      tops_[query].reset();
      const auto hop = HopOver(node, interfaces[query]);
      if (!hop) continue;
      const std::string& reached = topology_.node(topology_.To(*hop)).id;
      const LabNode* const own = lab_.layout().FindNode(reached);
      if (own == nullptr || own->role == Role::kHost) continue;
      tops_[query] = reached;
      if (MustClimb(*own, topology_.To(*hop), queries_[query].destination)) Ask(query, *hop, next);
    }
    return {};
  }

  std::optional<fabric::DirectedLink> HopOver(const std::string& node,
                                              const std::string& interface) const {
    if (interface.empty()) return std::nullopt;
    for (const fabric::DirectedLink& hop : topology_.Outgoing(*topology_.FindNode(node))) {
      const fabric::Link& link = topology_.link(hop.link);
      if (topology_.node(link.a).id == node ? link.a_port == interface : link.b_port == interface) {
        return hop;
      }
    }
    return std::nullopt;
  }

  // Whether the way to this destination goes on upwards.
  bool MustClimb(const LabNode& own, fabric::NodeId node, const IpAddress& destination) const {
    if (own.role == Role::kCore || lab_.layout().options().pods == 0) return false;
    const auto hop = HopToLeaf(topology_, destination);
    return hop && !IsLinked(topology_, node, topology_.To(*hop));
  }

  const Lab& lab_;
  const fabric::Topology& topology_;
  std::span<const RouteQuery> queries_;
  std::vector<std::optional<std::string>> tops_;
};

}  // namespace

Result<std::vector<std::optional<std::string>>> LookUpSpines(const Lab& lab,
                                                             std::span<const RouteQuery> queries) {
  if (lab.record().options.ipv6) {
    // Forwarding hashes the packet, and a look-up hashes the flow; with hash policy 3 only the
    // hash of a packet is mixed once more. (For IPv4 a look-up builds a packet.)
    return Fail(ErrorCode::kUnsupported,
                "the kernel's IPv6 route look-up does not hash as forwarding does (read the "
                "spines' counters instead)");
  }
  if (lab.record().options.uplinks > 1) {
    return Fail(
        ErrorCode::kUnsupported,
        "a look-up begins at a leaf, which hosts with several uplinks choose themselves (read "
        "the switches' counters instead)");
  }
  return Ascent(lab, queries).Run();
}

}  // namespace espalier::lab
