#include "deploy/cli/doctor/device_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "deploy/cli/doctor/machine_checks.h"

namespace espalier::doctor {
namespace {

constexpr std::string_view kClass = "/sys/class/infiniband/";
constexpr std::size_t kMostGids = 256;  // of a port
// What RoCEv2 adds to a packet, as the kernel counts it to find the largest path MTU (IPv6, UDP,
// transport headers, checksum: iboe_get_mtu in ib_addr.h).
constexpr std::uint64_t kRoceOverhead = 96;

std::string PortFolder(const std::string& device, const std::string& port) {
  return fmt::format("{}{}/ports/{}/", kClass, device, port);
}

// An entry of a port's table of addresses.
struct Gid {
  std::string index;
  IpAddress address;
  std::string interface;
  bool is_usable = false;  // for RoCEv2 through switches
  std::string type;
};

std::vector<Gid> GidsOf(const HostView& view, const std::string& device, const std::string& port) {
  const std::string folder = PortFolder(device, port);
  std::vector<Gid> gids;
  for (const std::string& index : view.List(folder + "gid_attrs/types")) {
    const auto type = view.Read(folder + "gid_attrs/types/" + index);  // none: an empty entry
    const auto text = view.Read(folder + "gids/" + index);
    if (!type || !text || gids.size() == kMostGids) continue;
    const auto address = IpAddress::Parse(*text);
    if (!address || address->IsNone()) continue;
    const bool is_link_local = address->bytes()[0] == 0xfe && (address->bytes()[1] & 0xc0) == 0x80;
    gids.push_back({.index = index,
                    .address = *address,
                    .interface = view.Read(folder + "gid_attrs/ndevs/" + index).value_or(""),
                    .is_usable = *type == "RoCE v2" && !is_link_local,
                    .type = *type + (is_link_local ? ", link-local" : "")});
  }
  std::ranges::sort(gids, {}, [](const Gid& gid) { return ParseNumber(gid.index).value_or(0); });
  return gids;
}

std::string Subject(const HostView& view, const std::string& device, const std::string& port) {
  return PortsOf(view, device).size() == 1 ? device : device + ":" + port;
}

// Calls `check` for each port of each device that speaks RoCE; says so of others.
template <typename Check>
void ForEachPort(const HostView& view, Findings& findings, Check check) {
  const std::vector<std::string> devices = RdmaDevices(view);
  if (devices.empty()) return findings.Skip("", "no RDMA device");
  for (const std::string& device : devices) {
    for (const std::string& port : PortsOf(view, device)) {
      const std::string layer = view.Read(PortFolder(device, port) + "link_layer").value_or("");
      if (layer == "Ethernet") {
        check(device, port);
      } else {
        findings.Skip(Subject(view, device, port), fmt::format("its link layer is {}, not Ethernet",
                                                               layer.empty() ? "unknown" : layer));
      }
    }
  }
}

void JudgeDevice(const DeviceTrial& trial, const std::string& driver, Findings& findings) {
  if (!trial.control) {
    return findings.Skip(trial.device, "cannot try it: " + trial.error,
                         "run it as root, or as a user who may open /dev/infiniband/uverbs*");
  }
  const std::string found =
      fmt::format("driver {}: {}", driver, verbs::DescribePathControl(*trial.control));
  if (!trial.control->at_connect) {
    return findings.Fail(trial.device, found,
                         "its flows stay on plain ECMP: use a device whose driver derives the "
                         "source port from the flow label (docs/rdma.md lists them)");
  }
  if (trial.control->live == verbs::PortChangeMethod::kNone) {
    return findings.Warn(trial.device, found,
                         "a connection keeps its path until it ends; several queue pairs for each "
                         "(NCCL_IB_QPS_PER_CONNECTION) let traffic change paths");
  }
  findings.Ok(trial.device, found);
}

// How mlx5 chooses the port of a LAG for a queue pair; empty: there is none, or it does not say.
std::string LagChoice(const HostView& view, const std::string& device) {
  const std::string pci = view.LinkName(fmt::format("{}{}/device", kClass, device));
  if (pci.empty()) return "";
  const auto upstream = view.Read(fmt::format("/sys/kernel/debug/mlx5/{}/lag/port_sel_mode", pci));
  if (upstream) return *upstream;
  for (const std::string& name : view.List(fmt::format("{}{}/device/net", kClass, device))) {
    const auto choice =
        view.Read(fmt::format("/sys/class/net/{}/compat/devlink/lag_port_select_mode", name));
    if (choice) return *choice;
  }
  return "";
}

// Findings on a bond.
void JudgeBond(const HostView& view, const std::string& interface, Findings& findings) {
  const std::string folder = fmt::format("/sys/class/net/{}/bonding/", interface);
  const auto word = [&](const char* file) {
    const std::string text = view.Read(folder + file).value_or("unknown");
    return text.substr(0, text.find(' '));
  };
  const std::string mode = word("mode");
  const std::string policy = word("xmit_hash_policy");
  const std::string found = fmt::format("bond {} of {}, {}", mode,
                                        view.Read(folder + "slaves").value_or("unknown"), policy);
  if (mode == "active-backup") return findings.Ok(interface, found + ": one uplink at a time");
  const bool hashes = mode == "802.3ad" || mode == "balance-xor";
  if (hashes && (policy == "layer3+4" || policy == "encap3+4")) {
    return findings.Ok(interface, found +
                                      ": the source port chooses the uplink of what the "
                                      "kernel sends");
  }
  findings.Warn(interface, found,
                hashes ? fmt::format("the source port has no say: echo layer3+4 > {}"
                                     "xmit_hash_policy",
                                     folder)
                       : "the source port has no say: use mode 802.3ad with xmit_hash_policy "
                         "layer3+4");
}

}  // namespace

std::vector<std::string> RdmaDevices(const HostView& view) {
  return view.List("/sys/class/infiniband");
}

std::vector<std::string> PortsOf(const HostView& view, const std::string& device) {
  return view.List(fmt::format("{}{}/ports", kClass, device));
}

std::map<std::string, std::set<IpAddress>> RdmaAddresses(const HostView& view) {
  std::map<std::string, std::set<IpAddress>> addresses;
  for (const std::string& device : RdmaDevices(view)) {
    for (const std::string& port : PortsOf(view, device)) {
      for (const Gid& gid : GidsOf(view, device, port)) {
        if (gid.is_usable && !gid.interface.empty()) addresses[gid.interface].insert(gid.address);
      }
    }
  }
  return addresses;
}

std::vector<std::string> RdmaInterfaces(const HostView& view) {
  std::vector<std::string> interfaces;
  for (const auto& [interface, addresses] : RdmaAddresses(view)) interfaces.push_back(interface);
  return interfaces;
}

void CheckDevices(const HostView& view, Findings& findings) {
  if (RdmaDevices(view).empty()) {
    if (HasAgentConfiguration(view)) {
      return findings.Warn("",
                           "this host has no RDMA device, so that only flows are steered "
                           "which programs announce themselves",
                           "load the driver of its NIC (modprobe mlx5_ib, irdma, ...), and see "
                           "`rdma link`");
    }
    return findings.Skip("", "this machine has no RDMA device");
  }
  for (const DeviceTrial& trial : view.try_devices()) {
    std::string driver = view.LinkName(fmt::format("{}{}/device/driver", kClass, trial.device));
    if (driver.empty() && view.Exists(fmt::format("{}{}/parent", kClass, trial.device))) {
      driver = "rdma_rxe";
    }
    JudgeDevice(trial, driver.empty() ? "unknown" : driver, findings);
  }
}

void CheckGids(const HostView& view, Findings& findings) {
  const std::string wanted = view.Variable("NCCL_IB_GID_INDEX");
  ForEachPort(view, findings, [&](const std::string& device, const std::string& port) {
    const std::string subject = Subject(view, device, port);
    const std::vector<Gid> gids = GidsOf(view, device, port);
    std::vector<Gid> usable;
    std::ranges::copy_if(gids, std::back_inserter(usable), &Gid::is_usable);
    if (usable.empty()) {
      return findings.Fail(subject, "no address for RoCEv2 that switches route",
                           "give its interface an IP address, and set its state up");
    }
    const auto best =
        std::ranges::find_if(usable, [](const Gid& gid) { return gid.address.IsV4(); });
    const Gid& one = best == usable.end() ? usable.front() : *best;
    const std::string found =
        fmt::format("GID {}: {} of {}, RoCEv2", one.index, one.address.ToString(),
                    one.interface.empty() ? "no interface" : one.interface);
    if (wanted.empty() || wanted == "-1") return findings.Ok(subject, found);
    const auto named = std::ranges::find(gids, wanted, &Gid::index);
    if (named != gids.end() && named->is_usable) {
      return findings.Ok(subject, fmt::format("NCCL_IB_GID_INDEX={}: {} of {}, RoCEv2", wanted,
                                              named->address.ToString(), named->interface));
    }
    findings.Fail(
        subject,
        fmt::format("NCCL_IB_GID_INDEX={} is {}", wanted,
                    named == gids.end() ? "empty" : named->address.ToString() + ", " + named->type),
        fmt::format("set NCCL_IB_GID_INDEX={}, or unset it so that NCCL chooses", one.index));
  });
}

void CheckPorts(const HostView& view, Findings& findings) {
  ForEachPort(view, findings, [&](const std::string& device, const std::string& port) {
    const std::string folder = PortFolder(device, port);
    const std::string state = view.Read(folder + "state").value_or("unknown");
    const std::string found =
        fmt::format("{}, {}, {}", state, view.Read(folder + "phys_state").value_or("unknown"),
                    view.Read(folder + "rate").value_or("unknown rate"));
    if (state.find("ACTIVE") != std::string::npos) {
      return findings.Ok(Subject(view, device, port), found);
    }
    findings.Fail(Subject(view, device, port), found,
                  "set its interface up (ip link set dev ... up), and check the cable and the port "
                  "of the switch");
  });
}

void CheckMtu(const HostView& view, Findings& findings) {
  const std::vector<std::string> interfaces = RdmaInterfaces(view);
  if (interfaces.empty()) return findings.Skip("", "no interface with RoCEv2");
  for (const std::string& interface : interfaces) {
    const auto mtu = view.ReadNumber(fmt::format("/sys/class/net/{}/mtu", interface));
    if (!mtu) {
      findings.Skip(interface, "its MTU cannot be read");
      continue;
    }
    std::uint64_t path_mtu = 4096;
    while (path_mtu > 256 && path_mtu + kRoceOverhead > *mtu) path_mtu /= 2;
    const std::string found = fmt::format("{} bytes: RDMA packets of {}", *mtu, path_mtu);
    if (path_mtu == 4096) {
      findings.Ok(interface, found);
    } else {
      findings.Warn(
          interface, found,
          fmt::format("ip link set dev {} mtu 4200 or more, on all hosts, after the ports "
                      "of all switches",
                      interface));
    }
  }
}

void CheckUplinks(const HostView& view, Findings& findings) {
  const std::vector<std::string> interfaces = RdmaInterfaces(view);
  if (interfaces.empty()) return findings.Skip("", "no interface with RoCEv2");
  bool has_several = false;
  for (const std::string& interface : interfaces) {
    if (!view.Exists(fmt::format("/sys/class/net/{}/bonding", interface))) continue;
    has_several = true;
    JudgeBond(view, interface, findings);
  }
  for (const std::string& device : RdmaDevices(view)) {
    const std::string choice = LagChoice(view, device);
    if (choice.empty() || choice == "off") continue;
    has_several = true;
    if (choice == "hash") {
      findings.Ok(device,
                  "LAG in hash mode: the source port chooses the uplink if the bond's "
                  "policy is layer3+4");
      continue;
    }
    findings.Warn(device,
                  fmt::format("LAG in mode {}: a queue pair keeps its uplink, whatever its "
                              "source port",
                              choice),
                  "set \"uplink\": \"affinity\" for this NIC in the topology file, or select the "
                  "hash mode (lag_port_select_mode)");
  }
  if (!has_several) {
    findings.Ok("", fmt::format("{}: no bond, one uplink each", fmt::join(interfaces, ", ")));
  }
}

}  // namespace espalier::doctor
