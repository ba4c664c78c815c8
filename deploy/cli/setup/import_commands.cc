#include "deploy/cli/setup/import_commands.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/files/command_result.h"
#include "common/files/topology_file.h"
#include "controller/offline/imports/combine.h"
#include "controller/offline/imports/facts/reading.h"
#include "controller/offline/imports/formats.h"

namespace espalier::cli {
namespace {

using imports::Cabling;
using imports::Format;

struct ImportRequest {
  std::vector<std::string> files;
  std::vector<std::string> others;  // FORMAT=FILE
  std::vector<std::string> switches;
  std::vector<std::string> hosts;
  std::string gbps = "100";
  std::string output;
};

Result<std::vector<Cabling>> ReadSources(const Format& format, const ImportRequest& request) {
  std::vector<Cabling> sources;
  for (const std::string& file : request.files) {
    auto cabling = imports::ReadCabling(format, file);
    if (!cabling) return Propagate(cabling);
    sources.push_back(std::move(*cabling));
  }
  auto others = ReadOtherSources(request.others);
  if (!others) return Propagate(others);
  std::ranges::move(*others, std::back_inserter(sources));
  return sources;
}

void Say(const char* what, const std::vector<std::string>& sentences) {
  for (const std::string& sentence : sentences) fmt::print(stderr, "{}: {}\n", what, sentence);
}

int Import(const Format& format, const ImportRequest& request) {
  imports::CombineOptions options;
  options.name = imports::StemOf(request.files.front());
  options.kinds = {request.switches, request.hosts};
  const auto rate = ParseGbps(request.gbps);
  if (!rate) {
    return io::ReportError(Error{rate.error().code, "--gbps: " + rate.error().message});
  }
  options.rate = *rate;
  const auto sources = ReadSources(format, request);
  if (!sources) return io::ReportError(sources.error());
  const auto imported = imports::Combine(*sources, options);
  if (!imported) return io::ReportError(imported.error());
  Say("note", imported->remarks);
  Say("assumed", imported->assumptions);
  Say("missing", imported->missing);
  return io::WriteOutput(io::FormatTopology(imported->spec), request.output);
}

void AddFormat(CLI::App& import, const Format& format, int& exit_code) {
  auto request = std::make_shared<ImportRequest>();
  CLI::App* command = import.add_subcommand(std::string(format.name), std::string(format.summary));
  command->add_option("FILE", request->files, "Files to convert and join")->required();
  command
      ->add_option("--with", request->others,
                   "Another file of another format to join, such as sonic=leaf0.json (repeatable)")
      ->type_name("FORMAT=FILE")
      ->allow_extra_args(false);
  command
      ->add_option("--gbps", request->gbps,
                   "Bandwidth of cables whose rate no file states, in Gbit/s (decimal number)")
      ->type_name("GBPS")
      ->capture_default_str();
  command
      ->add_option("--switches", request->switches,
                   "Patterns of the names of switches, such as 'leaf*,spine*'")
      ->type_name("PATTERN")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_option("--hosts", request->hosts, "Patterns of the names of hosts, such as 'h*'")
      ->type_name("PATTERN")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_option("-o,--output", request->output, "File to write (default: standard output)");
  command->callback([request, &format, &exit_code] { exit_code = Import(format, *request); });
}

}  // namespace

Result<std::vector<Cabling>> ReadOtherSources(const std::vector<std::string>& others) {
  std::vector<Cabling> sources;
  for (const std::string& other : others) {
    const std::size_t equals = other.find('=');
    const Format* named = imports::FindFormat(other.substr(0, equals));
    if (equals == std::string::npos || named == nullptr) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("--with {}: not FORMAT=FILE with a format of `espalier topology "
                              "import --help`",
                              imports::Quote(other)));
    }
    auto cabling = imports::ReadCabling(*named, other.substr(equals + 1));
    if (!cabling) return Propagate(cabling);
    sources.push_back(std::move(*cabling));
  }
  return sources;
}

void AddImportCommands(CLI::App& group, int& exit_code) {
  CLI::App* import = group.add_subcommand(
      "import", "Convert files of other programs into a topology file, joined and checked");
  import->require_subcommand(1);
  for (const Format& format : imports::Formats()) AddFormat(*import, format, exit_code);
}

}  // namespace espalier::cli
