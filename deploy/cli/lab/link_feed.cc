#include "deploy/cli/lab/link_feed.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "common/files/json_writer.h"
#include "deploy/lab/link_watch.h"

namespace espalier::lab {
namespace {

// The line that reports the measured loads of all links. An interface may send faster than the
// nominal rate of a link without a limit; the controller takes no load above the rate.
std::string LoadsJson(const fabric::Topology& topology, const std::vector<LinkLoad>& loads,
                      double interval) {
  constexpr double kIntervalsOfAge = 5;
  io::JsonWriter json;
  json.BeginObject();
  json.Key("source").String("netlink");
  json.Key("max_age_seconds").Double(kIntervalsOfAge * interval);
  json.Key("loads").BeginArray();
  for (const LinkLoad& load : loads) {
    const auto rate = topology.link(load.link.link).rate.value;
    json.BeginObject();
    json.Key("link").String(topology.DirectionName(load.link));
    json.Key("bps").Integer(std::min(rate, static_cast<std::int64_t>(load.bps)));
    json.EndObject();
  }
  json.EndArray().EndObject();
  return json.Text();
}

}  // namespace

Result<void> PrintLinkFeed(const LinkFeedOptions& options) {
  const Result<Lab> lab = Lab::Find(options.name);
  if (!lab) return tl::unexpected(lab.error());
  Result<LinkWatch> watch = LinkWatch::Start(*lab);
  if (!watch) return Propagate(watch);
  if (options.load_interval > 0) {
    watch->MeasureLoads(std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::duration<double>(options.load_interval)));
  }
  while (true) {
    const auto changes = watch->Next();
    if (!changes) return tl::unexpected(changes.error());
    for (const LinkChange& change : *changes) {
      io::JsonWriter json;
      json.BeginObject();
      json.Key("link").String(lab->topology().link(change.link).id);
      json.Key("up").Bool(change.up);
      json.Key("source").String("netlink");
      json.EndObject();
      fmt::print("{}\n", json.Text());
    }
    if (const auto loads = watch->TakeLoads(); !loads.empty())
      fmt::print("{}\n", LoadsJson(lab->topology(), loads, options.load_interval));
    std::fflush(stdout);
  }
}

}  // namespace espalier::lab
