#include "controller/forests/job_spec.h"

#include <fmt/format.h>

#include <charconv>
#include <set>
#include <utility>

namespace espalier::controller {
namespace {

constexpr std::size_t kMaxNameBytes = 255;

bool IsName(std::string_view name) {
  if (name.empty() || name.size() > kMaxNameBytes) return false;
  for (const char c : name) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return false;
  }
  return true;
}

// The line up to the next end, which is taken off the text.
std::string_view NextLine(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

}  // namespace

Result<std::vector<fabric::NodeId>> ResolveRanks(const fabric::Topology& topology,
                                                 const JobSpec& spec) {
  if (!IsName(spec.name)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("a job's name has 1 to {} printable characters", kMaxNameBytes));
  }
  if (spec.ranks.size() < 2) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("a job has two ranks or more, not {}", spec.ranks.size()));
  }
  std::vector<fabric::NodeId> nodes;
  std::set<std::string_view> seen;
  for (const std::string& rank : spec.ranks) {
    const auto node = topology.FindNode(rank);
    if (!node) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("there is no node \"{}\" to be a rank", rank));
    }
    if (topology.node(*node).kind != fabric::NodeKind::kCompute) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} does not compute: it cannot be a rank", rank));
    }
    if (!seen.insert(rank).second) {
      return Fail(ErrorCode::kInvalidArgument, fmt::format("{} is named twice as a rank", rank));
    }
    nodes.push_back(*node);
  }
  return nodes;
}

const std::string& AgentOf(const fabric::Topology& topology, fabric::NodeId rank) {
  const fabric::Node& node = topology.node(rank);
  return node.host.empty() ? node.id : node.host;
}

std::string FormatJobSpec(const JobSpec& spec) {
  std::string text = fmt::format("{} {} {}\n", forest::CollectiveName(spec.collective), spec.bytes,
                                 spec.offload ? "offload" : "inline");
  for (const std::string& rank : spec.ranks) text += rank + "\n";
  return text;
}

Result<JobSpec> ParseJobSpec(std::string name, std::string_view text) {
  JobSpec spec{.name = std::move(name), .ranks = {}};
  std::string_view head = NextLine(text);
  const std::size_t first = std::min(head.find(' '), head.size());
  const std::size_t second = std::min(head.rfind(' '), head.size());
  const auto collective = forest::FindCollective(head.substr(0, first));
  const std::string_view bytes =
      second > first ? head.substr(first + 1, second - first - 1) : std::string_view();
  const auto parsed = std::from_chars(bytes.data(), bytes.data() + bytes.size(), spec.bytes);
  if (!collective || bytes.empty() || parsed.ec != std::errc() ||
      parsed.ptr != bytes.data() + bytes.size()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("job {}: cannot be read from the store", spec.name));
  }
  spec.collective = *collective;
  spec.offload = head.substr(second + 1) == "offload";
  while (!text.empty()) spec.ranks.emplace_back(NextLine(text));
  return spec;
}

}  // namespace espalier::controller
