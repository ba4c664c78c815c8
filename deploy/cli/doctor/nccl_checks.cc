#include "deploy/cli/doctor/nccl_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "deploy/cli/doctor/device_checks.h"

namespace espalier::doctor {
namespace {

constexpr const char* kRemedy =
    "set NCCL_IBVERBS_LIB or LD_PRELOAD to libespalier-verbs.so (docs/rdma.md)";

// The variables that decide: those of the process, then those of the machine's file.
class Settings {
 public:
  explicit Settings(const HostView& view) : view_(view) {
    std::istringstream lines(view.Read("/etc/nccl.conf").value_or(""));
    for (std::string line; std::getline(lines, line);) {
      line = line.substr(0, line.find('#'));
      const std::size_t equals = line.find('=');
      if (equals == std::string::npos || !line.starts_with("NCCL_")) continue;
      line.resize(line.find_last_not_of(" \t\r") + 1);
      file_.emplace(line.substr(0, equals), line.substr(std::min(equals + 1, line.size())));
    }
  }
  std::string Of(const std::string& name) const {
    std::string value = view_.Variable(name);
    if (!value.empty()) return value;
    const auto found = file_.find(name);
    return found == file_.end() ? "" : found->second;
  }
  bool IsEmpty() const {
    const auto first = view_.environment.lower_bound("NCCL_");
    return file_.empty() &&
           (first == view_.environment.end() || !first->first.starts_with("NCCL_"));
  }

