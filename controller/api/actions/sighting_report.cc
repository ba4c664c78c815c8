#include "controller/api/actions/sighting_report.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <utility>

#include "common/files/json.h"
#include "common/files/json_fields.h"
#include "controller/api/actions/accepted_answer.h"

namespace espalier::controller {
namespace {

using fabric::DirectedLink;
using io::JsonValue;

constexpr std::string_view kReportName = "sightings";
constexpr std::size_t kMostLinks = 16;  // of a flow

// Reads a decimal number of this range; another one is an error of `fields`.
double ReadNumber(io::JsonFields& fields, std::string_view key, double most) {
  const auto text = fields.Decimal(key);
  const double value = text ? std::strtod(text->c_str(), nullptr) : -1;
  if (value >= 0 && value <= most) return value;
  fields.AddError(key, fmt::format("\"{}\" is missing or not between 0 and {}", key, most));
  return 0;
}

IpAddress ReadAddress(io::JsonFields& fields, std::string_view key) {
  const Result<IpAddress> address = IpAddress::Parse(fields.RequiredString(key));
  if (address) return *address;
  fields.AddError(key, address.error().message);
  return {};
}

Result<DirectedLink> ReadDirection(const fabric::Topology& topology, const std::string& name) {
  const std::size_t arrow = name.rfind('>');
  const auto id = topology.FindLink(name.substr(0, arrow));
  if (id && arrow != std::string::npos) {
    for (const bool forward : {true, false}) {
      const DirectedLink direction{*id, forward};
      if (topology.DirectionName(direction) == name) return direction;
    }
  }
  return Fail(ErrorCode::kNotFound,
              fmt::format("there is no direction \"{}\" of a link (give LINK>NODE)", name));
}

Result<SightingReport::Seen> ReadFlow(const fabric::Topology& topology, const JsonValue& value) {
  constexpr std::int64_t kMostSamples = std::numeric_limits<std::uint32_t>::max();
  constexpr double kMostBps = 1e15;
  io::JsonFields fields(value, kReportName);
  SightingReport::Seen seen;
  seen.source = ReadAddress(fields, "source");
  seen.destination = ReadAddress(fields, "destination");
  seen.protocol = static_cast<std::uint8_t>(fields.Integer("protocol", 0, 0, 255));
  seen.source_port = static_cast<std::uint16_t>(fields.Integer("source_port", 0, 0, 65'535));
  seen.destination_port =
      static_cast<std::uint16_t>(fields.Integer("destination_port", 0, 0, 65'535));
  seen.queue_pair = static_cast<std::uint32_t>(fields.Integer("queue_pair", 0, 0, 0xFFFFFF));
  seen.bps = std::llround(ReadNumber(fields, "bps", kMostBps));
  seen.error = ReadNumber(fields, "error", 1e6);
  const std::vector<JsonValue>& links = fields.RequiredArray("links");
  if (links.size() > kMostLinks) fields.AddError("links", "too many links (send at most 16)");
  if (const Result<void> read = fields.Finish(); !read) return tl::unexpected(read.error());
  for (const JsonValue& link : links) {
    io::JsonFields on(link, kReportName);
    const std::string name = on.RequiredString("link");
    const std::int64_t samples = on.Integer("samples", 0, 1, kMostSamples);
    if (const Result<void> read = on.Finish(); !read) return tl::unexpected(read.error());
    const Result<DirectedLink> direction = ReadDirection(topology, name);
    if (!direction) return tl::unexpected(direction.error());
    seen.links.push_back({*direction, static_cast<std::uint32_t>(samples)});
  }
  return seen;
}

}  // namespace

Result<std::string> HandleSightingReport(Controller& controller, std::string_view body) {
  const auto parsed = io::ParseJson(body, kReportName);
  if (!parsed) return tl::unexpected<Error>(parsed.error());
  io::JsonFields fields(*parsed, kReportName);
  SightingReport report{.source = fields.RequiredString("source")};
  const double seconds = ReadNumber(fields, "window_seconds", 3'600);
  report.window = Duration(static_cast<std::int64_t>(seconds * 1e9));
  const std::vector<JsonValue>& flows = fields.RequiredArray("flows");
  if (const Result<void> read = fields.Finish(); !read) return tl::unexpected(read.error());
  if (flows.size() > Sightings::kMostFlows) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("too many flows (send at most {})", Sightings::kMostFlows));
  }
  for (const JsonValue& flow : flows) {
    Result<SightingReport::Seen> seen = ReadFlow(controller.state().topology, flow);
    if (!seen) return Propagate(seen);
    report.flows.push_back(std::move(*seen));
  }
  if (const Result<void> taken =
          controller.links().sightings.HandleReport(report, controller.Now());
      !taken) {
    return tl::unexpected(taken.error());
  }
  return AcceptedAnswer(report.flows.size());
}

}  // namespace espalier::controller
