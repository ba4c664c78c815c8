#include "deploy/cli/doctor/congestion_checks.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/files/json.h"
#include "deploy/cli/doctor/device_checks.h"

namespace espalier::doctor {
namespace {

constexpr int kPriorities = 8;

// A counter that should stay as it is, and what its growth means.
struct Watched {
  std::string_view name;
  std::string_view meaning;
};
// In ports/N/hw_counters of an RDMA device.
constexpr std::array kRdmaCounters = {
    Watched{"packet_seq_err", "packets are lost"},
    Watched{"out_of_sequence",
            "packets are lost or overtake each other: loss, or a switch that "
            "sprays"},
    Watched{"local_ack_timeout_err", "acknowledgements do not come: a path is dead"},
    Watched{"rnr_nak_retry_err", "receivers post too few buffers"},
    Watched{"roce_adp_retrans", "the device retransmits"},
    Watched{"completer_retry_err", "the device retransmits"},
    Watched{"out_of_seq_request",
            "packets are lost or overtake each other: loss, or a switch that "
            "sprays"}};
// In /sys/class/net/INTERFACE.
constexpr std::array kInterfaceCounters = {
    Watched{"statistics/rx_crc_errors", "the cable or its optics damage packets"},
    Watched{"statistics/rx_missed_errors", "the host takes packets too slowly"},
    Watched{"carrier_changes", "the link goes down and up"}};

// The priorities that are on, as "3" or "3 4".
std::optional<std::string> EcnPriorities(const HostView& view, const std::string& interface,
                                         std::string_view point) {
  std::string on;
  bool is_known = false;
  for (int priority = 0; priority < kPriorities; ++priority) {
    const auto value = view.ReadNumber(
        fmt::format("/sys/class/net/{}/ecn/{}/enable/{}", interface, point, priority));
    is_known = is_known || value.has_value();
    if (value.value_or(0) == 1) on += fmt::format("{}{}", on.empty() ? "" : " ", priority);
  }
  if (!is_known) return std::nullopt;
  return on;
}

// PFC of an interface.
struct Pfc {
  std::vector<int> lossless;
  std::uint64_t sent = 0;  // pause frames
  std::uint64_t received = 0;
};

std::uint64_t Sum(const io::JsonValue* counts) {
  std::uint64_t sum = 0;
  if (counts == nullptr) return 0;
  for (const io::JsonValue& count : counts->items) sum += ParseNumber(count.text).value_or(0);
  return sum;
}

Result<Pfc> ReadPfc(const HostView& view, const std::string& interface) {
  auto printed = view.run({"dcb", "-s", "-j", "pfc", "show", "dev", interface});
  if (!printed) return Propagate(printed);
  auto json = io::ParseJson(*printed, "dcb");
  if (!json) return Propagate(json);
  const io::JsonValue* const priorities = json->Find("prio_pfc");
  if (priorities == nullptr || priorities->items.empty()) {
    return Fail(ErrorCode::kUnsupported, "dcb does not say which priorities have PFC");
  }
  Pfc pfc{.lossless = {},
          .sent = Sum(json->Find("requests")),
          .received = Sum(json->Find("indications"))};
  for (std::size_t i = 0; i < priorities->items.size() && i < kPriorities; ++i) {
    const io::JsonValue& one = priorities->items[i];
    if (one.boolean || one.text == "on") pfc.lossless.push_back(static_cast<int>(i));
  }
  return pfc;
}

// Readings of counters by name.
using Readings = std::map<std::string, std::uint64_t>;

template <typename List>
Readings ReadAll(const HostView& view, const std::string& folder, const List& watched) {
  Readings readings;
  for (const Watched& one : watched) {
    if (const auto value = view.ReadNumber(folder + std::string(one.name))) {
      readings[std::string(one.name)] = *value;
    }
  }
  return readings;
}

// Where counters are, and what they were at first.
struct Watch {
  std::string subject;
  std::string folder;
  bool is_device = false;
  Readings before;
  std::optional<Pfc> pfc;
};

template <typename List>
std::string Growth(const Readings& before, const Readings& after, const List& watched,
                   std::string& meanings) {
  std::string grown;
  for (const Watched& one : watched) {
    const std::string name(one.name);
    const auto was = before.find(name);
    const auto is = after.find(name);
    if (was == before.end() || is == after.end() || is->second <= was->second) continue;
    grown += fmt::format("{}{} +{}", grown.empty() ? "" : ", ", name, is->second - was->second);
    if (meanings.find(one.meaning) == std::string::npos) {
      meanings += fmt::format("{}{}", meanings.empty() ? "" : "; ", one.meaning);
    }
  }
  return grown;
}

std::vector<Watch> StartWatches(const HostView& view) {
  std::vector<Watch> watches;
  for (const std::string& device : RdmaDevices(view)) {
    for (const std::string& port : PortsOf(view, device)) {
      std::string folder =
          fmt::format("/sys/class/infiniband/{}/ports/{}/hw_counters/", device, port);
      Readings before = ReadAll(view, folder, kRdmaCounters);
      watches.push_back({.subject = device,
                         .folder = std::move(folder),
                         .is_device = true,
                         .before = std::move(before),
                         .pfc = {}});
    }
  }
  for (const std::string& interface : RdmaInterfaces(view)) {
    const std::string folder = fmt::format("/sys/class/net/{}/", interface);
    Watch watch{.subject = interface,
                .folder = folder,
                .before = ReadAll(view, folder, kInterfaceCounters),
                .pfc = {}};
    if (auto pfc = ReadPfc(view, interface)) watch.pfc = std::move(*pfc);
    watches.push_back(std::move(watch));
  }
  return watches;
}

void EndWatch(const HostView& view, const Watch& watch, Findings& findings) {
  std::string meanings;
  std::string grown = watch.is_device
                          ? Growth(watch.before, ReadAll(view, watch.folder, kRdmaCounters),
                                   kRdmaCounters, meanings)
                          : Growth(watch.before, ReadAll(view, watch.folder, kInterfaceCounters),
                                   kInterfaceCounters, meanings);
  std::string totals;
  if (watch.pfc) {
    const auto after = ReadPfc(view, watch.subject);
    totals = fmt::format("; {} pause frames received and {} sent since the start",
                         watch.pfc->received, watch.pfc->sent);
    if (after && after->received > watch.pfc->received) {
      grown += fmt::format("{}pause frames received +{}", grown.empty() ? "" : ", ",
                           after->received - watch.pfc->received);
      meanings += fmt::format("{}the switch slows this host: its flows meet on a link",
                              meanings.empty() ? "" : "; ");
    }
  }
  if (watch.before.empty() && !watch.pfc) {
    return findings.Skip(watch.subject, "its driver has none of the known counters");
  }
  if (grown.empty()) {
    return findings.Ok(watch.subject, fmt::format("no loss or pause in a second{}", totals));
  }
  findings.Warn(watch.subject, fmt::format("in a second: {}{}", grown, totals), meanings);
}

}  // namespace

void CheckEcn(const HostView& view, Findings& findings) {
  const std::vector<std::string> interfaces = RdmaInterfaces(view);
  if (interfaces.empty()) return findings.Skip("", "no interface with RoCEv2");
  for (const std::string& interface : interfaces) {
    const auto notifies = EcnPriorities(view, interface, "roce_np");
    const auto reacts = EcnPriorities(view, interface, "roce_rp");
    if (!notifies || !reacts) {
      findings.Skip(interface,
                    "its driver does not show whether it reacts to ECN (only NVIDIA's own does); "
                    "CNP counters in hw_counters show it under load");
      continue;
    }
    const std::string found =
        fmt::format("priorities that answer marks: {}; that slow down: {}",
                    notifies->empty() ? "none" : *notifies, reacts->empty() ? "none" : *reacts);
    if (*notifies == *reacts && !reacts->empty()) {
      findings.Ok(interface, found);
    } else {
      findings.Warn(
          interface, found,
          fmt::format("echo 1 into /sys/class/net/{}/ecn/roce_np/enable/PRIORITY and "
                      "roce_rp/enable/PRIORITY of RoCE, and mark with ECN on the switches",
                      interface));
    }
  }
}

void CheckPfc(const HostView& view, Findings& findings) {
  const std::vector<std::string> interfaces = RdmaInterfaces(view);
  if (interfaces.empty()) return findings.Skip("", "no interface with RoCEv2");
  for (const std::string& interface : interfaces) {
    const auto pfc = ReadPfc(view, interface);
    if (!pfc) {
      findings.Skip(interface, pfc.error().message);
      continue;
    }
    const std::string found = pfc->lossless.empty() ? "no priority is lossless"
                                                    : fmt::format("lossless priorities: {}",
                                                                  fmt::join(pfc->lossless, " "));
    if (pfc->lossless.size() == 1) {
      findings.Ok(interface, found);
    } else if (pfc->lossless.empty()) {
      findings.Warn(interface, found,
                    fmt::format("dcb pfc set dev {} prio-pfc PRIORITY:on for the priority of RoCE "
                                "that the switches use, unless the fabric is meant to drop",
                                interface));
    } else {
      findings.Warn(interface, found,
                    "use PFC for the priority of RoCE only: each lossless priority needs buffers, "
                    "and may stop others");
    }
  }
}

void CheckCounters(const HostView& view, Findings& findings) {
  const std::vector<Watch> watches = StartWatches(view);
  if (watches.empty()) return findings.Skip("", "no RDMA device");
  view.wait();
  for (const Watch& watch : watches) EndWatch(view, watch, findings);
}

}  // namespace espalier::doctor
