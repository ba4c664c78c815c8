#include "controller/files/plan_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/base/units.h"
#include "common/io/json.h"

namespace espalier::files {

using fabric::DirectedLink;
using fabric::Topology;

std::string_view FlowStateName(FlowState state) {
  switch (state) {
    case FlowState::kRouted:
      return "ROUTED";
    case FlowState::kLocal:
      return "LOCAL";
    case FlowState::kUnroutable:
      return "UNROUTABLE";
  }
  return "?";
}

std::int64_t Plan::Count(FlowState state) const {
  return std::ranges::count(flows, state, &PlannedFlow::state);
}

std::vector<std::string> ViaOf(const PlannedPath& path, const Topology& topology) {
  std::vector<std::string> via;
  for (std::size_t i = 1; i + 2 < path.links.size(); ++i) {
    via.push_back(topology.node(topology.To(DirectedLink::FromIndex(path.links[i]))).id);
  }
  return via;
}

std::string ShareOf(const PlannedPath& path, const PlannedFlow& flow) {
  const std::uint32_t common = std::gcd(path.ways, flow.ways);
  if (common == flow.ways) return fmt::format("{}", path.ways / common);
  return fmt::format("{}/{}", path.ways / common, flow.ways / common);
}

std::string RateText(double rate_bps) { return FormatGbps(BitsPerSecond{std::llround(rate_bps)}); }

std::string FormatPlan(const Plan& plan, const FlowSet& flows, const Topology& topology) {
  io::JsonWriter json;
  json.BeginObject().Key("algorithm").String(plan.algorithm);
  json.Key("flows").Integer(static_cast<std::int64_t>(plan.flows.size()));
  json.Key("routed").Integer(plan.Count(FlowState::kRouted));
  json.Key("local").Integer(plan.Count(FlowState::kLocal));
  json.Key("unroutable").Integer(plan.Count(FlowState::kUnroutable));
  json.Key("max_link_load").String(plan.max_load.ToString());
  json.Key("lower_bound").String(plan.lower_bound.ToString());
  json.Key("job_min_share_gbps").BeginObject();
  for (std::size_t job = 0; job < flows.jobs.size(); ++job) {
    json.Key(flows.jobs[job]).String(RateText(plan.job_rates_bps[job]));
  }
  json.EndObject();
  json.Key("moved").Integer(plan.moved_flows);
  json.Key("moved_bytes").Integer(plan.moved_bytes);
  json.Key("microseconds").Double(plan.microseconds);
  json.Key("assignments").BeginArray();
  for (std::size_t i = 0; i < plan.flows.size(); ++i) {
    const PlannedFlow& flow = plan.flows[i];
    json.BeginObject().Key("flow").String(flows.flows[i].id);
    json.Key("state").String(FlowStateName(flow.state));
    json.Key("paths").BeginArray();
    for (const PlannedPath& path : flow.paths) {
      json.BeginObject().Key("via").BeginArray();
      for (const std::string& node : ViaOf(path, topology)) json.String(node);
      json.EndArray().Key("links").BeginArray();
      for (const std::uint32_t link : path.links) {
        json.String(topology.link(DirectedLink::FromIndex(link).link).id);
      }
      json.EndArray().Key("share").String(ShareOf(path, flow)).EndObject();
    }
    json.EndArray().EndObject();
  }
  json.EndArray().EndObject();
  return json.Text();
}

}  // namespace espalier::files
