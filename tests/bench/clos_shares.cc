#include "tests/bench/clos_shares.h"

#include <fmt/format.h>

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "common/base/check.h"
#include "common/fabric/builders.h"
#include "controller/routing/assigner.h"
#include "tests/bench/clos_fabrics.h"
#include "tests/common/fabric/clos_shape.h"

namespace espalier::bench {
namespace {

using controller::Assigner;
using controller::Assignment;
using controller::AssignOptions;
using controller::Commodity;
using controller::Load;
using controller::Shares;
using controller::SharesName;

// How flows take their paths: how many have several, and how many paths there are in all.
struct PathCount {
  std::size_t divided = 0;
  std::size_t paths = 0;
};

// Aborts if the parts of a flow are not the whole of it.
PathCount CountPaths(const Flows& flows, const Assignment& result) {
  PathCount count;
  for (std::size_t i = 0; i < flows.size(); ++i) {
    std::set<std::int32_t> paths;
    std::int64_t sum = 0;
    for (std::size_t entry = result.first[i]; entry < result.first[i + 1]; ++entry) {
      paths.insert(result.paths[entry]);
      sum += result.ShareOf(flows[i], entry);
    }
    ESPALIER_CHECK(sum == controller::kLoadUnit, "flow {}: {}", i, sum);
    count.divided += paths.size() > 1 ? 1 : 0;
    count.paths += paths.size();
  }
  return count;
}

void MeasureShares(std::string_view name, Fabric& on, Flows flows, std::uint32_t subflows,
                   Shares shares) {
  for (Commodity& flow : flows) flow.subflows = subflows;
  const AssignOptions options{.step_budget = 0, .shares = shares};
  Assigner assigner(on.view);
  Times times;
  for (int i = 0; i < 15; ++i) times.Measure([&] { assigner.Optimal(flows, options); });
  const Assignment& result = assigner.Optimal(flows, options);
  const PathCount count = CountPaths(flows, result);
  const Load most = ComputeMaxLoad(on.view, controller::ComputeLoads(on.view, flows, result));
  ESPALIER_CHECK(most == result.max_load, "{} {}", most.ToString(), result.max_load.ToString());
  fmt::print(
      "{:42} {:6} | {:10.1f} {:10.1f} | {:14} {:14} {:6.3f} | {:5.1f} % {:7}\n",
      fmt::format("{}, {} of {}", name, SharesName(shares), subflows), flows.size(),
      times.Minimum(), times.Median(), most.ToString(), result.lower_bound.ToString(), most.Value(),
      100.0 * static_cast<double>(count.divided) / static_cast<double>(flows.size()), count.paths);
}

}  // namespace

void MeasureAllShares() {
  fmt::print("\n{:42} {:>6} | {:>21} | {:14} {:14} {:>6} | {:>7} {:>7}\n",
             "in equal and unequal parts (us)", "flows", "Optimal min med", "load", "bound", "",
             "divided", "paths");
  const Flows full = Permutations(64, 32, 1, 32);
  for (const std::uint32_t dead : {1U, 4U, 8U}) {
    Fabric on(*fabric::BuildLeafSpine({.spines = 32, .leaves = 64, .hosts_per_leaf = 1}));
    for (std::uint32_t spine = 0; spine < dead; ++spine) {
      const auto node = *on.topology.FindNode(fmt::format("spine{}", spine));
      for (std::size_t i = 0; i < on.topology.links().size(); ++i) {
        const fabric::LinkId id(static_cast<std::int32_t>(i));
        const fabric::Link& link = on.topology.link(id);
        if (link.a == node || link.b == node) {
          on.topology.SetLinkState(id, fabric::LinkState::kDown);
        }
      }
    }
    on.view.Refresh();
    const std::string name = fmt::format("{} of 32 spines dead", dead);
    for (const std::uint32_t subflows : {1U, 2U, 8U}) {
      MeasureShares(name, on, full, subflows, Shares::kEqual);
    }
    for (const std::uint32_t subflows : {2U, 8U}) {
      MeasureShares(name, on, full, subflows, Shares::kExact);
    }
  }
  Fabric tree(fabric::ClosShape{.children = {8, 16}, .widths = {8, 8}}.Build());
  const fabric::FoldedClos& clos = *tree.view.folded_clos();
  for (const auto& block : clos.blocks) {
    if (block.tier != 0) continue;
    const auto& pod = clos.blocks[block.parent];
    for (const auto* links : {&clos.up, &clos.down}) {
      const std::uint32_t link = (*links)[pod.first_link + block.place];
      tree.topology.SetLinkState(fabric::DirectedLink::FromIndex(link).link,
                                 fabric::LinkState::kDown);
    }
  }
  tree.view.Refresh();
  const Flows all = Permutations(128, 8, 1);
  MeasureShares("k=16, a plane dead", tree, all, 2, Shares::kEqual);
  MeasureShares("k=16, a plane dead", tree, all, 2, Shares::kExact);
}

}  // namespace espalier::bench
