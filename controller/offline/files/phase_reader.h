#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/fabric/paths.h"
#include "common/fabric/topology.h"
#include "common/files/json.h"
#include "common/files/json_fields.h"
#include "controller/offline/simulation/job.h"

namespace espalier::offline {

struct ExchangeKind;

// Reads what jobs do, in every file that describes jobs (docs/formats.md, "Jobs"). One reader reads
// all jobs of a file, which together have at most kMaxJobFlows flows. Every error has the form
// "FILE:LINE:COL: what (remedy)". The topology must outlive it.
class PhaseReader {
 public:
  PhaseReader(std::string_view file_name, const fabric::Topology& topology)
      : file_(file_name), topology_(topology), paths_(topology) {}

  // Reads the member "phases" of a job, or else "rings" and "compute_seconds": one phase. These
  // must be the last members to be read, as it also ends the reading of the fields.
  Result<std::vector<Phase>> ReadPhases(io::JsonFields& fields);

 private:
  Result<std::vector<Phase>> ReadRings(io::JsonFields& fields);
  Result<Phase> ReadPhase(const io::JsonValue& item);
  Result<Exchange> ReadExchange(io::JsonFields& fields, const ExchangeKind& kind);
  Result<fabric::NodeId> ReadHost(const io::JsonValue& host);
  tl::unexpected<Error> FailAt(const io::JsonValue& value, std::string_view what) const;

  const std::string file_;
  const fabric::Topology& topology_;
  const fabric::PathTable paths_;
  std::size_t flows_ = 0;
};

// Reads a time of 0 to 8,000,000 seconds, with at most nine decimal places, in nanoseconds; 0 if it
// is absent.
std::int64_t ReadSeconds(io::JsonFields& fields, std::string_view key);

}  // namespace espalier::offline
