#include "controller/api/history/advise_view.h"

#include <fmt/format.h>

#include <cctype>
#include <chrono>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "common/files/json_writer.h"

namespace espalier::controller {
namespace {

constexpr std::string_view kNoRoundTrips =
    "weights by round-trip times are not modelled: they follow the queues in switches and NICs, "
    "which nothing reports";
constexpr std::string_view kNoMoreSpines =
    "one more spine is modelled where each leaf is linked to each spine at one rate";

double Ratio(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

void WriteScheme(io::JsonWriter& json, std::string_view name, const SchemeEstimate& estimate,
                 std::string_view why_not) {
  json.BeginObject().Key("scheme").String(name);
  const auto number = [&](std::string_view key, double value) {
    json.Key(key);
    estimate.applies ? json.Double(value) : json.Null();
  };
  number("link_seconds", estimate.seconds);
  number("burst_seconds", estimate.burst_seconds);
  number("low", estimate.low);
  number("high", estimate.high);
  json.Key("reason").String(estimate.applies ? "" : why_not);
  json.EndObject();
}

void WriteSchemes(io::JsonWriter& json, const BurstSums& sums) {
  json.Key("schemes").BeginArray();
  for (std::size_t i = 0; i < kSchemes; ++i) {
    const auto scheme = static_cast<Scheme>(i);
    if (scheme == Scheme::kOptimum) WriteScheme(json, "ROUND_TRIP_WEIGHTS", {}, kNoRoundTrips);
    WriteScheme(json, SchemeName(scheme), Estimate(sums, scheme), kNoMoreSpines);
  }
  json.EndArray();
}

// The hours that all GPUs of the job together save: of flows that are steered against ECMP, of
// others at the optimum against the present paths.
void WriteGpus(io::JsonWriter& json, const BurstSums& sums, Placing placing) {
  const bool is_steered = placing == Placing::kSteered;
  const double slower = Estimate(sums, is_steered ? Scheme::kEcmp : Scheme::kPresent).burst_seconds;
  const double faster =
      Estimate(sums, is_steered ? Scheme::kPresent : Scheme::kOptimum).burst_seconds;
  const auto bursts = static_cast<double>(sums.bursts + sums.skipped);
  json.Key("gpus");
  sums.gpus > 0 ? json.Integer(static_cast<std::int64_t>(sums.gpus)) : json.Null();
  json.Key(is_steered ? "gpu_hours_gained" : "gpu_hours_to_gain");
  sums.gpus > 0 ? json.Double((slower - faster) * bursts * static_cast<double>(sums.gpus) / 3600)
                : json.Null();
  json.Key(is_steered ? "gpu_hours_to_gain" : "gpu_hours_gained").Null();
}

using ByHour = std::map<WallTime, BurstSums>;

void WriteHours(io::JsonWriter& json, const ByHour& hours) {
  json.Key("hours").BeginArray();
  for (const auto& [begin, sums] : hours) {
    json.BeginObject();
    json.Key("begin").String(FormatWallTime(begin));
    json.Key("bursts").Integer(static_cast<std::int64_t>(sums.bursts));
    json.Key("skipped").Integer(static_cast<std::int64_t>(sums.skipped));
    json.Key("measured_seconds").Double(MeanSeconds(sums));
    json.Key("standard_error").Double(StandardError(sums));
    json.Key("ecmp_seconds").Double(Estimate(sums, Scheme::kEcmp).burst_seconds);
    json.Key("optimum_seconds").Double(Estimate(sums, Scheme::kOptimum).burst_seconds);
    WriteSchemes(json, sums);
    json.EndObject();
  }
  json.EndArray();
}

void WriteJob(io::JsonWriter& json, const std::string& job, Placing placing, const ByHour& hours) {
  BurstSums sums;
  for (const auto& [begin, of_hour] : hours) sums.Add(of_hour);
  json.BeginObject();
  json.Key("job").String(job);
  json.Key("placing").String(PlacingName(placing));
  json.Key("bursts").Integer(static_cast<std::int64_t>(sums.bursts));
  json.Key("skipped").Integer(static_cast<std::int64_t>(sums.skipped));
  json.Key("flows").Double(Ratio(sums.flows, sums.bursts));
  json.Key("crossing_flows").Double(Ratio(sums.crossing, sums.bursts));
  json.Key("known_paths").Double(Ratio(sums.known, sums.crossing));
  json.Key("optimum_proven").Bool(sums.proven == sums.bursts);
  json.Key("measured_seconds").Double(MeanSeconds(sums));
  json.Key("standard_error").Double(StandardError(sums));
  WriteSchemes(json, sums);
  WriteGpus(json, sums, placing);
  WriteHours(json, hours);
  json.EndObject();
}

// The earliest step to include.
Result<WallTime> BeginOf(const std::string& span, WallTime now) {
  constexpr auto kStep = std::chrono::duration_cast<WallTime::duration>(LedgerBook::kStep);
  if (span.empty()) return WallTime::min();
  const bool is_span = std::isdigit(static_cast<unsigned char>(span.front())) != 0 &&
                       std::isalpha(static_cast<unsigned char>(span.back())) != 0 &&
                       span.back() != 'Z';
  const auto until = is_span ? ParseWallTime(span, now) : Result<WallTime>(now);
  if (!until || *until <= now) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("for: \"{}\" is no time span (give one such as 30m, 2h or 1d)", span));
  }
  const auto begin = (now - (*until - now)).time_since_epoch();
  return WallTime(begin - begin % kStep);
}

}  // namespace

Result<std::string> AdviseView(const Controller& controller, const std::string& span) {
  Result<WallTime> begin = BeginOf(span, controller.WallNow());
  if (!begin) return Propagate(begin);
  std::map<std::pair<std::string, Placing>, ByHour> jobs;
  std::optional<WallTime> oldest;
  std::uint64_t bursts = 0;
  for (const auto& [key, sums] : controller.ledger().book().entries()) {
    if (key.begin < *begin) continue;
    if (!oldest) oldest = key.begin;
    const auto age = key.begin.time_since_epoch();
    jobs[{key.job, key.placing}][WallTime(age - age % WallTime::duration(std::chrono::hours(1)))]
        .Add(sums);
    bursts += sums.bursts;
  }
  io::JsonWriter json;
  json.BeginObject();
  json.Key("mode").String(controller.state().steering_basis.observes ? "OBSERVE" : "STEER");
  json.Key("since").String(oldest ? FormatWallTime(*oldest) : "");
  json.Key("bursts").Integer(static_cast<std::int64_t>(bursts));
  json.Key("bursts_since_start")
      .Integer(static_cast<std::int64_t>(controller.ledger().watch().finished()));
  json.Key("left_out").Integer(static_cast<std::int64_t>(controller.ledger().book().left_out()));
  json.Key("draws").Integer(static_cast<std::int64_t>(BurstCosts::kDraws));
  json.Key("jobs").BeginArray();
  for (const auto& [key, hours] : jobs) WriteJob(json, key.first, key.second, hours);
  json.EndArray().EndObject();
  return json.Text();
}

}  // namespace espalier::controller
