#include "deploy/lab/lab.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <random>
#include <utility>

#include "common/files/file.h"
#include "common/files/topology_file.h"
#include "deploy/lab/frr.h"
#include "deploy/lab/lab_holder.h"
#include "deploy/lab/lab_scripts.h"

namespace espalier::lab {
namespace {

std::string MakeToken() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

Result<void> CheckTools() {
  for (const char* tool : {"ip", "tc", "nft"}) {
    const Result<CommandOutput> version =
        RunCommand({.argv = {tool, tool == std::string("nft") ? "--version" : "-V"}});
    if (!version) return tl::unexpected(version.error());
  }
  return {};
}

Result<void> Apply(const NamespaceContext& door, const std::string& node,
                   std::vector<std::string> argv, const std::string& script) {
  if (script.empty()) return {};
  const Result<std::string> done =
      RunOrFail({.argv = std::move(argv), .environment = {}, .place = &door, .node = node}, script);
  if (!done) return tl::unexpected(done.error());
  return {};
}

Result<void> BuildFabric(const LabLayout& layout, const NamespaceContext& door) {
  const bool has_daemons = layout.options().routing == Routing::kFrr;
  Result<void> done = Apply(door, "", {"ip", "-batch", "-"}, LinkScript(layout));
  for (const LabNode& node : layout.nodes()) {
    if (!done) return done;
    done = Apply(door, node.name, {"ip", "-batch", "-"}, NodeScript(layout, node));
    if (done) done = Apply(door, node.name, {"tc", "-batch", "-"}, ShaperScript(layout, node));
    if (done && node.role >= Role::kSpine) {
      done = Apply(door, node.name, {"nft", "-f", "-"}, CounterRules());
    }
  }
  return done && has_daemons ? StartFrr(layout, door) : done;
}

// "h0..h15, leaf0..leaf3, spine0..spine3".
std::string DescribeNodes(const LabLayout& layout) {
  const LabOptions& options = layout.options();
  const bool has_cores = options.pods != 0;
  std::string text =
      fmt::format("h0..h{}, leaf0..leaf{}, {}..{}", layout.HostCount() - 1, options.LeafCount() - 1,
                  has_cores ? "agg0" : "spine0",
                  fmt::format("{}{}", has_cores ? "agg" : "spine", options.SpineCount() - 1));
  if (has_cores) text += fmt::format(", core0..core{}", options.cores - 1);
  return text;
}

// Waits for the process's end; returns true if it is gone.
bool WaitForEnd(pid_t pid, int timeout_ms) {
  const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process) return errno == ESRCH;
  pollfd waiting{process.get(), POLLIN, 0};
  const bool gone = ::poll(&waiting, 1, timeout_ms) == 1;
  if (gone) ::waitpid(pid, nullptr, WNOHANG);  // if it is a child of this process
  return gone;
}

}  // namespace

Lab::Lab(LabRecord record, LabLayout layout, NamespaceContext door, fabric::Topology topology,
         std::string topology_file)
    : record_(std::move(record)),
      layout_(std::move(layout)),
      door_(std::move(door)),
      topology_(std::move(topology)),
      topology_file_(std::move(topology_file)) {}

