#include "deploy/cli/lab/lab_commands.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/files/command_result.h"
#include "common/files/file.h"
#include "common/files/json_writer.h"
#include "deploy/cli/lab/link_feed.h"
#include "deploy/cli/lab/rdma_command.h"
#include "deploy/cli/lab/steered_lab.h"
#include "deploy/lab/ground_truth.h"
#include "deploy/lab/lab.h"
#include "deploy/lab/link_faults.h"
#include "deploy/lab/run_traffic.h"

namespace espalier::lab {
namespace {

// What a command does after its options are parsed. Its result becomes the exit code.
using Action = std::function<Result<void>()>;

void Run(CLI::App* command, int& exit_code, Action action) {
  command->callback([&exit_code, action = std::move(action)] { exit_code = ExitCodeOf(action()); });
}

void AddName(CLI::App* command, std::string& name) {
  command->add_option("--name", name, "Name of the lab")->type_name("NAME")->capture_default_str();
}

void AddJson(CLI::App* command, bool& json) {
  command->add_flag("--json", json, "Print one JSON object on standard output");
}

CLI::Option* AddNumber(CLI::App* command, const std::string& name, int& number, const char* type,
                       const std::string& help) {
  return command->add_option(name, number, help)->type_name(type)->capture_default_str();
}

// `api`: the address of the controller's API; empty if this is not known to run.
void WriteLab(io::JsonWriter& json, const LabRecord& record, const std::string& topology_file,
              const std::string& api) {
  const LabOptions& options = record.options;
  json.BeginObject();
  json.Key("name").String(options.name);
  json.Key("alive").Bool(record.alive);
  json.Key("pid").Integer(record.pid);
  json.Key("spines").Integer(options.spines);
  json.Key("leaves").Integer(options.leaves);
  json.Key("hosts_per_leaf").Integer(options.hosts_per_leaf);
  json.Key("rails").Integer(options.rails);
  json.Key("uplinks").Integer(options.uplinks);
  json.Key("gpus").Integer(options.gpus);
  json.Key("planes").Integer(options.planes);
  json.Key("routing").String(options.routing == Routing::kFrr ? "frr" : "static");
  json.Key("pods").Integer(options.pods);
  json.Key("cores").Integer(options.cores);
  json.Key("link_mbps")
      .Double(options.link_rate ? static_cast<double>(options.link_rate->value) / 1e6 : 0);
  json.Key("icmp_limits").Bool(options.icmp_limits);
  json.Key("ipv6").Bool(options.ipv6);
  json.Key("seed").String(fmt::format("{}", options.seed));
  json.Key("topology").String(topology_file);
  json.Key("controller_address").String(LabLayout::ControllerAddress());
  json.Key("controller_api").String(api);
  json.EndObject();
}

// "4 spines, 4 leaves" or "2 pods of 2 leaves and 2 aggregation switches, 4 cores".
std::string DescribeSwitches(const LabOptions& options) {
  if (options.pods == 0) return fmt::format("{} spines, {} leaves", options.spines, options.leaves);
  return fmt::format("{} pods of {} leaves and {} aggregation switches, {} cores", options.pods,
                     options.leaves, options.spines, options.cores);
}

struct UpArguments {
  LabOptions lab;
  double link_mbps = 0;
  std::string icmp_limits = "off";
  std::string hash_seeds = "distinct";
  std::string routing = "static";
  bool is_steered = false;
  int sampling = 0;  // one packet in so many; 0: none
  bool json = false;
};

Result<void> Up(const UpArguments& arguments) {
  LabOptions options = arguments.lab;
  if (arguments.link_mbps > 0) {
    options.link_rate = BitsPerSecond{static_cast<std::int64_t>(arguments.link_mbps * 1e6)};
  }
  options.icmp_limits = arguments.icmp_limits == "on";
  if (arguments.hash_seeds == "tier") options.hash_seeds = HashSeeds::kTier;
  if (arguments.hash_seeds == "equal") options.hash_seeds = HashSeeds::kEqual;
  if (arguments.routing == "frr") options.routing = Routing::kFrr;
  const auto begin = std::chrono::steady_clock::now();
  const Result<Lab> lab = Lab::Start(options);
  if (!lab) return tl::unexpected(lab.error());
  std::string api;
  if (arguments.is_steered || arguments.sampling > 0) {
    Result<std::string> address = SteerLab(*lab, arguments.sampling);
    if (!address) return tl::unexpected(address.error());
    api = *address;
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  if (arguments.json) {
    io::JsonWriter json;
    WriteLab(json, lab->record(), lab->topology_file(), api);
    fmt::print("{}\n", json.Text());
    return {};
  }
  fmt::print(
      "lab '{}' is up after {:.2f} s: {}, {} hosts\n"
      "topology file: {}\n"
      "look around with: espalier lab exec --name {} leaf0 -- ip route\n",
      options.name, took.count(), DescribeSwitches(options), lab->layout().HostCount(),
      lab->topology_file(), options.name);
  if (!api.empty()) {
    fmt::print(
        "the controller and {} agents run until the lab is stopped:\n"
        "  export ESPALIER_CONTROLLER={}\n"
        "  espalier status\n",
        lab->layout().HostCount(), api);
  }
  return {};
}

void AddUp(CLI::App& lab, int& exit_code) {
  CLI::App* up = lab.add_subcommand(
      "up", "Start a fabric of network namespaces with kernel ECMP, of two or three tiers");
  const auto arguments = std::make_shared<UpArguments>();
  LabOptions& options = arguments->lab;
  AddNumber(up, "--spines", options.spines, "COUNT",
            "Spine switches; with --pods, aggregation switches of each pod");
  AddNumber(up, "--leaves", options.leaves, "COUNT", "Leaf switches; with --pods, of each pod");
  AddNumber(up, "--pods", options.pods, "COUNT",
            "Pods of a fabric of three tiers (0: two tiers, without cores)");
  AddNumber(up, "--cores", options.cores, "COUNT",
            "Core switches of a fabric of three tiers, a multiple of --spines");
  AddNumber(up, "--hosts-per-leaf", options.hosts_per_leaf, "COUNT",
            "Hosts of each leaf; with --rails, NICs of each leaf");
  AddNumber(up, "--rails", options.rails, "COUNT",
            "NICs of each host, each on a leaf of its own; a divisor of --leaves");
  AddNumber(up, "--gpus", options.gpus, "COUNT",
            "GPUs of each host with several NICs, a divisor of --rails (0: one for each NIC)");
  AddNumber(up, "--uplinks", options.uplinks, "COUNT",
            "Leaves to which each host is linked with one address, a divisor of --leaves; the host "
            "chooses among them by a hash of the ports");
  AddNumber(
      up, "--planes", options.planes, "COUNT",
      "Parts without links between them, to which rails (or uplinks) and spines are dealt out");
  AddName(up, options.name);
  up->add_option("--link-mbps", arguments->link_mbps,
                 "Rate of every link between switches in each direction, in Mbit/s (0: no limit); "
                 "links to hosts have no limit, unless hosts have several uplinks")
      ->type_name("MBPS")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  up->add_option("--icmp-limits", arguments->icmp_limits,
                 "Whether the kernel limits ICMP errors, as real switches do")
      ->check(CLI::IsMember({"on", "off"}))
      ->capture_default_str();
  up->add_option("--seed", options.seed, "Seed from which those of the ECMP hashes are drawn")
      ->type_name("SEED")
      ->capture_default_str();
  up->add_option("--hash-seeds", arguments->hash_seeds,
                 "Switches that share a seed: none (distinct), those of a tier (tier), or all "
                 "(equal), so that some paths between pods have no port")
      ->check(CLI::IsMember({"distinct", "tier", "equal"}))
      ->capture_default_str();
  up->add_option("--routing", arguments->routing,
                 "Source of the switches' routes: the lab (static), or BGP between FRR's daemons "
                 "on every switch (frr)")
      ->check(CLI::IsMember({"static", "frr"}))
      ->capture_default_str();
  up->add_flag("--ipv6", options.ipv6, "Use IPv6 in the fabric (management stays IPv4)");
  up->add_flag(
      "--hash-hint", options.hash_hint,
      "Write the switches' hash and seed into the topology file, so that the controller need "
      "not learn them by probing");
  up->add_flag("--steered", arguments->is_steered,
               "Start a controller and an agent of each host in the lab, too");
  up->add_option(
        "--sflow", arguments->sampling,
        "Have each switch sample one packet in so many (sFlow, by uacctd of pmacct), and start "
        "espalier-telemetry beside the controller; implies --steered")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000));
  AddJson(up, arguments->json);
  up->footer(
      "Examples:\n  espalier lab up --steered --link-mbps 50\n"
      "  espalier lab up --sflow 16 --link-mbps 50\n"
      "  espalier lab up --spines 4 --leaves 4 --hosts-per-leaf 4 --link-mbps 50\n"
      "  espalier lab up --pods 4 --leaves 2 --spines 2 --cores 4 --hosts-per-leaf 2");
  Run(up, exit_code, [arguments] { return Up(*arguments); });
}

void AddDown(CLI::App& lab, int& exit_code) {
  CLI::App* down = lab.add_subcommand("down", "Stop a lab and every process in it");
  const auto name = std::make_shared<std::string>("lab");
  AddName(down, *name);
  Run(down, exit_code, [name] { return Lab::Stop(*name); });
}

Result<void> List(bool as_json) {
  const Result<LabRegistry> registry = LabRegistry::Open();
  if (!registry) return tl::unexpected(registry.error());
  const std::vector<LabRecord> records = registry->List();
  if (as_json) {
    io::JsonWriter json;
    json.BeginObject().Key("labs").BeginArray();
    for (const LabRecord& record : records) {
      const std::string topology = registry->TopologyFile(record.options.name);
      const std::filesystem::path socket =
          std::filesystem::path(topology).parent_path() / "espalier/controller.sock";
      const bool is_steered = record.alive && std::filesystem::exists(socket);
      WriteLab(json, record, topology, is_steered ? "unix:" + socket.string() : "");
    }
    json.EndArray().EndObject();
    fmt::print("{}\n", json.Text());
    return {};
  }
  if (records.empty()) fmt::print(stderr, "no lab is up (start one with: espalier lab up)\n");
  for (const LabRecord& record : records) {
    const LabOptions& options = record.options;
    const std::string pods =
        options.pods == 0 ? "" : fmt::format(", {} pods, {} cores", options.pods, options.cores);
    fmt::print("{:<16} {}x{}x{}{}{} {}\n", options.name, options.spines, options.leaves,
               options.hosts_per_leaf, pods, options.ipv6 ? " IPv6" : "",
               record.alive ? fmt::format("up, process {}", record.pid) : "dead");
  }
  return {};
}

void AddList(CLI::App& lab, int& exit_code) {
  CLI::App* list = lab.add_subcommand("list", "List the labs of this user");
  const auto json = std::make_shared<bool>(false);
  AddJson(list, *json);
  Run(list, exit_code, [json] { return List(*json); });
}

struct ExecArguments {
  std::string name = "lab";
  std::string node;
  std::vector<std::string> argv;
};

Result<void> Exec(const ExecArguments& arguments) {
  const Result<Lab> lab = Lab::Find(arguments.name);
  if (!lab) return tl::unexpected(lab.error());
  const Result<Command> command = lab->MakeCommand(arguments.node, arguments.argv);
  if (!command) return tl::unexpected(command.error());
  std::fflush(nullptr);
  return tl::unexpected(ExecCommand(*command));
}

void AddExec(CLI::App& lab, int& exit_code) {
  CLI::App* exec = lab.add_subcommand(
      "exec", "Run a program in a node of a lab, with the exit code of the program");
  const auto arguments = std::make_shared<ExecArguments>();
  AddName(exec, arguments->name);
  exec->add_option("NODE", arguments->node,
                   "Node: a host (h0, ...), a switch (leaf0, spine0 or agg0, core0, ...) or "
                   "'controller', which "
                   "reaches the management address of every host")
      ->required();
  exec->add_option("COMMAND", arguments->argv, "Program and, after --, its arguments")->required();
  exec->footer("Examples:\n  espalier lab exec leaf0 -- ip route");
  Run(exec, exit_code, [arguments] { return Exec(*arguments); });
}

struct LinkArguments {
  std::string name = "lab";
  std::string link;
  std::string end = "b";
};

Result<void> Fail(const LinkArguments& arguments) {
  const Result<Lab> lab = Lab::Find(arguments.name);
  if (!lab) return tl::unexpected(lab.error());
  const Result<bool> changed =
      FailLink(*lab, arguments.link, arguments.end == "a" ? LinkEnd::kA : LinkEnd::kB);
  if (!changed) return tl::unexpected(changed.error());
  if (!*changed) fmt::print(stderr, "{} is already down\n", arguments.link);
  return {};
}

Result<void> Restore(const LinkArguments& arguments) {
  const Result<Lab> lab = Lab::Find(arguments.name);
  if (!lab) return tl::unexpected(lab.error());
  const Result<bool> changed = RestoreLink(*lab, arguments.link);
  if (!changed) return tl::unexpected(changed.error());
  if (!*changed) fmt::print(stderr, "{} is already up\n", arguments.link);
  return {};
}

void AddLinkCommands(CLI::App& lab, int& exit_code) {
  constexpr char kLinkHelp[] =
      "Link by its id in the topology (leaf0--spine1, h0--leaf0), or mgmt-h0 for the management "
      "link of host h0";
  CLI::App* fail = lab.add_subcommand("fail", "Take a link down");
  fail->footer(
      "One end is shut, the other end loses its carrier, and both switches of the link notice.\n"
      "Other leaves do not: for their flows it is a far link, on which the spine drops packets.\n"
      "Taking mgmt-h0 down disconnects the agent of host h0 from the controller.");
  const auto failed = std::make_shared<LinkArguments>();
  AddName(fail, failed->name);
  fail->add_option("LINK", failed->link, kLinkHelp)->required();
  fail->add_option("--end", failed->end,
                   "End that is shut: a is the lower tier (host, leaf), b the upper (leaf, spine)")
      ->check(CLI::IsMember({"a", "b"}))
      ->capture_default_str();
  Run(fail, exit_code, [failed] { return Fail(*failed); });

  CLI::App* restore =
      lab.add_subcommand("restore", "Bring a link up at both ends, and restore its routes");
  const auto restored = std::make_shared<LinkArguments>();
  AddName(restore, restored->name);
  restore->add_option("LINK", restored->link, kLinkHelp)->required();
  Run(restore, exit_code, [restored] { return Restore(*restored); });
}

void AddWatch(CLI::App& lab, int& exit_code) {
  CLI::App* watch = lab.add_subcommand(
      "watch",
      "Print a line of JSON for every link between switches that is down, goes down or comes up, "
      "as `espalier report links` reads it");
  const auto options = std::make_shared<LinkFeedOptions>();
  AddName(watch, options->name);
  watch
      ->add_option("--loads", options->load_interval,
                   "Seconds between lines with the measured loads of all links (default: none)")
      ->check(CLI::Range(0.1, 600.0))
      ->type_name("SECONDS");
  watch->footer(
      "Examples:\n"
      "  espalier lab watch | espalier report links --follow\n"
      "  espalier lab watch --loads 0.5 | espalier report links --follow");
  Run(watch, exit_code, [options] { return PrintLinkFeed(*options); });
}

std::string_view ProtocolName(std::uint8_t protocol) { return protocol == 6 ? "tcp" : "udp"; }

std::string CountersJson(const std::vector<FlowCount>& flows,
                         const std::vector<InterfaceCount>& interfaces) {
  io::JsonWriter json;
  json.BeginObject().Key("flows").BeginArray();
  for (const FlowCount& flow : flows) {
    json.BeginObject();
    json.Key("spine").String(flow.spine);
    json.Key("protocol").String(ProtocolName(flow.protocol));
    json.Key("source").String(flow.source.ToString());
    json.Key("destination").String(flow.destination.ToString());
    json.Key("source_port").Integer(flow.source_port);
    json.Key("packets").Integer(flow.packets);
    json.Key("bytes").Integer(flow.bytes);
    json.EndObject();
  }
  json.EndArray().Key("interfaces").BeginArray();
  for (const InterfaceCount& interface : interfaces) {
    json.BeginObject();
    json.Key("node").String(interface.node);
    json.Key("interface").String(interface.interface);
    json.Key("link").String(interface.link);
    json.Key("in_packets").Integer(interface.in_packets);
    json.Key("in_bytes").Integer(interface.in_bytes);
    json.Key("out_packets").Integer(interface.out_packets);
    json.Key("out_bytes").Integer(interface.out_bytes);
    json.Key("dropped").Integer(interface.dropped);
    json.EndObject();
  }
  json.EndArray().EndObject();
  return json.Text();
}

Result<void> Counters(const std::string& name, bool as_json) {
  const Result<Lab> lab = Lab::Find(name);
  if (!lab) return tl::unexpected(lab.error());
  const Result<std::vector<FlowCount>> flows = ReadFlowCounts(*lab);
  if (!flows) return tl::unexpected(flows.error());
  const Result<std::vector<InterfaceCount>> interfaces = ReadInterfaceCounts(*lab);
  if (!interfaces) return tl::unexpected(interfaces.error());
  if (as_json) {
    fmt::print("{}\n", CountersJson(*flows, *interfaces));
    return {};
  }
  fmt::print("{:<9}{:<6}{:<16}{:<16}{:>6}{:>10}{:>14}\n", "spine", "proto", "source", "destination",
             "port", "packets", "bytes");
  for (const FlowCount& flow : *flows) {
    fmt::print("{:<9}{:<6}{:<16}{:<16}{:>6}{:>10}{:>14}\n", flow.spine, ProtocolName(flow.protocol),
               flow.source.ToString(), flow.destination.ToString(), flow.source_port, flow.packets,
               flow.bytes);
  }
  fmt::print("\n{:<18}{:<9}{:>10}{:>14}{:>10}\n", "link", "sent by", "packets", "bytes", "dropped");
  for (const InterfaceCount& interface : *interfaces) {
    fmt::print("{:<18}{:<9}{:>10}{:>14}{:>10}\n", interface.link, interface.node,
               interface.out_packets, interface.out_bytes, interface.dropped);
  }
  return {};
}

void AddCounters(CLI::App& lab, int& exit_code) {
  CLI::App* counters = lab.add_subcommand("counters",
                                          "Print the counters of packets to ports 4791 to 4806 of "
                                          "all switches above the leaves, and the "
                                          "interface counters of all switches");
  const auto name = std::make_shared<std::string>("lab");
  const auto json = std::make_shared<bool>(false);
  AddName(counters, *name);
  AddJson(counters, *json);
  Run(counters, exit_code, [name, json] { return Counters(*name, *json); });
}

struct TrafficArguments {
  std::string name = "lab";
  std::string workload_file;
  TrafficOptions options;
  int time_limit_seconds = 60;
  bool json = false;
};

Result<TrafficResult> RunWorkload(const TrafficArguments& arguments) {
  const Result<Lab> lab = Lab::Find(arguments.name);
  if (!lab) return tl::unexpected(lab.error());
  const Result<std::string> text = io::ReadFile(arguments.workload_file);
  if (!text) return tl::unexpected(text.error());
  const Result<traffic::Workload> workload = traffic::ParseWorkload(*text, arguments.workload_file);
  if (!workload) return tl::unexpected(workload.error());
  TrafficOptions options = arguments.options;
  options.time_limit = std::chrono::seconds(arguments.time_limit_seconds);
  return RunTraffic(*lab, *workload, options);
}

int Traffic(const TrafficArguments& arguments) {
  const Result<TrafficResult> result = RunWorkload(arguments);
  if (!result) return ExitCodeOf(tl::unexpected(result.error()));
  if (arguments.json) {
    fmt::print("{}\n", FormatTrafficResult(*result));
  } else {
    fmt::print("{}", DescribeTrafficResult(*result));
  }
  if (result->completed) return 0;
  // The result stays the only object on standard output; its `completed` is false.
  fmt::print(stderr,
             "espalier: the traffic was not complete within the time limit (see --time-limit)\n");
  return io::kExitFailed;
}

void AddTraffic(CLI::App& lab, int& exit_code) {
  CLI::App* traffic = lab.add_subcommand(
      "traffic", "Run the flows and jobs of a workload file, and print the time of each");
  const auto arguments = std::make_shared<TrafficArguments>();
  AddName(traffic, arguments->name);
  traffic->add_option("--workload", arguments->workload_file, "Workload file (JSON)")->required();
  traffic->add_option("--seed", arguments->options.seed, "Seed of the flows' own source ports")
      ->type_name("SEED")
      ->capture_default_str();
  traffic->add_flag(
      "--agents", arguments->options.use_agents,
      "Announce flows to the hosts' agents, and use the source ports that they assign");
  AddNumber(traffic, "--time-limit", arguments->time_limit_seconds, "SECONDS",
            "Time in seconds after which the traffic is stopped")
      ->check(CLI::Range(1, 86'400));
  AddJson(traffic, arguments->json);
  traffic->callback([arguments, &exit_code] { exit_code = Traffic(*arguments); });
}

}  // namespace

void AddLabCommands(CLI::App& app, int& exit_code) {
  CLI::App* lab = app.add_subcommand(
      "lab", "Run leaf-spine fabrics with real ECMP on this machine, in network namespaces");
  lab->require_subcommand(1);
  AddUp(*lab, exit_code);
  AddDown(*lab, exit_code);
  AddList(*lab, exit_code);
  AddExec(*lab, exit_code);
  AddLinkCommands(*lab, exit_code);
  AddWatch(*lab, exit_code);
  AddCounters(*lab, exit_code);
  AddTraffic(*lab, exit_code);
  AddRdmaCommand(*lab, exit_code);
}

}  // namespace espalier::lab
