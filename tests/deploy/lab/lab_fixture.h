#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "deploy/lab/ground_truth.h"
#include "deploy/lab/lab.h"
#include "deploy/lab/link_faults.h"
#include "deploy/lab/run_traffic.h"

namespace espalier::lab {

// A lab that always ends with its test.
class TestLab {
 public:
  explicit TestLab(LabOptions options) {
    static int count = 0;
    options.name = fmt::format("test-{}-{}", ::getpid(), ++count);
    options.die_with_caller = true;
    Result<Lab> lab = Lab::Start(options);
    if (lab) lab_ = std::make_unique<Lab>(std::move(*lab));
    if (!lab) error_ = lab.error();
  }
  ~TestLab() {
    if (!lab_) return;
    EXPECT_TRUE(Lab::Stop(lab_->record().options.name).has_value());
  }
  TestLab(const TestLab&) = delete;
  TestLab& operator=(const TestLab&) = delete;

  const Lab* get() const { return lab_.get(); }
  const Error& error() const { return error_; }
  // True if this machine does not allow namespaces (a container without privileges).
  bool IsForbidden() const {
    return !lab_ &&
           (error_.code == ErrorCode::kPermissionDenied || error_.code == ErrorCode::kUnsupported);
  }

 private:
  std::unique_ptr<Lab> lab_;
  Error error_;
};

// Declares `lab`, or skips the test if namespaces are not allowed.
#define ESPALIER_LAB_OR_SKIP(name, ...)                                   \
  const TestLab name##_owner(__VA_ARGS__);                                \
  if (name##_owner.IsForbidden()) {                                       \
    GTEST_SKIP() << name##_owner.error().message;                         \
  }                                                                       \
  ASSERT_NE(name##_owner.get(), nullptr) << name##_owner.error().message; \
  const Lab& name = *name##_owner.get()

// A flow of one datagram on one port, like a probe.
inline traffic::SingleFlow OneDatagram(const std::string& source, const std::string& destination,
                                       std::uint16_t port) {
  return {.id = fmt::format("{}>{}:{}", source, destination, port),
          .source = source,
          .destination = destination,
          .bytes = 1,
          .port = port,
          .protocol = traffic::Protocol::kUdp,
          .rate = BitsPerSecond{10'000'000}};
}

inline RouteQuery QueryOf(const Lab& lab, const std::string& source, const std::string& destination,
                          std::uint16_t port, std::uint8_t protocol = 17) {
  const auto address = [&](const std::string& host) {
    return lab.topology().node(*lab.topology().FindNode(host)).addresses.front();
  };
  return {address(source), address(destination), port, protocol};
}

inline TrafficResult Traffic(const Lab& lab, const traffic::Workload& workload,
                             const TrafficOptions& options = {}) {
  Result<TrafficResult> result = RunTraffic(lab, workload, options);
  EXPECT_TRUE(result.has_value()) << result.error().message;
  return result ? std::move(*result) : TrafficResult();
}

// The spine that counted a datagram of each query, whose protocol is ignored; empty for none.
// Replaces the kernel's route look-up where that is not usable.
inline std::vector<std::string> SpinesByTraffic(const Lab& lab,
                                                const std::vector<RouteQuery>& queries) {
  const std::vector<FlowCount> before = ReadFlowCounts(lab).value_or(std::vector<FlowCount>());
  const auto name = [&](const IpAddress& address) {
    return lab.topology().node(*lab.topology().FindNic(address)).id;
  };
  traffic::Workload workload;
  for (const RouteQuery& query : queries) {
    workload.flows.push_back(
        OneDatagram(name(query.source), name(query.destination), query.source_port));
  }
  EXPECT_TRUE(Traffic(lab, workload).completed);
  const std::vector<FlowCount> after = ReadFlowCounts(lab).value_or(std::vector<FlowCount>());
  const std::vector<FlowCount> counts = Difference(before, after);
  std::vector<std::string> spines;
  for (const RouteQuery& query : queries) {
    const auto found = std::find_if(counts.begin(), counts.end(), [&](const FlowCount& count) {
      return count.source == query.source && count.destination == query.destination &&
             count.source_port == query.source_port;
    });
    spines.push_back(found == counts.end() ? "" : found->spine);
  }
  return spines;
}

// The spine of each query; empty for none.
inline std::vector<std::string> Spines(const Lab& lab, const std::vector<RouteQuery>& queries) {
  if (lab.record().options.ipv6) return SpinesByTraffic(lab, queries);
  const auto spines = LookUpSpines(lab, queries);
  EXPECT_TRUE(spines.has_value()) << spines.error().message;
  std::vector<std::string> names;
  if (spines) {
    for (const auto& spine : *spines) names.push_back(spine.value_or(""));
  }
  return names;
}

// The lowest port from 50,000 on whose packets take the spine.
inline std::uint16_t PortOver(const Lab& lab, const std::string& spine, const std::string& source,
                              const std::string& destination) {
  std::vector<RouteQuery> queries;
  for (std::uint16_t port = 50'000; port < 50'100; ++port) {
    queries.push_back(QueryOf(lab, source, destination, port));
  }
  const std::vector<std::string> spines = Spines(lab, queries);
  const auto found = std::find(spines.begin(), spines.end(), spine);
  if (found != spines.end()) {
    return queries[static_cast<std::size_t>(found - spines.begin())].source_port;
  }
  ADD_FAILURE() << "no port of " << source << " to " << destination << " over " << spine;
  return 0;
}

}  // namespace espalier::lab
