#include "deploy/cli/planning/replay_export.h"

#include "common/files/file.h"

namespace espalier::cli {

void AddReplayExport(CLI::App& command, ReplayExport& request) {
  CLI::Option* output =
      command
          .add_option("-o,--output", request.output,
                      "File that --export writes; htsim's paths are in FILE.paths.csv")
          ->type_name("FILE");
  CLI::Option* format =
      command
          .add_option("--export", request.format,
                      "Also write flows and paths for a packet simulator: a connection matrix and "
                      "a table of paths for htsim, or one table for ns-3")
          ->type_name("FORMAT")
          ->check(CLI::IsMember({"htsim", "ns3"}))
          ->needs(output);
  output->needs(format);
}

Result<void> WriteReplay(const ReplayExport& request, std::span<const offline::ReplayFlow> flows,
                         const fabric::Topology& topology) {
  const bool is_htsim = request.format == "htsim";
  Result<void> written =
      io::WriteFileDurably(request.output, is_htsim ? offline::FormatHtsim(flows, topology)
                                                    : offline::FormatNs3(flows, topology));
  if (!written || !is_htsim) return written;
  return io::WriteFileDurably(request.output + ".paths.csv",
                              offline::FormatPathTable(flows, topology));
}

}  // namespace espalier::cli
