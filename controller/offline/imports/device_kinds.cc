#include "controller/offline/imports/device_kinds.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <string_view>
#include <utility>

#include "controller/offline/imports/facts/reading.h"

namespace espalier::imports {
namespace {

using fabric::SwitchRole;

constexpr std::array<std::string_view, 15> kSwitchWords = {
    "leaf",   "spine", "superspine", "tor", "core", "agg",    "aggregation", "sw",
    "switch", "asw",   "psw",        "dsw", "csw",  "router", "rtr"};
constexpr std::array<std::string_view, 14> kHostWords = {
    "host", "h",      "server",  "srv", "node", "gpu", "dgx",
    "hgx",  "worker", "compute", "box", "nic",  "hpc", "storage"};

bool IsUnknown(const Device& device) { return device.kind == DeviceKind::kUnknown; }

// The letters of a name between digits and other characters.
std::vector<std::string> WordsOf(const std::string& name) {
  std::vector<std::string> words(1);
  for (const char c : ComparedName(name)) {
    if (std::isalpha(static_cast<unsigned char>(c)) != 0) {
      words.back() += c;
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  return words;
}

bool IsNamedLeaf(const std::string& name) {
  const std::vector<std::string> words = WordsOf(name);
  return std::ranges::any_of(
      words, [](const std::string& word) { return word == "leaf" || word == "tor"; });
}

// The kind of a name that has words of one sort only.
DeviceKind KindOfName(const std::string& name) {
  const std::vector<std::string> words = WordsOf(name);
  const auto has_word = [&](const auto& list) {
    return std::ranges::any_of(
        words, [&](const auto& word) { return std::ranges::find(list, word) != list.end(); });
  };
  const bool is_switch = has_word(kSwitchWords);
  const bool is_host = has_word(kHostWords);
  if (is_switch == is_host) return DeviceKind::kUnknown;
  return is_switch ? DeviceKind::kSwitch : DeviceKind::kHost;
}

// True for "swp1" and "Ethernet4", the names that Cumulus, SONiC and EOS give ports.
bool IsSwitchPort(std::string_view port) {
  for (const std::string_view start : {"swp", "Ethernet"}) {
    if (port.starts_with(start) && port.size() > start.size() &&
        std::isdigit(static_cast<unsigned char>(port[start.size()])) != 0) {
      return true;
    }
  }
  return false;
}

class Chooser {
 public:
  explicit Chooser(Joined& joined) : devices_(joined.devices), cables_(joined.cables) {}

  Result<void> ApplyPatterns(const std::vector<std::string>& patterns, DeviceKind kind,
                             std::string_view option) {
    for (const std::string& pattern : patterns) {
      std::string compared = pattern;
      for (char& c : compared) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      bool matches = false;
      for (Device& device : devices_) {
        if (!device.host.empty()) continue;  // part of a box
        if (fnmatch(compared.c_str(), ComparedName(device.name).c_str(), 0) != 0) continue;
        matches = true;
        if (!IsUnknown(device) && device.kind != kind) {
          return Fail(ErrorCode::kInvalidArgument,
                      fmt::format("{} {}: a file (or the other option) says that {} is none "
                                  "(narrow the pattern)",
                                  option, Quote(pattern), device.name));
        }
        device.kind = kind;
      }
      if (!matches) {
        return Fail(ErrorCode::kInvalidArgument,
                    fmt::format("{} {}: no device has such a name (correct the pattern)", option,
                                Quote(pattern)));
      }
    }
    return {};
  }

  void ApplyNames() {
    std::vector<std::string> switches;
    std::vector<std::string> hosts;
    for (Device& device : devices_) {
      if (!IsUnknown(device)) continue;
      device.kind = KindOfName(device.name);
      if (IsUnknown(device)) continue;
      (device.kind == DeviceKind::kSwitch ? switches : hosts).push_back(device.name);
    }
    Say(switches, "by their names, switches are");
    Say(hosts, "by their names, hosts are");
  }

  void ApplyPorts() {
    std::vector<std::string> switches;
    for (const JoinedCable& cable : cables_) {
      for (const JoinedEnd* end : {&cable.a, &cable.b}) {
        Device& device = devices_[end->device];
        if (!IsUnknown(device) || !IsSwitchPort(end->port)) continue;
        device.kind = DeviceKind::kSwitch;
        switches.push_back(device.name);
      }
    }
    Say(switches, "by the names of their ports, switches are");
  }

  void ApplyCabling() {
    std::vector<std::size_t> degree(devices_.size());
    for (const JoinedCable& cable : cables_) {
      ++degree[cable.a.device];
      ++degree[cable.b.device];
    }
    std::vector<std::string> hosts;
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      if (!IsUnknown(devices_[i]) || degree[i] != 1) continue;
      devices_[i].kind = DeviceKind::kHost;
      hosts.push_back(devices_[i].name);
    }
    Say(hosts, "as they have one cable, hosts are");
    std::vector<std::string> switches;
    for (const JoinedCable& cable : cables_) {
      for (const auto& [end, other] :
           {std::pair(&cable.a, &cable.b), std::pair(&cable.b, &cable.a)}) {
        Device& device = devices_[end->device];
        const DeviceKind far = devices_[other->device].kind;
        const bool is_beside_host = far == DeviceKind::kHost || far == DeviceKind::kNic;
        if (!IsUnknown(device) || !is_beside_host) continue;
        device.kind = DeviceKind::kSwitch;
        switches.push_back(device.name);
      }
    }
    Say(switches, "as hosts are cabled to them, switches are");
  }

  Result<std::vector<std::string>> Finish() {
    std::vector<std::string> unknown;
    std::vector<bool> is_cabled(devices_.size());
    for (const JoinedCable& cable : cables_) {
      is_cabled[cable.a.device] = true;
      is_cabled[cable.b.device] = true;
    }
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      if (IsUnknown(devices_[i]) && is_cabled[i]) unknown.push_back(devices_[i].name);
    }
    if (unknown.empty()) return std::move(assumptions_);
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("nothing says whether {} {} or {} (write --switches or --hosts with "
                            "patterns of their names)",
                            NameSome(unknown), unknown.size() == 1 ? "is a switch" : "are switches",
                            unknown.size() == 1 ? "a host" : "hosts"));
  }

