#include "controller/api/link_loads.h"

#include <fmt/format.h>

#include <cstdlib>
#include <vector>

namespace espalier::controller {

using fabric::DirectedLink;
using io::JsonValue;

namespace {

constexpr std::string_view kName = "loads";

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

}  // namespace

Result<std::string> HandleLinkLoads(Controller& controller, std::string_view body) {
  constexpr double kDefaultMaxAge = 10;
  const fabric::Topology& topology = controller.state().topology;
  const auto parsed = io::ParseJson(body, kName);
  if (!parsed) return tl::unexpected<Error>(parsed.error());
  io::JsonFields fields(*parsed, kName);
  LinkLoadReport report{.source = fields.RequiredString("source"),
                        .only_background = fields.Bool("only_background", false)};
  const auto max_age = fields.Decimal("max_age_seconds");
  const std::vector<JsonValue>& loads = fields.RequiredArray("loads");
  if (const Result<void> read = fields.Finish(); !read) return tl::unexpected(read.error());
  if (loads.size() > 2 * topology.links().size()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("too many loads (the fabric has {} directed links)",
                            2 * topology.links().size()));
  }
  const double seconds = max_age ? std::strtod(max_age->c_str(), nullptr) : kDefaultMaxAge;
  const bool is_in_range = seconds >= SecondsOf(BackgroundLoads::kLeastMaxAge) &&
                           seconds <= SecondsOf(BackgroundLoads::kGreatestMaxAge);
  // Out of range, and too large for Duration perhaps: HandleReport refuses 0.
  if (is_in_range) report.max_age = Duration(static_cast<std::int64_t>(seconds * 1e9));
  for (const JsonValue& load : loads) {
    io::JsonFields entry(load, kName);
    const std::string link = entry.RequiredString("link");
    const JsonValue* const bps = load.Find("bps");
    if (bps == nullptr || bps->kind != JsonValue::Kind::kNumber) {
      entry.AddError("bps", "\"bps\" is missing or not a number");
    }
    entry.Decimal("bps");
    if (const Result<void> read = entry.Finish(); !read) return tl::unexpected(read.error());
    const auto directions = DirectionsOf(topology, link);
    if (!directions) return tl::unexpected(directions.error());
    for (const DirectedLink direction : *directions) {
      report.loads.push_back({direction, std::strtod(bps->text.c_str(), nullptr)});
    }
  }
  if (const Result<void> taken = controller.HandleLinkLoads(report); !taken) {
    return tl::unexpected(taken.error());
  }
  io::JsonWriter json;
  json.BeginObject().Key("taken").Integer(static_cast<std::int64_t>(report.loads.size()));
  json.EndObject();
  return json.Text();
}

void WriteBackground(io::JsonWriter& json, std::string_view key, const Controller& controller,
                     DirectedLink link) {
  const auto background = controller.background_loads().Find(link);
  if (!background) return;
  json.Key(key).BeginObject();
  json.Key("bps").Integer(background->bps);
  json.Key("reported_bps").Integer(background->reported_bps);
  json.Key("source").String(background->source);
  json.Key("age_seconds").Double(SecondsOf(controller.Now() - background->measured));
  json.EndObject();
}

}  // namespace espalier::controller
