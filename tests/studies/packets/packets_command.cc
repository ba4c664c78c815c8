#include "tests/studies/packets/packets_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "common/files/command_result.h"
#include "common/files/file.h"
#include "common/files/topology_file.h"
#include "common/terminal/interrupt.h"
#include "tests/studies/packets/packet_report.h"

namespace espalier::offline {
namespace {

struct Request {
  std::string topology;
  std::string table;
  std::string transport = "dctcp";
  double link_delay_us = 1;
  PacketOptions options;
  bool json = false;
};

int RunPackets(const Request& request) {
  const auto topology = io::ReadTopologyFile(request.topology);
  if (!topology) return io::ReportError(topology.error());
  const auto text = io::ReadFile(request.table);
  if (!text) return io::ReportError(text.error());
  const auto flows = ParseReplayTable(*text, request.table, *topology);
  if (!flows) return io::ReportError(flows.error());
  const cli::Interrupt interrupt;
  PacketOptions options = request.options;
  options.is_cancelled = [&interrupt] { return interrupt.IsRequested(); };
  options.link_delay_ns = static_cast<std::int64_t>(request.link_delay_us * 1000);
  options.transport = request.transport == "cubic" ? Transport::kCubic : Transport::kDctcp;
  const auto report = ReplayFlows(*topology, *flows, options);
  if (!report) return io::ReportError(report.error());
  if (request.json) {
    fmt::print("{}\n", FormatPacketReport(*report));
  } else {
    PrintPacketReport(*report);
  }
  return 0;
}

}  // namespace

void AddPacketsOptions(CLI::App& command, int& exit_code) {
  auto request = std::make_shared<Request>();
  command.add_option("--topology", request->topology, "Topology file that was assigned")
      ->required();
  command
      .add_option("--table", request->table,
                  "File that `espalier assign --export ns3` or `espalier simulate --export ns3` "
                  "wrote")
      ->type_name("FILE")
      ->required();
  command
      .add_option("--transport", request->transport,
                  "Transport of the senders; dctcp: congestion control by marks, without loss, as "
                  "RoCE with DCQCN; cubic: the usual TCP")
      ->capture_default_str()
      ->check(CLI::IsMember({"dctcp", "cubic"}));
  command
      .add_option("--link-delay-us", request->link_delay_us,
                  "Microseconds that a packet takes along a link")
      ->type_name("NUMBER")
      ->capture_default_str()
      ->check(CLI::Range(0.001, 1e4));
  command
      .add_option("--segment-bytes", request->options.segment_bytes, "Bytes of data in a packet")
      ->type_name("COUNT")
      ->capture_default_str()
      ->check(CLI::Range(std::int64_t{256}, std::int64_t{65'000}));
  command
      .add_option("--queue-bytes", request->options.queue_bytes,
                  "Upper bound on the bytes that wait for one link")
      ->type_name("COUNT")
      ->capture_default_str()
      ->check(CLI::Range(std::int64_t{100'000}, std::int64_t{1} << 30U));
  command.add_flag("--json", request->json, "Print one JSON object on standard output");
  command.footer(
      "All times are relative to the same flow alone. ns-3 has neither PFC nor DCQCN.\n"
      "Example:\n"
      "  espalier assign --topology fabric.json --flows flows.csv --export ns3 -o paths.csv\n"
      "  packets_study --topology fabric.json --table paths.csv");
  command.callback([request, &exit_code] { exit_code = RunPackets(*request); });
}

}  // namespace espalier::offline