 private:
  void Say(const std::vector<std::string>& names, std::string_view what) {
    if (!names.empty()) assumptions_.push_back(fmt::format("{} {}", what, NameSome(names)));
  }

  std::vector<Device>& devices_;
  const std::vector<JoinedCable>& cables_;
  std::vector<std::string> assumptions_;
};

}  // namespace

Result<std::vector<std::string>> ChooseKinds(Joined& joined, const KindPatterns& patterns) {
  Chooser chooser(joined);
  auto done = chooser.ApplyPatterns(patterns.switches, DeviceKind::kSwitch, "--switches");
  if (done) done = chooser.ApplyPatterns(patterns.hosts, DeviceKind::kHost, "--hosts");
  if (!done) return Propagate(done);
  chooser.ApplyNames();
  chooser.ApplyPorts();
  chooser.ApplyCabling();
  return chooser.Finish();
}

std::vector<std::string> ChooseRoles(Joined& joined) {
  constexpr int kFar = 3;
  std::vector<Device>& devices = joined.devices;
  const auto is_fabric = [&](std::size_t i) {
    return devices[i].kind == DeviceKind::kSwitch && devices[i].host.empty();
  };
  std::vector<int> tier(devices.size(), kFar);
  std::vector<bool> has_hosts(devices.size());
  std::vector<std::vector<std::size_t>> beside(devices.size());
  for (const JoinedCable& cable : joined.cables) {
    for (const auto& [from, to] :
         {std::pair(cable.a.device, cable.b.device), std::pair(cable.b.device, cable.a.device)}) {
      if (!is_fabric(from)) continue;
      if (is_fabric(to)) beside[from].push_back(to);
      if (devices[to].kind != DeviceKind::kSwitch) has_hosts[from] = true;
    }
  }
  std::vector<std::size_t> queue;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (!is_fabric(i) || (!has_hosts[i] && devices[i].role != SwitchRole::kLeaf)) continue;
    tier[i] = 0;
    queue.push_back(i);
  }
  for (std::size_t at = 0; at < queue.size(); ++at) {
    for (const std::size_t next : beside[queue[at]]) {
      if (tier[next] != kFar || tier[queue[at]] == kFar - 1) continue;
      tier[next] = tier[queue[at]] + 1;
      queue.push_back(next);
    }
  }
  std::vector<std::string> assumptions;
  std::vector<std::string> hosting;
  std::map<SwitchRole, std::vector<std::string>> chosen;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    Device& device = devices[i];
    const bool is_upper = device.role == SwitchRole::kSpine || device.role == SwitchRole::kCore;
    if (is_upper && has_hosts[i]) hosting.push_back(device.name);
    if (!is_fabric(i) || device.role != SwitchRole::kNone || queue.empty()) continue;
    // A leaf whose hosts no file names is as far from the others as a core switch.
    const bool is_named_leaf = tier[i] > 1 && IsNamedLeaf(device.name);
    device.role = tier[i] == 0 || is_named_leaf ? SwitchRole::kLeaf
                  : tier[i] == 1                ? SwitchRole::kSpine
                                                : SwitchRole::kCore;
    chosen[device.role].push_back(device.name);
  }
  for (const auto& [role, names] : chosen) {
    assumptions.push_back(fmt::format(
        "by {}, {} {} {}",
        role == SwitchRole::kLeaf ? "their hosts or names" : "their distance from hosts",
        fabric::SwitchRoleName(role), names.size() == 1 ? "is" : "are", NameSome(names)));
  }
  if (!hosting.empty()) {
    assumptions.push_back(
        fmt::format("a file says that these switches are above the leaves, though hosts are at "
                    "them: {}",
                    NameSome(hosting)));
  }
  return assumptions;
}

}  // namespace espalier::imports
