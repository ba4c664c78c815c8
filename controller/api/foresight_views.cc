#include "controller/api/foresight_views.h"

#include <fmt/format.h>

#include <vector>

#include "common/io/json.h"

namespace espalier::controller {
namespace {

double Seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

std::string PredictView(const Controller& controller) {
  io::JsonWriter json;
  json.BeginObject().Key("predict").BeginArray();
  for (const Foresight::JobView& job : controller.foresight().Jobs()) {
    json.BeginObject();
    json.Key("job").String(job.job);
    json.Key("on").Bool(job.is_on);
    json.Key("hit_rate").Double(job.hit_rate);
    json.Key("expected_starts").Integer(static_cast<std::int64_t>(job.hits));
    json.Key("unexpected_starts").Integer(static_cast<std::int64_t>(job.misses));
    json.Key("sets").Integer(static_cast<std::int64_t>(job.sets));
    json.Key("flows").Integer(static_cast<std::int64_t>(job.members));
    json.Key("period_seconds").Double(job.period ? Seconds(*job.period) : 0);
    json.Key("next_known").Bool(job.next_start.has_value());
    json.Key("next_in_seconds")
        .Double(job.next_start ? Seconds(*job.next_start - controller.Now()) : 0);
    json.Key("uncertainty_seconds").Double(Seconds(job.uncertainty));
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

Result<std::string> TakeLinkReports(Controller& controller, std::string_view lines) {
  struct Report {
    fabric::LinkId link;
    bool up = false;
    std::string source;
  };
  std::vector<Report> reports;
  int number = 0;
  while (!lines.empty()) {
    ++number;
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(line.size() + 1, lines.size()));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const auto wrong = [&](std::string_view what) {
      return Fail(ErrorCode::kInvalidArgument, fmt::format("line {}: {}", number, what));
    };
    const auto parsed = io::ParseJson(std::string(line), fmt::format("line {}", number));
    if (!parsed) return tl::unexpected<Error>(parsed.error());
    const io::JsonValue* link = parsed->Find("link");
    const io::JsonValue* up = parsed->Find("up");
    const io::JsonValue* source = parsed->Find("source");
    if (link == nullptr || link->kind != io::JsonValue::Kind::kString) {
      return wrong("\"link\" is missing, or no text");
    }
    if (up == nullptr || up->kind != io::JsonValue::Kind::kBool) {
      return wrong("\"up\" is missing, or neither true nor false");
    }
    const auto id = controller.state().topology.FindLink(link->text);
    if (!id) {
      return Fail(ErrorCode::kNotFound,
                  fmt::format("line {}: there is no link \"{}\"", number, link->text));
    }
    reports.push_back({*id, up->boolean, source == nullptr ? "" : source->text});
  }
  for (const Report& report : reports) {
    controller.HandleLinkReport(report.link, report.up, report.source);
  }
  io::JsonWriter json;
  json.BeginObject().Key("taken").Integer(static_cast<std::int64_t>(reports.size())).EndObject();
  return json.Text();
}

}  // namespace espalier::controller
