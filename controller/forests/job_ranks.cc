#include "controller/forests/job_ranks.h"

#include <fmt/format.h>

#include <set>
#include <string>
#include <string_view>

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

}  // namespace

Result<std::vector<fabric::NodeId>> ResolveRanks(const fabric::Topology& topology,
                                                 const JobSpec& spec) {
  if (!IsName(spec.name)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("invalid job name (use 1 to {} printable characters)", kMaxNameBytes));
  }
  if (spec.ranks.size() < 2) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("a job needs at least two ranks, not {}", spec.ranks.size()));
  }
  std::vector<fabric::NodeId> nodes;
  std::set<std::string_view> seen;
  for (const std::string& rank : spec.ranks) {
    const auto node = topology.FindNode(rank);
    if (!node) {
      return Fail(
          ErrorCode::kInvalidArgument,
          fmt::format("there is no node \"{}\" (name compute nodes of the topology as ranks)",
                      rank));
    }
    if (topology.node(*node).kind != fabric::NodeKind::kCompute) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} is not a compute node, so it cannot be a rank", rank));
    }
    if (!seen.insert(rank).second) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} is named twice among the ranks", rank));
    }
    nodes.push_back(*node);
  }
  return nodes;
}

}  // namespace espalier::controller
