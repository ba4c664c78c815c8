#include "deploy/demo/lab_daemons.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>
#include <thread>

#include "common/files/topology_file.h"
#include "common/http/http.h"
#include "common/http/http_client.h"
#include "common/identity/key_folder.h"

namespace espalier::demo {
namespace {

using namespace std::chrono_literals;

constexpr int kControllerPort = 7400;
constexpr auto kStartTimeout = 60s;
constexpr auto kRestartDelay = 15s;
constexpr auto kPollInterval = 2ms;

// Polls until `ready` returns true. Errors: kUnavailable after `timeout`.
Result<void> Await(const std::string& what, Duration timeout, const std::function<bool()>& ready) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!ready()) {
    if (std::chrono::steady_clock::now() > deadline) {
      return Fail(ErrorCode::kUnavailable, fmt::format("{} in {} s", what, timeout / 1s));
    }
    std::this_thread::sleep_for(kPollInterval);
  }
  return {};
}

Result<void> WriteText(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file) return Fail(ErrorCode::kUnavailable, fmt::format("cannot write {}", path));
  return {};
}

// Makes keys like `espalier keys make`; existing ones stay.
Result<void> MakeKeys(const lab::Lab& lab, const std::string& folder) {
  Result<identity::KeyFolder> keys = identity::KeyFolder::Open(folder);
  if (!keys) return Propagate(keys);
  const WallTime now = SystemWallTime();
  Result<void> made = keys->MakeController(now);
  if (!made && made.error().code != ErrorCode::kAlreadyExists) return made;
  std::vector<std::string> names;
  for (int host = 0; host < lab.layout().HostCount(); ++host) {
    const std::string name = fmt::format("h{}", host);
    if (!keys->ring().HasGoodKey(name, now)) names.push_back(name);
  }
  const auto files = keys->MakeAgents(names, now);
  if (!files) return tl::unexpected<Error>(files.error());
  return {};
}

std::string AgentSocket(const Command& command) {
  for (const auto& [name, value] : command.environment) {
    if (name == "ESPALIER_AGENT_SOCKET") return value;
  }
  return "";
}

}  // namespace

Result<LabDaemons> LabDaemons::Start(const lab::Lab& lab, const std::string& programs,
                                     const std::string& folder,
                                     const std::string& controller_fields) {
  LabDaemons daemons(lab, programs, folder);
  if (Result<void> started = daemons.StartAll(controller_fields); !started) {
    return Propagate(started);
  }
  return daemons;
}

Result<std::string> LabDaemons::StartAndLeave(const lab::Lab& lab, const std::string& programs,
                                              const std::string& folder) {
  LabDaemons daemons(lab, programs, folder);
  daemons.leaves_ = true;
  if (Result<void> started = daemons.StartAll(""); !started) return Propagate(started);
  return daemons.api_address();
}

Result<void> LabDaemons::StartAll(const std::string& controller_fields) {
  Result<void> started =
      WriteText(folder_ + "/controller.conf",
                fmt::format("topology_file: \"{}\"\n"
                            "listen: \"tcp://{}:{}\"\n"
                            "state_file: \"{}/store.db\"\n"
                            "key_folder: \"{}/keys\"\n"
                            "http: \"unix:{}/controller.sock\"\n"
                            "log_level: \"info\"\n"
                            "hash_ignores_protocol: true  # TCP stands in for RoCEv2 in a lab\n"
                            "full_queue_us: 50000  # the lab's queues take 50 ms\n"
                            "{}",
                            lab_->topology_file(), lab::LabLayout::ControllerAddress(),
                            kControllerPort, folder_, folder_, folder_, controller_fields));
  if (started) started = MakeKeys(*lab_, folder_ + "/keys");
  for (int host = 0; started && host < lab_->layout().HostCount(); ++host) {
    started = StartAgent(host);
  }
  return started ? StartController() : started;
}

Result<std::optional<ChildProcess>> LabDaemons::StartProgram(const std::string& node,
                                                             const std::string& program,
                                                             const std::string& name) {
  // In a separate session, so that Ctrl-C reaches only this program, which ends them. Those that
  // are left running are children of a process that ends at once.
  std::vector<std::string> argv{"setsid"};
  if (leaves_) argv.emplace_back("--fork");
  argv.insert(argv.end(), {"sh", "-c", "exec \"$0\" --config \"$1\" </dev/null >>\"$2\" 2>&1",
                           programs_ + "/" + program, fmt::format("{}/{}.conf", folder_, name),
                           fmt::format("{}/{}.log", folder_, name)});
  const Result<Command> command = lab_->MakeCommand(node, std::move(argv));
  if (!command) return tl::unexpected<Error>(command.error());
  if (leaves_) {
    const Result<std::string> started = RunOrFail(*command);
    if (!started) return tl::unexpected<Error>(started.error());
    return std::nullopt;
  }
  Result<ChildProcess> child = ChildProcess::Start(*command);
  if (!child) return Propagate(child);
  return std::move(*child);
}

