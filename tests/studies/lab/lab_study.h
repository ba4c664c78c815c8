#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "common/base/result.h"
#include "common/base/units.h"
#include "deploy/lab/lab.h"

namespace CLI {
class App;
}

namespace espalier::demo {

// The rate of all links of the fabrics of studies.
inline constexpr BitsPerSecond kLinkRate{50'000'000};

// Runs a study, once its options are parsed. `programs` is the folder of Espalier's programs.
// Errors: those of the lab, of the daemons and of the traffic.
using RunStudy = std::function<Result<void>(const std::string& programs)>;

// A study on live fabrics, which the program lab_study offers as a command.
struct LabStudy {
  const char* name;
  const char* help;
  RunStudy (*add_options)(CLI::App& command);  // the values live as long as what it returns
};

// Runs `run` on a fabric of this shape and seed, with an empty folder for the state of daemons, and
// stops the fabric. Only one fabric of a name exists at a time. Errors: those of the lab and of
// `run`; then the fabric ends with this process.
Result<void> RunOnFabric(
    lab::LabOptions shape, std::uint64_t seed,
    const std::function<Result<void>(const lab::Lab& lab, const std::string& folder)>& run);

}  // namespace espalier::demo
