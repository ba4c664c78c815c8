#include "controller/api/actions/link_loads.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdlib>
#include <utility>
#include <vector>

#include "common/files/json.h"
#include "common/files/json_fields.h"
#include "controller/api/actions/accepted_answer.h"
#include "controller/api/actions/sprayed_loads.h"

namespace espalier::controller {

using fabric::DirectedLink;
using io::JsonValue;

namespace {

constexpr std::string_view kName = "loads";
constexpr std::size_t kMostSprayed = 4'096;  // pairs of NICs in a report

// The directions that a name stands for: "ID" or "ID>NODE".
Result<std::vector<DirectedLink>> DirectionsOf(const fabric::Topology& topology,
                                               const std::string& name) {
  const std::size_t arrow = name.rfind('>');
  const auto id = topology.FindLink(name.substr(0, arrow));
  if (!id) {
    return Fail(ErrorCode::kNotFound, fmt::format("there is no link \"{}\" (give ID, or ID>NODE)",
                                                  name.substr(0, arrow)));
  }
  std::vector<DirectedLink> directions;
  for (const bool forward : {true, false}) {
    const DirectedLink direction{*id, forward};
    if (!forward && topology.link(*id).directed) continue;
    if (arrow != std::string::npos && topology.DirectionName(direction) != name) continue;
    directions.push_back(direction);
  }
  if (directions.empty()) {
    return Fail(
        ErrorCode::kNotFound,
        fmt::format("\"{}\" names no direction of the link (give the node at its end)", name));
  }
  return directions;
}

// The bits per second of an entry, whose other fields have been asked for. Errors are the reader's.
double ReadBps(const JsonValue& entry, io::JsonFields& fields) {
  const JsonValue* const bps = entry.Find("bps");
  if (bps == nullptr || bps->kind != JsonValue::Kind::kNumber) {
    fields.AddError("bps", "\"bps\" is missing or not a number");
  }
  const auto text = fields.Decimal("bps");
  return text ? std::strtod(text->c_str(), nullptr) : 0;
}

Result<void> TooMany(std::string_view what, std::size_t most) {
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("too many {} (send at most {})", what, most));
}

Result<std::vector<LinkLoadReport::Entry>> ReadLoads(const fabric::Topology& topology,
                                                     const std::vector<JsonValue>& loads) {
  std::vector<LinkLoadReport::Entry> entries;
  const std::size_t most = 2 * topology.links().size();
  if (loads.size() > most) return tl::unexpected(TooMany("loads", most).error());
  for (const JsonValue& load : loads) {
    io::JsonFields entry(load, kName);
    const std::string link = entry.RequiredString("link");
    const double bps = ReadBps(load, entry);
    if (const Result<void> read = entry.Finish(); !read) return tl::unexpected(read.error());
    const auto directions = DirectionsOf(topology, link);
    if (!directions) return tl::unexpected(directions.error());
    for (const DirectedLink direction : *directions) entries.push_back({direction, bps});
  }
  return entries;
}

Result<std::vector<LinkLoadReport::Entry>> ReadSprayed(const State& state,
                                                       const std::vector<JsonValue>& sprayed) {
  if (sprayed.size() > kMostSprayed) {
    return tl::unexpected(TooMany("sprayed pairs", kMostSprayed).error());
  }
  std::vector<SprayedTraffic> traffic;
  for (const JsonValue& each : sprayed) {
    io::JsonFields entry(each, kName);
    SprayedTraffic pair{.source = entry.RequiredString("source"),
                        .destination = entry.RequiredString("destination")};
    pair.bps = ReadBps(each, entry);
    if (const Result<void> read = entry.Finish(); !read) return tl::unexpected(read.error());
    traffic.push_back(std::move(pair));
  }
  return SpreadOverPaths(state, traffic);
}

}  // namespace

Result<std::string> HandleLinkLoads(Controller& controller, std::string_view body) {
  constexpr double kDefaultMaxAge = 10;
  const State& state = controller.state();
  const auto parsed = io::ParseJson(body, kName);
  if (!parsed) return tl::unexpected<Error>(parsed.error());
  io::JsonFields fields(*parsed, kName);
  const bool is_sprayed = fields.Has("sprayed");
  LinkLoadReport report{.source = fields.RequiredString("source"),
                        .only_background = fields.Bool("only_background", is_sprayed)};
  const auto max_age = fields.Decimal("max_age_seconds");
  const std::vector<JsonValue>& list = fields.RequiredArray(is_sprayed ? "sprayed" : "loads");
  if (is_sprayed && !report.only_background) {
    fields.AddError("only_background", "sprayed traffic is background (leave this out)");
  }
  if (const Result<void> read = fields.Finish(); !read) return tl::unexpected(read.error());
  const double seconds = max_age ? std::strtod(max_age->c_str(), nullptr) : kDefaultMaxAge;
  const bool is_in_range = seconds >= SecondsOf(BackgroundLoads::kLeastMaxAge) &&
                           seconds <= SecondsOf(BackgroundLoads::kGreatestMaxAge);
  // Out of range, and too large for Duration perhaps: HandleReport refuses 0.
  if (is_in_range) report.max_age = Duration(static_cast<std::int64_t>(seconds * 1e9));
  auto loads = is_sprayed ? ReadSprayed(state, list) : ReadLoads(state.topology, list);
  if (!loads) return tl::unexpected(loads.error());
  report.loads = std::move(*loads);
  if (const Result<void> taken =
          controller.links().background.HandleReport(report, controller.Now());
      !taken) {
    return tl::unexpected(taken.error());
  }
  return AcceptedAnswer(report.loads.size());
}

}  // namespace espalier::controller
