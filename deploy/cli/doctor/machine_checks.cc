#include "deploy/cli/doctor/machine_checks.h"

#include <fmt/format.h>

#include <cstdio>
#include <map>
#include <sstream>
#include <string>
#include <string_view>

#include "common/files/json.h"
#include "common/identity/key_files.h"
#include "deploy/cli/doctor/device_checks.h"

namespace espalier::doctor {
namespace {

constexpr const char* kAgentConfiguration = "/etc/espalier/agent.conf";
constexpr const char* kAgentKey = "/etc/espalier/keys/agent.key";
constexpr const char* kControllerKeys = "/etc/espalier/keys/controller.pub";
constexpr double kLeastAnswered = 0.8;  // of probes, as discovery paces itself
constexpr double kFewProbes = 100;

// None, with a finding, if no agent answers.
std::optional<std::string> AgentMetrics(const HostView& view, Findings& findings) {
  auto metrics = view.ask_agent("/metrics");
  if (metrics) return std::move(*metrics);
  findings.Skip("", "no agent answers");
  return std::nullopt;
}

// Below 80 %, switches limit ICMP errors.
void JudgeProbeAnswers(Findings& findings, double sent, double answered) {
  if (sent < kFewProbes) {
    return findings.Skip("", fmt::format("only {:.0f} probes so far", sent),
                         "open a flow between two leaves, or run `espalier probe A B`");
  }
  const std::string found =
      fmt::format("{:.0f} % of {:.0f} probes were answered", 100 * answered / sent, sent);
  if (answered >= kLeastAnswered * sent) return findings.Ok("", found);
  findings.Warn(
      "", found,
      "switches limit ICMP errors, or drop probes: raise their limit of \"time "
      "exceeded\" (on Linux net.ipv4.icmp_ratelimit and icmp_msgs_per_sec), and accept UDP "
      "to port 4791; until then ports are learned slowly");
}

}  // namespace

void CheckKernel(const HostView& view, Findings& findings) {
  const std::string release = view.Read("/proc/sys/kernel/osrelease").value_or("");
  unsigned major = 0;
  unsigned minor = 0;
  if (std::sscanf(release.c_str(), "%3u.%3u", &major, &minor) != 2) {
    return findings.Skip("", "the release of the kernel cannot be read");
  }
  const bool has_rdma = view.Exists("/sys/module/ib_core") || view.Exists("/sys/class/infiniband");
  const std::string found =
      fmt::format("Linux {}, {} RDMA", release, has_rdma ? "with" : "without");
  if (major < 6 || (major == 6 && minor < 1)) {
    return findings.Warn("", found,
                         "Espalier is tested on Linux 6.1 and later: with an older kernel, check "
                         "that `device` is ok, and that flows become ROUTED");
  }
  findings.Ok("", found);
}

void CheckClock(const HostView& view, Findings& findings) {
  const auto clock = view.read_clock();
  if (!clock) return findings.Skip("", clock.error().message);
  if (!clock->is_synchronised) {
    return findings.Warn("", "the kernel's clock is not synchronised",
                         "start chrony or systemd-timesyncd: logs, events, keys and tokens that "
                         "expire need the time");
  }
  findings.Ok(
      "", fmt::format("synchronised, wrong by at most {:.3g} ms", clock->max_error_seconds * 1e3));
}

void CheckVersions(const HostView& view, Findings& findings) {
  const auto printed =
      view.run({"dpkg-query", "-W", "-f", "${db:Status-Status} ${Package} ${Version}\\n",
                "espalier*", "libespalier*"});
  if (!printed) {
    return findings.Skip("",
                         "no package of Espalier is installed, or no dpkg: its versions "
                         "are not known");
  }
  std::map<std::string, std::string> packages;  // by version
  std::istringstream lines(*printed);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string status;
    std::string name;
    std::string version;
    if (!(words >> status >> name >> version) || status != "installed") continue;
    std::string& names = packages[version];
    names += (names.empty() ? "" : " ") + name;
  }
  if (packages.empty()) return findings.Skip("", "no package of Espalier is installed");
  std::string found;
  for (const auto& [version, names] : packages) {
    found += fmt::format("{}{}: {}", found.empty() ? "" : "; ", version, names);
  }
  if (packages.size() == 1) return findings.Ok("", found);
  findings.Warn("", found, "install one version of all packages on this machine");
}