Result<void> LabDaemons::StartAgent(int host) {
  const std::string name = fmt::format("h{}", host);
  const Result<Command> probe = lab_->MakeCommand(name, {});
  if (!probe) return tl::unexpected<Error>(probe.error());
  const std::string config = fmt::format("{}/{}.conf", folder_, name);
  std::string nics;
  for (int rail = 0; rail < lab_->layout().options().rails; ++rail) {
    // With several uplinks, the address is on the loopback interface.
    const bool is_shared = lab_->layout().options().uplinks > 1;
    nics += fmt::format("nic: \"{}\"\n",
                        is_shared ? lab_->layout().NicAddress(host) : fmt::format("eth{}", rail));
  }
  Result<void> written = WriteText(
      config, fmt::format("name: \"{}\"\n"
                          "controller: \"tcp://{}:{}\"\n"
                          "key_file: \"{}/keys/agents/{}.key\"\n"
                          "controller_keys_file: \"{}/keys/controller.pub\"\n"
                          "local_socket: \"{}\"\n"
                          "{}"
                          "http: \"unix:{}/{}.sock\"\n"
                          "log_level: \"info\"\n",
                          name, lab::LabLayout::ControllerAddress(), kControllerPort, folder_, name,
                          folder_, AgentSocket(*probe), nics, folder_, name));
  if (!written) return Propagate(written);
  const std::string engine_name = name + "-engine";
  if (written) {
    written = WriteText(fmt::format("{}/{}.conf", folder_, engine_name),
                        fmt::format("agent_socket: \"{}\"\nhttp: \"unix:{}/{}.sock\"\n"
                                    "log_level: \"info\"\n",
                                    AgentSocket(*probe), folder_, engine_name));
  }
  if (!written) return written;
  // Starts the offload service first: an agent reports at once whether its host has one.
  for (const auto& [program, of] :
       {std::pair("espalier-engine", engine_name), std::pair("espalier-agent", name)}) {
    Result<std::optional<ChildProcess>> started = StartProgram(name, program, of);
    if (!started) return Propagate(started);
    host_processes_.push_back({name, program, of, std::move(*started), {}});
  }
  return {};
}

Result<std::vector<std::string>> LabDaemons::LookAfterHosts() {
  const auto now = std::chrono::steady_clock::now();
  std::vector<std::string> news;
  for (HostProcess& one : host_processes_) {
    if (one.process && one.process->HasEnded()) {
      one.process.reset();
      one.restart = now + kRestartDelay;
      news.push_back(
          fmt::format("{} of {} has ended. It starts again in {} s; new flows of this "
                      "host go over plain ECMP meanwhile.",
                      one.program, one.host, kRestartDelay / 1s));
    } else if (!one.process && now >= one.restart) {
      Result<std::optional<ChildProcess>> started = StartProgram(one.host, one.program, one.name);
      if (!started) return Propagate(started);
      one.process = std::move(*started);
      news.push_back(fmt::format("{} of {} was started again.", one.program, one.host));
    }
  }
  return news;
}

void LabDaemons::KillController() {
  if (!controller_) return;
  controller_->Kill();
  controller_->Wait();
  controller_.reset();
}

Result<void> LabDaemons::StartController() {
  Result<std::optional<ChildProcess>> controller =
      StartProgram(lab::kControllerNode, "espalier-controller", "controller");
  if (!controller) return Propagate(controller);
  controller_ = std::move(*controller);
  return AwaitAgents(lab_->layout().HostCount());
}

Result<void> LabDaemons::AwaitAgents(int count) const {
  return Await("the controller and its agents did not come up", kStartTimeout, [&] {
    const auto status = Get("/api/v1/status");
    const io::JsonValue* connected = status ? status->Find("agents_connected") : nullptr;
    return connected != nullptr && connected->text == std::to_string(count);
  });
}

Result<void> LabDaemons::AwaitEvent(const std::string& kind, const std::string& link) const {
  const std::string about = link.empty() ? "" : "link=" + link;
  return Await(fmt::format("no event {} {}", kind, about), kStartTimeout, [&] {
    const auto events = Get("/api/v1/events");
    return events && std::ranges::any_of(events->Find("events")->items, [&](const auto& event) {
             return event.Find("kind")->text == kind &&
                    event.Find("text")->text.find(about) != std::string::npos;
           });
  });
}

Result<void> LabDaemons::ApplyTopology(const fabric::TopologySpec& topology) const {
  // Each start of a controller has an epoch of its own.
  const auto epoch = [&]() -> std::string {
    const auto status = Get("/api/v1/status");
    return status ? status->Find("epoch")->text : "";
  };
  const std::string before = epoch();
  const auto applied = Post("/api/v1/topology/apply", io::FormatTopology(topology));
  if (!applied) return tl::unexpected<Error>(applied.error());
  Result<void> started = Await("the controller did not start again", kStartTimeout, [&] {
    const std::string now = epoch();
    return !now.empty() && now != before;
  });
  return started ? AwaitAgents(lab_->layout().HostCount()) : started;
}

Result<void> LabDaemons::AwaitAcknowledged(Duration timeout) const {
  return Await("agents did not acknowledge their paths", timeout, [&] {
    const auto status = Get("/api/v1/status");
    const io::JsonValue* flows = status ? status->Find("unacknowledged_flows") : nullptr;
    return flows != nullptr && flows->text == "0";
  });
}

Result<io::JsonValue> LabDaemons::Get(const std::string& target) const {
  return Ask("GET", target, "");
}

Result<io::JsonValue> LabDaemons::Post(const std::string& target, const std::string& body) const {
  return Ask("POST", target, body);
}

Result<io::JsonValue> LabDaemons::Ask(const std::string& method, const std::string& target,
                                      const std::string& body) const {
  Result<io::HttpResponse> response = io::HttpFetch(api_address(), method, target, body, 10s);
  if (!response) return Propagate(response);
  if (response->status != 200) {
    return Fail(ErrorCode::kFailedPrecondition,
                fmt::format("{} {}: {} {}", method, target, response->status, response->body));
  }
  return io::ParseJson(response->body, target);
}

}  // namespace espalier::demo
