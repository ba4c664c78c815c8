#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "common/base/event_loop.h"
#include "common/base/metrics.h"
#include "common/fabric/topology.h"
#include "common/http/http.h"
#include "common/loop/background.h"
#include "controller/telemetry/collector.h"

namespace espalier::telemetry {

// Hands loads of links to the controller, as a feed of link loads (docs/formats.md, Reports of
// feeds). A report that the controller does not take is lost, and the next one follows; while the
// controller is away nothing piles up. Thread safety: the loop's thread; requests block on another
// one. The loop must outlive it.
class ControllerFeed {
 public:
  struct Options {
    std::string controller;  // as for io::HttpFetch
    io::HttpAccess access;
    std::string source = "sflow";
    Duration max_age = std::chrono::seconds(60);
  };
  ControllerFeed(EventLoop& loop, const fabric::Topology& topology, Options options,
                 Metrics& metrics);

  // Sends the loads, if there are any, unless the report before is still on its way: then they wait
  // for the next call, a later load of a link in place of an earlier one.
  void Send(const std::vector<Collector::Load>& loads);

  // What went wrong with the last report, in words; "" if the controller took it.
  const std::string& problem() const { return problem_; }

 private:
  std::string TakeBody();
  void HandleAnswer(const Result<io::HttpResponse>& answer);

  const fabric::Topology& topology_;
  const Options options_;
  std::map<std::size_t, Collector::Load> waiting_;  // by DirectedLink::Index
  bool is_sending_ = false;
  std::string problem_;
  Counter& reports_;
  Counter& refused_;
  io::Background background_;
};

}  // namespace espalier::telemetry
