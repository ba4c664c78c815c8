#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/base/metrics.h"
#include "common/base/time/event_loop.h"
#include "common/fabric/topology.h"
#include "common/http/http.h"
#include "common/http/http_client.h"
#include "common/loop/background.h"
#include "controller/telemetry/collector.h"

namespace espalier::telemetry {

// Hands states and loads of links, and the flows that switches saw, to the controller
// (docs/formats.md, Reports of feeds). A report that the controller does not take is lost, and the
// next one follows; while the controller is away nothing piles up. Thread safety: the loop's
// thread; requests block on another one. The loop must outlive it.
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
  void SendLoads(const std::vector<Collector::Load>& loads);
  // Sends the flows, which were sampled within this time, unless the report before is on its way.
  void SendFlows(const std::vector<SampledFlows::Flow>& flows, Duration window);

  struct LinkState {
    fabric::LinkId link;
    bool is_up = false;
    bool operator==(const LinkState&) const = default;
  };
  // Sends the states, unless the report before is on its way (false). Then calls `done` with the
  // status of the controller's answer; 0: there was none.
  bool SendStates(const std::vector<LinkState>& states, std::function<void(int status)> done);

  // What went wrong with the last report of a kind, in words; "" if the controller took all.
  std::string problem() const;

 private:
  void Post(const char* path, std::string body, bool& is_sending,
            std::function<void(int status)> done = {});
  std::string TakeLoads();
  void HandleAnswer(const char* path, const Result<io::HttpResponse>& answer);

  const fabric::Topology& topology_;
  const Options options_;
  std::map<std::size_t, Collector::Load> waiting_;  // by DirectedLink::Index
  bool is_sending_loads_ = false;
  bool is_sending_flows_ = false;
  bool is_sending_states_ = false;
  std::map<std::string, std::string> problems_;  // by path; none is ""
  Counter& reports_;
  Counter& refused_;
  io::Background background_;
};

}  // namespace espalier::telemetry
