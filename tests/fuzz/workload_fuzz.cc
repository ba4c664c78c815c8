#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/base/check.h"
#include "deploy/lab/workload/traffic_report.h"
#include "deploy/lab/workload/workload.h"

// A valid workload, or host report, is the same after writing and reading it back.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace traffic = espalier::traffic;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto workload = traffic::ParseWorkload(text, "w")) {
    const std::string written = traffic::FormatWorkload(*workload);
    const auto again = traffic::ParseWorkload(written, "w");
    ESPALIER_CHECK(again.has_value(), "{}", again.error().message);
    ESPALIER_CHECK(traffic::FormatWorkload(*again) == written);
    for (const traffic::WorkloadFlow& plan : traffic::ListWorkloadFlows(*workload)) {
      ESPALIER_CHECK(plan.bytes > 0 && plan.announced_bytes > 0);
    }
  }
  if (const auto report = traffic::ParseHostReport(text, "r")) {
    const std::string written = traffic::FormatHostReport(*report);
    const auto again = traffic::ParseHostReport(written, "r");
    ESPALIER_CHECK(again.has_value(), "{}", again.error().message);
    ESPALIER_CHECK(traffic::FormatHostReport(*again) == written);
  }
  return 0;
}
