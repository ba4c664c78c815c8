#include "deploy/lab/frr.h"

#include <fmt/format.h>
#include <sys/mount.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>
#include <utility>

#include "common/files/json.h"
#include "common/os/command.h"
#include "common/os/os_error.h"
#include "deploy/lab/frr_files.h"

namespace espalier::lab {
namespace {

using Clock = std::chrono::steady_clock;

constexpr char kPrograms[] = "/usr/lib/frr";
constexpr char kFolder[] = "/run/frr";
constexpr std::chrono::seconds kRoutesPatience{60};
constexpr std::chrono::milliseconds kRoutesPause{50};

bool IsSwitch(const LabNode& node) { return node.role != Role::kHost; }

// Starts a daemon in its switch's folder, as a process of its own.
std::string StartOf(const std::string& daemon, const std::string& folder,
                    const std::string& options) {
  return fmt::format(
      "setsid {0}/{1} -u root -g root -f {2}/{1}.conf -i {2}/{1}.pid -z {2}/zserv.api "
      "--vty_socket {2} -P 0 {3} </dev/null >{2}/{1}.log 2>&1 &\n",
      kPrograms, daemon, folder, options);
}

// Writes the configurations, and starts zebra, to which the others connect.
std::string FirstScript(const LabLayout& layout, const LabNode& node) {
  const std::string folder = fmt::format("{}/{}", kFolder, node.name);
  const FrrFiles files = MakeFrrFiles(layout, node);
  std::string script = fmt::format("set -e\nmkdir -p {}\n", folder);
  for (const auto& [daemon, text] :
       {std::pair("zebra", &files.zebra), {"bgpd", &files.bgpd}, {"bfdd", &files.bfdd}}) {
    script += fmt::format("cat >{}/{}.conf <<'END'\n{}END\n", folder, daemon, *text);
  }
  return script + StartOf("zebra", folder, "-A 127.0.0.1");
}

// A bgpd that finds no zebra tries again only after ten seconds.
std::string SecondScript(const LabNode& node) {
  const std::string folder = fmt::format("{}/{}", kFolder, node.name);
  return fmt::format(
             "tries=0\nuntil [ -S {}/zserv.api ] || [ $tries = 600 ]; do\n"
             "  sleep 0.05\n  tries=$((tries + 1))\ndone\n",
             folder) +
         StartOf("bfdd", folder, fmt::format("--bfdctl {}/bfdd.sock", folder)) +
         StartOf("bgpd", folder, "-S");
}

// How many next hops the kernel of a switch has for each network, by BGP.
Result<std::map<std::string, std::size_t>> KernelNextHops(const NamespaceContext& door,
                                                          const LabNode& node) {
  const Result<std::string> text = RunOrFail({.argv = {"ip", "-j", "route", "show", "proto", "bgp"},
                                              .environment = {},
                                              .place = &door,
                                              .node = node.name});
  if (!text) return tl::unexpected(text.error());
  std::map<std::string, std::size_t> hops;
  if (text->find('{') == std::string::npos) return hops;
  const Result<io::JsonValue> routes = io::ParseJson(*text, node.name + " ip route");
  if (!routes) return tl::unexpected(routes.error());
  for (const io::JsonValue& route : routes->items) {
    const io::JsonValue* const network = route.Find("dst");
    const io::JsonValue* const several = route.Find("nexthops");
    if (network != nullptr) hops[network->text] = several == nullptr ? 1 : several->items.size();
  }
  return hops;
}

// Why a switch does not route yet; empty if it does.
Result<std::string> MissingOf(const LabLayout& layout, const NamespaceContext& door,
                              const LabNode& node) {
  const auto known = KernelNextHops(door, node);
  if (!known) return tl::unexpected(known.error());
  for (int leaf = 0; leaf < layout.options().LeafCount(); ++leaf) {
    const std::size_t wanted = layout.NextHops(node, leaf).size();
    const auto found = known->find(layout.LeafPrefix(leaf));
    const std::size_t got = found == known->end() ? 0 : found->second;
    if (got == wanted) continue;
    return fmt::format("{} has {} of {} next hops for {}", node.name, got, wanted,
                       layout.LeafPrefix(leaf));
  }
  return std::string();
}

Result<void> AwaitRoutes(const LabLayout& layout, const NamespaceContext& door) {
  const auto limit = Clock::now() + kRoutesPatience;
  for (const LabNode& node : layout.nodes()) {
    while (IsSwitch(node)) {
      const Result<std::string> missing = MissingOf(layout, door, node);
      if (!missing) return tl::unexpected(missing.error());
      if (missing->empty()) break;
      if (Clock::now() >= limit) {
        return Fail(ErrorCode::kUnavailable,
                    fmt::format("FRR has not agreed on all routes within {} s: {} (use a smaller "
                                "lab, or a machine that is less busy)",
                                kRoutesPatience.count(), *missing));
      }
      std::this_thread::sleep_for(kRoutesPause);
    }
  }
  return {};
}

}  // namespace

Result<void> CheckFrr() {
  for (const char* const daemon : {"zebra", "bgpd", "bfdd"}) {
    std::error_code ignored;
    if (std::filesystem::exists(fmt::format("{}/{}", kPrograms, daemon), ignored)) continue;
    return Fail(ErrorCode::kNotFound,
                fmt::format("{}/{} is missing (install the package frr)", kPrograms, daemon));
  }
  return {};
}

Result<void> CoverFrrAccounts() {
  const std::string groups = std::string(kFolder) + "/group";
  std::error_code error;
  std::filesystem::create_directories(kFolder, error);
  if (error) return FailErrno(kFolder, error.value());
  std::ofstream(groups) << "root:x:0:\nfrrvty:x:0:root\nfrr:x:0:root\n";
  if (::mount(groups.c_str(), "/etc/group", nullptr, MS_BIND, nullptr) != 0) {
    return FailErrno("binding /etc/group", errno);
  }
  // Each daemon leaves a folder for reports of crashes there.
  if (::mount("tmpfs", "/var/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777") != 0) {
    return FailErrno("mounting a tmpfs on /var/tmp", errno);
  }
  return {};
}

Result<void> StartFrr(const LabLayout& layout, const NamespaceContext& door) {
  for (const bool first : {true, false}) {
    for (const LabNode& node : layout.nodes()) {
      if (!IsSwitch(node)) continue;
      const Result<std::string> started =
          RunOrFail({.argv = {"sh", "-s"}, .environment = {}, .place = &door, .node = node.name},
                    first ? FirstScript(layout, node) : SecondScript(node));
      if (!started) return tl::unexpected(started.error());
    }
  }
  return AwaitRoutes(layout, door);
}

}  // namespace espalier::lab
