#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "common/base/log.h"
#include "common/base/result.h"
#include "common/daemon/config_file.h"
#include "common/fabric/topology.h"
#include "controller/telemetry/controller_feed.h"
#include "controller/telemetry/exporters.h"
#include "controller/telemetry/polls/polled_switches.h"

namespace espalier::telemetry {

struct Configuration {
  fabric::Topology topology;
  std::vector<Exporter> exporters;
  std::vector<Poll> polls;
  PolledSwitches::Options polling;
  std::string listen;
  std::size_t receive_buffer_bytes = 0;
  std::size_t most_flows = 0;
  ControllerFeed::Options feed;
  std::string http;
  LogLevel log_level = LogLevel::kInfo;
  std::vector<io::OptionInForce> fields;  // of the file, with their defaults
};

// Reads the configuration and the topology file and token that it names.
// Errors: kInvalidArgument with file and field or line; those of the files.
Result<Configuration> ReadConfiguration(const std::string& path);

}  // namespace espalier::telemetry
