#include "deploy/lab/link_faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <sstream>

#include "deploy/lab/lab_scripts.h"

namespace espalier::lab {
namespace {

struct Interface {
  std::string node;
  std::string name;
};

struct LinkInterfaces {
  Interface a;
  Interface b;
};

constexpr char kManagementPrefix[] = "mgmt-";

// The lab's node with an end of a link: for a NIC, its host.
const std::string& NodeNameOf(const Lab& lab, fabric::NodeId end) {
  return lab.layout().FindNode(lab.topology().node(end).id)->name;
}

Result<LinkInterfaces> FindInterfaces(const Lab& lab, const std::string& link) {
  const fabric::Topology& topology = lab.topology();
  if (const std::optional<fabric::LinkId> id = topology.FindLink(link)) {
    const fabric::Link& found = topology.link(*id);
    if (found.a_port.empty()) {
      return Fail(ErrorCode::kUnsupported,
                  fmt::format("link '{}' is inside a host, where it cannot fail", link));
    }
    return LinkInterfaces{{NodeNameOf(lab, found.a), found.a_port},
                          {NodeNameOf(lab, found.b), found.b_port}};
  }
  if (link.rfind(kManagementPrefix, 0) == 0) {
    const LabNode* host = lab.layout().FindNode(link.substr(sizeof(kManagementPrefix) - 1));
    if (host != nullptr && host->role == Role::kHost) {
      return LinkInterfaces{{host->name, "mgmt0"}, {kControllerNode, link}};
    }
  }
  return Fail(
      ErrorCode::kNotFound,
      fmt::format("lab '{}' has no link '{}' (write one such as leaf0--spine1, h0--leaf0, mgmt-h0)",
                  lab.record().options.name, link));
}

// The interfaces of a node that were set down, without those that only lost their carrier.
Result<std::vector<std::string>> DownInterfaces(const Lab& lab, const std::string& node) {
  Result<std::string> text = lab.Run(node, {"ip", "-o", "link", "show"});
  if (!text) return Propagate(text);
  std::vector<std::string> down;
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);) {
    // "7: s1@if9: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu ..."
    std::istringstream words(line);
    std::string index;
    std::string name;
    std::string flags;
    words >> index >> name >> flags;
    if (("," + flags.substr(1, flags.size() - 2) + ",").find(",UP,") != std::string::npos) continue;
    down.push_back(name.substr(0, name.find_first_of("@:")));
  }
  return down;
}

Result<bool> IsDown(const Lab& lab, const Interface& interface) {
  Result<std::vector<std::string>> down = DownInterfaces(lab, interface.node);
  if (!down) return Propagate(down);
  return std::find(down->begin(), down->end(), interface.name) != down->end();
}

Result<void> SetUp(const Lab& lab, const Interface& interface, bool up) {
  const Result<std::string> done =
      lab.Run(interface.node, {"ip", "link", "set", interface.name, up ? "up" : "down"});
  if (!done) return tl::unexpected(done.error());
  return {};
}

// Waits until the kernel has acted on a change of carrier, which takes some milliseconds and
// sometimes a second.
Result<void> WaitForState(const Lab& lab, const Interface& interface, bool up) {
  constexpr std::chrono::seconds kPatience{5};
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (std::chrono::steady_clock::now() < deadline) {
    const Result<std::string> text =
        lab.Run(interface.node, {"ip", "-o", "link", "show", "dev", interface.name});
    if (!text) return tl::unexpected(text.error());
    if ((text->find(" state UP ") != std::string::npos) == up) return {};
  }
  return Fail(ErrorCode::kUnavailable,
              fmt::format("interface {} of {} does not go {}", interface.name, interface.node,
                          up ? "up" : "down"));
}

// Restores routes: setting a link down deletes those without another next hop, and setting it up
// does not bring them back.
Result<void> RestoreRoutes(const Lab& lab, const std::string& node) {
  const LabNode* found = lab.layout().FindNode(node);
  if (found == nullptr) return {};  // the controller's end has a connected route only
  Result<std::vector<std::string>> down = DownInterfaces(lab, node);
  if (!down) return Propagate(down);
  const std::string script = found->role == Role::kHost
                                 ? HostRouteScript(lab.layout(), *found, *down)
                                 : RouteScript(lab.layout(), *found, *down);
  if (script.empty()) return {};
  const Result<std::string> done = lab.Run(node, {"ip", "-batch", "-"}, script);
  if (!done) return tl::unexpected(done.error());
  return {};
}

}  // namespace