Result<Lab> Lab::Start(const LabOptions& options) {
  Result<LabLayout> layout = LabLayout::Make(options);
  if (!layout) return Propagate(layout);
  Result<fabric::TopologySpec> spec = layout->MakeTopology();
  if (!spec) return Propagate(spec);
  if (Result<void> tools = CheckTools(); !tools) return Propagate(tools);
  if (options.routing == Routing::kFrr) {
    if (Result<void> found = CheckFrr(); !found) return Propagate(found);
  }
  Result<LabRegistry> registry = LabRegistry::Open();
  if (!registry) return Propagate(registry);
  const Result<UniqueFd> claim = registry->Claim(options.name);
  if (!claim) return tl::unexpected(claim.error());
  LabRecord record{.options = options, .pid = 0, .started = "", .token = MakeToken()};
  const auto build = [&]() -> Result<void> {
    Result<LabHolder> holder =
        LabHolder::Start(*layout, registry->Folder(options.name), record.token);
    if (!holder) return Propagate(holder);
    record.pid = holder->pid();
    Result<NamespaceContext> door = NamespaceContext::Open(holder->pid());
    if (!door) return Propagate(door);
    if (Result<void> built = BuildFabric(*layout, *door); !built) return built;
    Result<void> written =
        io::WriteFileDurably(registry->TopologyFile(options.name), io::FormatTopology(*spec));
    if (written) written = registry->Write(record);
    if (written) holder->Keep();
    return written;
  };
  if (Result<void> built = build(); !built) {
    // Without Keep the holder ends by itself; waits for it, so that nothing is left behind.
    if (record.pid != 0) WaitForEnd(record.pid, 5000);
    registry->Remove(options.name);
    return Propagate(built);
  }
  Result<Lab> lab = Find(options.name);
  if (!lab) static_cast<void>(Stop(options.name));
  return lab;
}

Result<Lab> Lab::Find(const std::string& name) {
  Result<LabRegistry> registry = LabRegistry::Open();
  if (!registry) return Propagate(registry);
  Result<LabRecord> record = registry->Find(name);
  if (!record) return Propagate(record);
  if (!record->alive) {
    return Fail(ErrorCode::kUnavailable,
                fmt::format("lab '{}' is dead: its process {} ended (remove it with: espalier lab "
                            "down --name {})",
                            name, record->pid, name));
  }
  Result<LabLayout> layout = LabLayout::Make(record->options);
  if (!layout) return Propagate(layout);
  Result<NamespaceContext> door = NamespaceContext::Open(record->pid);
  if (!door) return Propagate(door);
  std::string file = registry->TopologyFile(name);
  Result<fabric::Topology> topology = io::ReadTopologyFile(file);
  if (!topology) return Propagate(topology);
  return Lab(std::move(*record), std::move(*layout), std::move(*door), std::move(*topology),
             std::move(file));
}

Result<void> Lab::Stop(const std::string& name) {
  constexpr int kPatienceMs = 10'000;
  Result<LabRegistry> registry = LabRegistry::Open();
  if (!registry) return Propagate(registry);
  Result<LabRecord> record = registry->Find(name);
  if (!record) return Propagate(record);
  if (record->alive) {
    ::kill(record->pid, SIGTERM);
    if (!WaitForEnd(record->pid, kPatienceMs)) {
      ::kill(record->pid, SIGKILL);
      WaitForEnd(record->pid, kPatienceMs);
    }
  }
  SignalProcessesOfLab(record->token, SIGKILL, 0);
  registry->Remove(name);
  return {};
}

Result<Command> Lab::MakeCommand(const std::string& node, std::vector<std::string> argv) const {
  const LabOptions& options = record_.options;
  Command command{.argv = std::move(argv), .environment = {}, .place = &door_, .node = {}};
  const auto set_names = [&](const std::string& name) {
    command.environment = {{"ESPALIER_LAB", options.name}, {"ESPALIER_NODE", name}};
  };
  if (node == kControllerNode) {
    set_names(node);
    return command;
  }
  const LabNode* found = layout_.FindNode(node);
  if (found == nullptr) {
    return Fail(ErrorCode::kNotFound, fmt::format("lab '{}' has no node '{}' ({}, controller)",
                                                  options.name, node, DescribeNodes(layout_)));
  }
  command.node = found->name;
  set_names(found->name);
  if (found->role == Role::kHost) {
    command.environment.emplace_back("ESPALIER_AGENT_SOCKET",
                                     fmt::format("/run/espalier/{}.sock", found->name));
  }
  return command;
}

Result<std::string> Lab::Run(const std::string& node, std::vector<std::string> argv,
                             std::string_view input) const {
  const Result<Command> command = MakeCommand(node, std::move(argv));
  if (!command) return tl::unexpected(command.error());
  return RunOrFail(*command, input);
}

}  // namespace espalier::lab
