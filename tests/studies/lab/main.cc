// lab_study: experiments on live fabrics of network namespaces, which compare Espalier with plain
// ECMP. It runs the programs of Espalier in its own folder.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <string>

#include "tests/studies/lab/clos_study.h"
#include "tests/studies/lab/damage_study.h"
#include "tests/studies/lab/lab_study.h"
#include "tests/studies/lab/phases_study.h"
#include "tests/studies/lab/trees_study.h"

namespace espalier::demo {
namespace {

constexpr LabStudy kStudies[] = {
    {"clos",
     "Compare plain ECMP and Espalier on three tiers, or on hosts with several NICs, and take "
     "links down",
     AddClosStudy},
    {"phases",
     "Compare plain ECMP with a controller that counts connections and one that counts what is "
     "busy, on training jobs with phases",
     AddPhasesStudy},
    {"trees",
     "Compare an all-reduce over 16 hosts as a ring on ECMP and as the controller's forest, before "
     "and after a spine fails",
     AddTreesStudy},
    {"damage",
     "Measure what a damaged link, and flows that are not steered, do to a permutation of flows. A "
     "row is a combination of the options; its figure is the time of the slowest flow, relative to "
     "that of a flow with its even share of the links",
     AddDamageStudy},
};

int Run(const char* name, const RunStudy& run) {
  const std::string programs = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const Result<void> ran = run(programs);
  if (ran) return 0;
  fmt::print(stderr, "lab_study {}: {}\n", name, ran.error().message);
  return 1;
}

}  // namespace
}  // namespace espalier::demo

int main(int argc, char** argv) {
  CLI::App app("Run experiments on live fabrics on this machine.");
  app.require_subcommand(1);
  int exit_code = 0;
  for (const espalier::demo::LabStudy& study : espalier::demo::kStudies) {
    CLI::App* command = app.add_subcommand(study.name, study.help);
    command->callback([&study, &exit_code, run = study.add_options(*command)] {
      exit_code = espalier::demo::Run(study.name, run);
    });
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return exit_code;
}
