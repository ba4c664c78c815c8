#include "controller/api/prediction_views.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "common/files/json.h"
#include "proto/text.h"

namespace espalier::controller {
namespace {

std::string Taken(std::size_t count) {
  io::JsonWriter json;
  json.BeginObject().Key("taken").Integer(static_cast<std::int64_t>(count)).EndObject();
  return json.Text();
}

}  // namespace

std::string PredictionsView(const Controller& controller) {
  io::JsonWriter json;
  json.BeginObject().Key("predict").BeginArray();
  for (const StartPredictor::JobView& job : controller.predictor().Jobs()) {
    json.BeginObject();
    json.Key("job").String(job.job);
    json.Key("on").Bool(job.is_on);
    json.Key("hit_rate").Double(job.hit_rate);
    json.Key("expected_starts").Integer(static_cast<std::int64_t>(job.hits));
    json.Key("unexpected_starts").Integer(static_cast<std::int64_t>(job.misses));
    json.Key("sets").Integer(static_cast<std::int64_t>(job.sets));
    json.Key("flows").Integer(static_cast<std::int64_t>(job.members));
    json.Key("period_seconds").Double(job.period ? SecondsOf(*job.period) : 0);
    json.Key("next_known").Bool(job.next_start.has_value());
    json.Key("next_in_seconds")
        .Double(job.next_start ? SecondsOf(*job.next_start - controller.Now()) : 0);
    json.Key("uncertainty_seconds").Double(SecondsOf(job.uncertainty));
    json.Key("confidence").Double(job.confidence);
    json.Key("next_flows").Integer(static_cast<std::int64_t>(job.next_flows));
    json.Key("planned").Bool(job.is_planned);
    json.EndObject();
  }
  json.EndArray();
  const FailurePlans& plans = controller.failure_plans();
  json.Key("failure_plans").BeginObject();
  json.Key("loaded").Integer(static_cast<std::int64_t>(plans.loaded()));
  json.Key("fresh").Integer(static_cast<std::int64_t>(plans.fresh()));
  json.Key("entries").Integer(static_cast<std::int64_t>(plans.entries()));
  json.EndObject().EndObject();
  return json.Text();
}

Result<std::string> DeclareSchedule(Controller& controller, std::string_view text) {
  using Kind = io::JsonValue::Kind;
  constexpr std::int64_t kMaxBytes = 1'000'000'000'000'000'000;
  constexpr std::int64_t kMaxMicroseconds = 1'000'000'000'000;
  constexpr std::size_t kMaxFlows = 16'384;
  constexpr std::size_t kMaxCharacters = 63;
  const auto parsed = io::ParseJson(text, "schedule");
  if (!parsed) return tl::unexpected<Error>(parsed.error());
  io::JsonFields fields(*parsed, "schedule");
  StartPredictor::Schedule schedule{.job = fields.RequiredString("job")};
  const std::string transport = fields.String("transport", "verbs");
  schedule.bytes_each = static_cast<std::uint64_t>(fields.Integer("bytes", 0, 0, kMaxBytes));
  schedule.period = std::chrono::microseconds(fields.Integer("period_us", 0, 0, kMaxMicroseconds));
  const std::vector<io::JsonValue>& pairs = fields.RequiredArray("flows");
  if (transport == "tcp") schedule.protocol = wire::kProtocolTcp;
  const bool is_printable = std::all_of(schedule.job.begin(), schedule.job.end(),
                                        [](char c) { return c >= ' ' && c <= '~'; });
  if (schedule.job.empty() || schedule.job.size() > kMaxCharacters || !is_printable) {
    fields.AddError(
        "job", fmt::format("invalid job name (use 1 to {} printable characters)", kMaxCharacters));
  }
  if (transport != "tcp" && transport != "verbs") {
    fields.AddError("transport", "unknown transport (give \"verbs\" or \"tcp\")");
  }
  if (pairs.size() > kMaxFlows) {
    fields.AddError("flows", fmt::format("too many flows (give at most {})", kMaxFlows));
  }
  if (const Result<void> read = fields.Finish(); !read) return tl::unexpected(read.error());
  for (const io::JsonValue& pair : pairs) {
    const auto is_text = [](const io::JsonValue& end) { return end.kind == Kind::kString; };
    if (pair.items.size() != 2 || !std::all_of(pair.items.begin(), pair.items.end(), is_text)) {
      return Fail(
          ErrorCode::kInvalidArgument,
          fmt::format("schedule:{}:{}: invalid flow (give [NIC, NIC])", pair.line, pair.column));
    }
    const fabric::Topology& topology = controller.state().topology;
    const auto from = topology.FindNode(pair.items[0].text);
    const auto to = topology.FindNode(pair.items[1].text);
    if (!from || !to) {
      return Fail(ErrorCode::kNotFound,
                  fmt::format("there is no node \"{}\" (`espalier nodes` lists them)",
                              pair.items[from ? 1 : 0].text));
    }
    schedule.flows.emplace_back(*from, *to);
  }
  const auto taken = controller.DeclareStarts(schedule);
  if (!taken) return tl::unexpected<Error>(taken.error());
  return Taken(*taken);
}

}  // namespace espalier::controller