void CheckMemoryLimit(const HostView& view, Findings& findings) {
  if (RdmaDevices(view).empty()) return findings.Skip("", "no RDMA device");
  const std::string limits = view.Read("/proc/self/limits").value_or("");
  const std::string_view name = "Max locked memory";
  const std::size_t at = limits.find(name);
  if (at == std::string::npos) return findings.Skip("", "the limits cannot be read");
  std::istringstream words(limits.substr(at + name.size()));
  std::string soft;
  words >> soft;
  if (soft == "unlimited") return findings.Ok("", "this shell may pin any amount of memory");
  findings.Warn(
      "", fmt::format("this shell may pin {} bytes of memory", soft),
      "where jobs have this limit, RDMA programs cannot register their buffers: set "
      "memlock to unlimited (limits.conf, LimitMEMLOCK of the unit, --ulimit memlock=-1)");
}

bool HasAgentConfiguration(const HostView& view) { return view.Exists(kAgentConfiguration); }

void CheckAgentKeys(const HostView& view, Findings& findings) {
  if (!view.Exists(kAgentKey) && !HasAgentConfiguration(view)) {
    return findings.Skip("",
                         fmt::format("no agent is configured here, and there is no {}", kAgentKey));
  }
  const auto key = identity::ReadKeyFile(view.root + kAgentKey);
  const auto trusted = identity::ReadControllerKeys(view.root + kControllerKeys);
  for (const Error* const error :
       {key ? nullptr : &key.error(), trusted ? nullptr : &trusted.error()}) {
    if (error == nullptr) continue;
    if (error->code == ErrorCode::kPermissionDenied && !view.is_root) {
      return findings.Skip("", "only root and the agent can read the keys", "run it as root");
    }
    return findings.Fail("", error->message,
                         fmt::format("copy both files from the controller (docs/operating.md, "
                                     "\"Manage keys\"): {} and {}",
                                     kAgentKey, kControllerKeys));
  }
  findings.Ok(
      "", fmt::format("key of {}, made {}; {} public key{} of the controller", key->name,
                      FormatWallTime(key->made), trusted->size(), trusted->size() == 1 ? "" : "s"));
}

void CheckAgent(const HostView& view, Findings& findings) {
  const auto health = view.ask_agent("/healthz");
  if (!health) {
    if (!HasAgentConfiguration(view)) {
      return findings.Skip(
          "", "no agent is configured here, and none answers at " + view.agent_address);
    }
    return findings.Fail("", health.error().message,
                         "systemctl status espalier-agent; if its `http` is another address, give "
                         "it with --agent");
  }
  const auto json = io::ParseJson(*health, view.agent_address);
  const io::JsonValue* const state = json ? json->Find("state") : nullptr;
  if (state == nullptr) {
    return findings.Fail("", fmt::format("what answers at {} is no agent", view.agent_address),
                         "give the agent's `http` with --agent");
  }
  if (state->text == "synced") return findings.Ok("", "it runs and hears its controller");
  findings.Fail("",
                fmt::format("it runs, but its state is {}: it hears no controller", state->text),
                "journalctl -u espalier-agent says why; check `controller` of its configuration, "
                "its keys and TCP port 7400");
}

void CheckProbeAnswers(const HostView& view, Findings& findings) {
  const auto metrics = AgentMetrics(view, findings);
  if (!metrics) return;
  const auto sent = MetricOf(*metrics, "espalier_agent_probes_sent_total");
  const auto answered = MetricOf(*metrics, "espalier_agent_probes_answered_total");
  if (!sent || !answered) {
    return findings.Skip("", "the agent does not probe",
                         "let it have CAP_NET_RAW, and no `no_probing` in its configuration");
  }
  JudgeProbeAnswers(findings, *sent, *answered);
}

void CheckUnobserved(const HostView& view, Findings& findings) {
  const auto metrics = AgentMetrics(view, findings);
  if (!metrics) return;
  const double count = MetricOf(*metrics, "espalier_agent_unobserved_queue_pairs").value_or(0);
  if (count <= 0)
    return findings.Ok("", "no program bypasses Espalier, as far as the kernel lists it");
  findings.Warn("", fmt::format("{:.0f} queue pairs belong to no flow", count),
                "start their programs with libespalier-verbs (docs/rdma.md); the agent's log names "
                "them");
}

}  // namespace espalier::doctor