 private:
  const HostView& view_;
  std::map<std::string, std::string> file_;
};

// Whether a device is one that NCCL_IB_HCA names: a list of prefixes, or of names behind "=", each
// with an optional port; behind "^" those that are left out.
bool IsNamed(std::string_view list, const std::string& device) {
  const bool excludes = list.starts_with('^');
  if (excludes) list.remove_prefix(1);
  const bool is_exact = list.starts_with('=');
  if (is_exact) list.remove_prefix(1);
  bool is_found = false;
  while (!list.empty() && !is_found) {
    const std::size_t end = std::min(list.find(','), list.size());
    const std::string_view name = list.substr(0, std::min(list.find(':'), end));
    list.remove_prefix(std::min(end + 1, list.size()));
    is_found = !name.empty() && (is_exact ? device == name : device.starts_with(name));
  }
  return is_found != excludes;
}

void CheckHca(const HostView& view, const Settings& settings, Findings& findings) {
  const std::string list = settings.Of("NCCL_IB_HCA");
  if (list.empty()) return;
  std::vector<std::string> named;
  std::ranges::copy_if(RdmaDevices(view), std::back_inserter(named),
                       [&](const std::string& device) { return IsNamed(list, device); });
  if (named.empty()) {
    return findings.Fail("NCCL_IB_HCA", fmt::format("{} names no device of this machine", list),
                         "`rdma link` lists the devices; unset it to use all");
  }
  findings.Ok("NCCL_IB_HCA", fmt::format("{}: {}", list, fmt::join(named, ", ")));
}

void CheckTransport(const Settings& settings, Findings& findings) {
  if (settings.Of("NCCL_IB_DISABLE") == "1" || settings.Of("NCCL_NET") == "Socket") {
    findings.Fail("NCCL_NET", "NCCL sends over TCP instead of RDMA",
                  "unset NCCL_IB_DISABLE and NCCL_NET");
  }
  const std::string plugin = settings.Of("NCCL_NET_PLUGIN");
  if (!plugin.empty() && plugin != "none") {
    findings.Warn("NCCL_NET_PLUGIN", fmt::format("{} replaces NCCL's own transport", plugin),
                  "its queue pairs are steered if it uses libibverbs: see whether its flows are "
                  "ROUTED");
  }
  if (settings.Of("NCCL_IB_ADAPTIVE_ROUTING") == "1") {
    findings.Warn("NCCL_IB_ADAPTIVE_ROUTING", "NCCL asks switches to route each packet adaptively",
                  "where switches do so, source ports choose no path: set it to 0 for jobs that "
                  "are steered");
  }
}

void CheckClass(const Settings& settings, Findings& findings) {
  const std::string text = settings.Of("NCCL_IB_TC");
  const auto traffic_class = ParseNumber(text);
  if (text.empty()) {
    return findings.Warn("NCCL_IB_TC",
                         "not set: RoCE has DSCP 0, unless the device or rdma_cm has "
                         "a default",
                         "set it to 4 times the DSCP that hosts and switches treat as lossless, "
                         "such as 106 for DSCP 26 with ECN");
  }
  if (!traffic_class || *traffic_class > 255) {
    return findings.Fail("NCCL_IB_TC", fmt::format("{} is no traffic class", text),
                         "set a number from 0 to 255");
  }
  findings.Ok("NCCL_IB_TC", fmt::format("{}: DSCP {}", *traffic_class, *traffic_class >> 2U));
}

void CheckTimeout(const Settings& settings, Findings& findings) {
  constexpr std::uint64_t kDefault = 20;
  constexpr std::uint64_t kLongest = 18;  // about a second
  const std::string text = settings.Of("NCCL_IB_TIMEOUT");
  const std::uint64_t value = text.empty() ? kDefault : ParseNumber(text).value_or(32);
  if (value == 0 || value > 31) {
    return findings.Fail("NCCL_IB_TIMEOUT", fmt::format("{} is no timeout", text),
                         "set a number from 1 to 31");
  }
  const double seconds = 4.096e-6 * static_cast<double>(std::uint64_t{1} << value);
  const std::string found = fmt::format("{}{}: a lost packet is repeated after some {:.3g} s",
                                        value, text.empty() ? " (default)" : "", seconds);
  if (value <= kLongest) return findings.Ok("NCCL_IB_TIMEOUT", found);
  findings.Warn("NCCL_IB_TIMEOUT", found,
                "a flow waits so long after a path fails, even if it has another at once: choose "
                "18 or less, with NCCL_IB_RETRY_CNT=7");
}

}  // namespace

void CheckNccl(const HostView& view, Findings& findings) {
  const Settings settings(view);
  if (settings.IsEmpty()) {
    return findings.Skip("", "no variable of NCCL in this environment or in /etc/nccl.conf",
                         "run it in the environment of a job, or give --process PID of one");
  }
  CheckTransport(settings, findings);
  CheckHca(view, settings, findings);
  CheckClass(settings, findings);
  CheckTimeout(settings, findings);
  const std::string pairs = settings.Of("NCCL_IB_QPS_PER_CONNECTION");
  findings.Ok("NCCL_IB_QPS_PER_CONNECTION",
              fmt::format("{}: queue pairs of each connection, among which its traffic is divided",
                          pairs.empty() ? "1 (default)" : pairs));
}

void CheckShim(const HostView& view, Findings& findings) {
  if (RdmaDevices(view).empty()) return findings.Skip("", "no RDMA device");
  if (view.Variable("ESPALIER_VERBS") == "off") {
    return findings.Fail("", "ESPALIER_VERBS=off: programs of this environment are not steered",
                         "unset it");
  }
  if (view.loads_shim) {
    if (*view.loads_shim) return findings.Ok("", view.environment_of + " has loaded it");
    return findings.Warn("", view.environment_of + " has not loaded libespalier-verbs", kRemedy);
  }
  for (const char* const name : {"LD_PRELOAD", "NCCL_IBVERBS_LIB", "LD_LIBRARY_PATH"}) {
    const std::string value = view.Variable(name);
    if (value.find("espalier") == std::string::npos) continue;
    return findings.Ok("", fmt::format("{}={}", name, value));
  }
  if (view.Read("/etc/ld.so.preload").value_or("").find("espalier") != std::string::npos) {
    return findings.Ok("", "/etc/ld.so.preload loads it into every program");
  }
  findings.Warn("", "programs of this environment use libibverbs without Espalier", kRemedy);
}

}  // namespace espalier::doctor
