#include "controller/telemetry/daemon/http_answers.h"

#include <fmt/format.h>

#include <charconv>
#include <cstddef>
#include <optional>
#include <string>

#include "common/files/json_writer.h"
#include "controller/telemetry/collector_view.h"
#include "controller/telemetry/polls/polls_view.h"

namespace espalier::telemetry {
namespace {

constexpr std::size_t kMostShown = 10'000;  // flows in an answer

// The number of flows that a request asks for; none: the text is wrong.
std::optional<std::size_t> LimitOf(const io::HttpRequest& request) {
  const auto found = request.query.find("limit");
  if (found == request.query.end()) return 100;
  std::size_t limit = 0;
  const std::string& text = found->second;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), limit);
  const bool is_good = error == std::errc() && end == text.data() + text.size() && limit > 0;
  return is_good && limit <= kMostShown ? std::optional(limit) : std::nullopt;
}

}  // namespace

io::HttpResponse AnswerRequest(const io::HttpRequest& request, const Collector& collector,
                               const PolledSwitches& switches, const Metrics& metrics,
                               TimePoint now) {
  constexpr const char* kJson = "application/json";
  if (request.path == "/metrics") {
    return {.content_type = "text/plain; version=0.0.4", .body = metrics.Text()};
  }
  if (request.path == "/healthz") return {.content_type = kJson, .body = "{\"status\": \"ok\"}\n"};
  if (request.path == "/exporters") {
    io::JsonWriter json;
    json.BeginObject();
    WriteExporters(json, collector, now);
    WritePolls(json, switches, now);
    json.EndObject();
    return {.content_type = kJson, .body = json.Text() + "\n"};
  }
  if (request.path == "/flows") {
    const std::optional<std::size_t> limit = LimitOf(request);
    if (!limit) {
      return {.status = 400,
              .content_type = kJson,
              .body = fmt::format("{{\"error\": \"limit must be 1 to {}\"}}\n", kMostShown)};
    }
    return {.content_type = kJson, .body = ShowFlows(collector, *limit, now)};
  }
  return {.status = 404,
          .content_type = kJson,
          .body = "{\"error\": \"not found (use /metrics, /healthz, /exporters or /flows)\"}\n"};
}

}  // namespace espalier::telemetry