Result<bool> FailLink(const Lab& lab, const std::string& link, LinkEnd end) {
  Result<LinkInterfaces> interfaces = FindInterfaces(lab, link);
  if (!interfaces) return Propagate(interfaces);
  const Interface& chosen = end == LinkEnd::kA ? interfaces->a : interfaces->b;
  Result<bool> down = IsDown(lab, chosen);
  if (!down || *down) return down ? Result<bool>(false) : down;
  if (Result<void> set = SetUp(lab, chosen, false); !set) return Propagate(set);
  for (const Interface& interface : {interfaces->a, interfaces->b}) {
    if (Result<void> seen = WaitForState(lab, interface, false); !seen) return Propagate(seen);
  }
  return true;
}

Result<bool> RestoreLink(const Lab& lab, const std::string& link) {
  Result<LinkInterfaces> interfaces = FindInterfaces(lab, link);
  if (!interfaces) return Propagate(interfaces);
  bool changed = false;
  for (const Interface& interface : {interfaces->a, interfaces->b}) {
    Result<bool> down = IsDown(lab, interface);
    if (!down) return down;
    if (!*down) continue;
    changed = true;
    if (Result<void> set = SetUp(lab, interface, true); !set) return Propagate(set);
  }
  if (!changed) return false;
  for (const Interface& interface : {interfaces->a, interfaces->b}) {
    if (Result<void> seen = WaitForState(lab, interface, true); !seen) return Propagate(seen);
    if (Result<void> routes = RestoreRoutes(lab, interface.node); !routes) return Propagate(routes);
  }
  return true;
}

Result<void> LimitLink(const Lab& lab, const std::string& link, BitsPerSecond rate) {
  Result<LinkInterfaces> interfaces = FindInterfaces(lab, link);
  if (!interfaces) return Propagate(interfaces);
  const auto id = lab.topology().FindLink(link);
  if (!id || !lab.topology().IsFabricLink(*id)) {
    return Fail(ErrorCode::kUnsupported,
                fmt::format("'{}' is the link of a host, which has no limit", link));
  }
  for (const Interface& interface : {interfaces->a, interfaces->b}) {
    const Result<std::string> done =
        lab.Run(interface.node, {"tc", "-batch", "-"}, ShaperCommand(interface.name, rate));
    if (!done) return tl::unexpected(done.error());
  }
  return {};
}

Result<std::vector<std::string>> FailedLinks(const Lab& lab) {
  std::map<std::string, std::vector<std::string>> down_by_node;
  const auto load = [&](const std::string& node) -> Result<void> {
    Result<std::vector<std::string>> down = DownInterfaces(lab, node);
    if (!down) return Propagate(down);
    down_by_node[node] = std::move(*down);
    return {};
  };
  if (Result<void> loaded = load(kControllerNode); !loaded) return Propagate(loaded);
  for (const LabNode& node : lab.layout().nodes()) {
    if (Result<void> loaded = load(node.name); !loaded) return Propagate(loaded);
  }
  const auto is_down = [&](const std::string& node, const std::string& name) {
    const std::vector<std::string>& down = down_by_node[node];
    return std::find(down.begin(), down.end(), name) != down.end();
  };
  std::vector<std::string> failed;
  for (const fabric::Link& link : lab.topology().links()) {
    if (is_down(NodeNameOf(lab, link.a), link.a_port) ||
        is_down(NodeNameOf(lab, link.b), link.b_port)) {
      failed.push_back(link.id);
    }
  }
  for (const LabNode& node : lab.layout().nodes()) {
    const std::string link = kManagementPrefix + node.name;
    if (node.role == Role::kHost &&
        (is_down(node.name, "mgmt0") || is_down(kControllerNode, link))) {
      failed.push_back(link);
    }
  }
  return failed;
}

}  // namespace espalier::lab
