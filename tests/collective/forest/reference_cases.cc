#include "tests/collective/forest/reference_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <random>
#include <string>

#include "collective/forest/problem/build_problem.h"
#include "common/base/check.h"
#include "common/fabric/accelerator_builders.h"
#include "common/fabric/builders.h"

namespace espalier::forest {

using fabric::Link;
using fabric::Node;
using fabric::NodeId;
using fabric::NodeKind;
using fabric::TopologySpec;

namespace {

constexpr std::int64_t kGigabytes = 8'000'000'000;  // 1 GB/s
constexpr std::int64_t kGigabits = 1'000'000'000;

bool IsAbstract(std::string_view name) {
  return name.starts_with("ring") || name.starts_with("uring") || name.starts_with("hcube") ||
         name.starts_with("torus");
}

// Returns all numbers in a name: clos4x4s3_40 has 4, 4, 3, 40.
std::vector<int> Numbers(std::string_view text) {
  std::vector<int> numbers;
  for (const char* at = text.data(); at != text.data() + text.size();) {
    int number = 0;
    const auto [end, error] = std::from_chars(at, text.data() + text.size(), number);
    if (error == std::errc{}) numbers.push_back(number);
    at = error == std::errc{} ? end : at + 1;
  }
  return numbers;
}

// Two boxes of four GPUs: 10 to the box's switch, 1 to a common one (figure B.1).
TopologySpec MakeFigureB1() {
  TopologySpec spec;
  const auto add = [&](std::string id, NodeKind kind) {
    spec.nodes.emplace_back().id = std::move(id);
    spec.nodes.back().kind = kind;
    return NodeId(static_cast<std::int32_t>(spec.nodes.size() - 1));
  };
  const auto join = [&](NodeId a, NodeId b, std::int64_t rate) {
    Link& link = spec.links.emplace_back();
    link.a = a;
    link.b = b;
    link.rate = BitsPerSecond{rate * kGigabytes};
  };
  const NodeId common = add("s0", NodeKind::kSwitch);
  for (int box = 1; box <= 2; ++box) {
    const NodeId own = add(fmt::format("s{}", box), NodeKind::kSwitch);
    for (int gpu = 1; gpu <= 4; ++gpu) {
      const NodeId node = add(fmt::format("c{}.{}", box, gpu), NodeKind::kCompute);
      join(node, own, 10);
      join(node, common, 1);
    }
  }
  return spec;
}

bool JoinsFabric(const TopologySpec& spec, const Link& link) {
  const Node& a = spec.nodes[link.a.Index()];
  const Node& b = spec.nodes[link.b.Index()];
  return a.host.empty() != b.host.empty();
}

// Removes the first compute node and its links.
void RemoveFirstGpu(TopologySpec& spec) {
  const auto gpu = std::ranges::find(spec.nodes, NodeKind::kCompute, &Node::kind);
  const NodeId gone(static_cast<std::int32_t>(gpu - spec.nodes.begin()));
  spec.nodes.erase(gpu);
  std::erase_if(spec.links, [&](const Link& link) { return link.a == gone || link.b == gone; });
  for (Link& link : spec.links) {
    if (link.a > gone) link.a = NodeId(link.a.value() - 1);
    if (link.b > gone) link.b = NodeId(link.b.value() - 1);
  }
}

// One link in 20 between boxes and fabric is down (or slow, where its box has no other), one in 20
// has half of its rate; one in 50 between switches is down.
void DamageAtRandom(unsigned seed, TopologySpec& spec) {
  std::mt19937 random(seed);
  std::vector<int> links(spec.nodes.size(), 0);
  for (const Link& link : spec.links) {
    ++links[link.a.Index()];
    ++links[link.b.Index()];
  }
  for (Link& link : spec.links) {
    const bool is_trunk = spec.nodes[link.a.Index()].kind == NodeKind::kSwitch &&
                          spec.nodes[link.b.Index()].kind == NodeKind::kSwitch;
    if (is_trunk && random() % 50 == 0) link.state = fabric::LinkState::kDown;
    if (is_trunk || !JoinsFabric(spec, link)) continue;
    const auto drawn = random() % 20;
    const bool only = std::min(links[link.a.Index()], links[link.b.Index()]) == 1;
    if (drawn == 0 && !only) link.state = fabric::LinkState::kDown;
    if (drawn == 1 || (drawn == 0 && only)) link.rate.value /= 2;
  }
}

void Damage(std::string_view damage, TopologySpec& spec) {
  if (damage.starts_with("random")) {
    DamageAtRandom(static_cast<unsigned>(Numbers(damage).front()), spec);
  }
  if (damage == "deadgpu") RemoveFirstGpu(spec);
  std::size_t nics = 0;
  std::size_t trunks = 0;
  for (Link& link : spec.links) {
    const bool is_trunk = spec.nodes[link.a.Index()].kind == NodeKind::kSwitch &&
                          spec.nodes[link.b.Index()].kind == NodeKind::kSwitch;
    if (is_trunk && damage == "deadlink" && trunks++ == 0) link.state = fabric::LinkState::kDown;
    if (damage == "deadspine" &&
        link.b == NodeId(static_cast<std::int32_t>(spec.nodes.size()) - 1)) {
      link.state = fabric::LinkState::kDown;
    }
    if (!JoinsFabric(spec, link)) continue;
    const std::size_t nic = nics++;
    if (damage == "deadnic" && nic == 0) link.state = fabric::LinkState::kDown;
    if (damage == "deadnics" && nic % 37 == 0) link.state = fabric::LinkState::kDown;
    if (damage == "slownic" && nic == 0) link.rate.value /= 2;
  }
}

Result<TopologySpec> Make(std::string_view name) {
  const std::vector<int> n = Numbers(name);
  if (name == "figB1") return MakeFigureB1();
  if (name == "mi250_8p8") return fabric::BuildMi250({.boxes = 2, .half = true});
  if (name.starts_with("mi250_")) return fabric::BuildMi250({.boxes = n[1]});
  if (name.starts_with("a100_")) return fabric::BuildA100({.boxes = n[1]});
  if (name.starts_with("h100_")) return fabric::BuildH100({.boxes = n[1]});
  if (name.starts_with("ring")) return fabric::BuildRing({.nodes = n[0]});
  if (name.starts_with("uring")) return fabric::BuildRing({.nodes = n[0], .directed = true});
  if (name.starts_with("torus")) return fabric::BuildTorus(n, BitsPerSecond{kGigabits});
  if (name.starts_with("hcube")) return fabric::BuildHypercube(n[0], BitsPerSecond{kGigabits});
  return fabric::BuildLeafSpine(
      {.spines = n[2],
       .leaves = n[0],
       .hosts_per_leaf = n[1],
       .host_rate = BitsPerSecond{100 * kGigabytes},
       .fabric_rate = BitsPerSecond{(n.size() > 3 ? n[3] : 100) * kGigabytes}});
}

}  // namespace

TopologySpec MakeReferenceTopology(std::string_view name) {
  const std::size_t plus = name.find('+');
  Result<TopologySpec> spec = Make(name.substr(0, plus));
  ESPALIER_CHECK(spec.has_value(), "{}: {}", name, spec.error().message);
  if (plus != std::string_view::npos) Damage(name.substr(plus + 1), *spec);
  return std::move(*spec);
}

fabric::Topology BuildTopology(TopologySpec spec) {
  auto topology = fabric::Topology::Build(std::move(spec));
  ESPALIER_CHECK(topology.has_value(), "{}", topology.error().error.message);
  return std::move(*topology);
}

Problem MakeReferenceProblem(std::string_view name) {
  Result<Problem> problem = BuildProblem(BuildTopology(MakeReferenceTopology(name)), {});
  ESPALIER_CHECK(problem.has_value(), "{}: {}", name, problem.error().message);
  return std::move(*problem);
}

Rational PerTableUnit(std::string_view name, const Problem& problem, const Rational& per_unit) {
  const std::int64_t table_unit = IsAbstract(name) ? kGigabits : kGigabytes;
  return *Rational::Product(per_unit, Rational(table_unit, problem.unit.value));
}

const std::vector<ReferenceRow>& ReferenceRows() {
  static const std::vector<ReferenceRow> rows = {
      {"figB1", 8, 11, 32, "1", "1", 1, {"1", "2", "3", "4", "5"}},
      {"ring8", 8, 8, 16, "7/2", "7", 2, {"4", "7", "11", "14", "18"}},
      {"uring8", 8, 8, 8, "7", "7", 1, {"7", "14", "21", "28", "35"}},
      {"hcube3", 8, 8, 24, "7/3", "7", 3, {"3", "5", "7", "10", "12"}},
      {"torus4x4", 16, 16, 64, "15/4", "15", 4, {"4", "8", "12", "15", "19"}},
      {"torus3x3x3", 27, 27, 162, "13/3", "13", 3, {"5", "9", "13", "18", "22"}},
      {"a100_1", 8, 9, 16, "7/300", "7/300", 1, {"7/300", "7/150", "7/100", "7/75", "7/60"}},
      {"a100_2", 16, 36, 96, "3/65", "3/5", 13, {"7/150", "7/75", "7/50", "14/75", "7/30"}},
      {"a100_4", 32, 70, 192, "3/25", "3/25", 1, {"3/25", "6/25", "9/25", "12/25", "3/5"}},
      {"mi250_1", 16, 16, 56, "7/150", "7/50", 3, {"3/50", "1/10", "7/50", "1/5", "6/25"}},
      {"mi250_2", 32, 33, 176, "15/166", "15/2", 83, {"1/10", "3/16", "7/25", "3/8", "23/50"}},
      {"mi250_8p8", 16, 17, 76, "1/13", "1", 13, {"2/25", "4/25", "6/25", "5/16", "39/100"}},
      {"clos4x4s4", 16, 24, 64, "3/20", "3/20", 1, {"3/20", "3/10", "9/20", "3/5", "3/4"}},
      {"clos4x4s2", 16, 22, 48, "3/20", "3/20", 1, {"3/20", "3/10", "9/20", "3/5", "3/4"}},
      {"h100_2", 16, 19, 64, "3/100", "3/50", 2, {"7/225", "3/50", "41/450", "3/25", "34/225"}},
  };
  return rows;
}

}  // namespace espalier::forest
