#include "controller/telemetry/controller_feed.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <memory>
#include <utility>

#include "common/base/log.h"
#include "common/files/json.h"

namespace espalier::telemetry {
namespace {

constexpr Duration kTimeout = std::chrono::seconds(5);

}  // namespace

ControllerFeed::ControllerFeed(EventLoop& loop, const fabric::Topology& topology, Options options,
                               Metrics& metrics)
    : topology_(topology),
      options_(std::move(options)),
      reports_(metrics.MakeCounter("espalier_telemetry_reports_total",
                                   "Reports of link loads that the controller took")),
      refused_(metrics.MakeCounter("espalier_telemetry_reports_failed_total",
                                   "Reports of link loads that the controller refused, or did not "
                                   "answer")),
      background_(loop) {}

std::string ControllerFeed::TakeBody() {
  io::JsonWriter json;
  json.BeginObject().Key("source").String(options_.source);
  json.Key("max_age_seconds").Double(SecondsOf(options_.max_age));
  json.Key("loads").BeginArray();
  for (const auto& [index, load] : waiting_) {
    json.BeginObject().Key("link").String(topology_.DirectionName(load.link));
    json.Key("bps").Integer(std::llround(load.bps)).EndObject();
  }
  json.EndArray().EndObject();
  waiting_.clear();
  return json.Text();
}

void ControllerFeed::Send(const std::vector<Collector::Load>& loads) {
  for (const Collector::Load& load : loads) waiting_.insert_or_assign(load.link.Index(), load);
  if (is_sending_ || waiting_.empty()) return;
  is_sending_ = true;
  auto answer = std::make_shared<Result<io::HttpResponse>>();
  background_.Run(
      [answer, body = TakeBody(), address = options_.controller, access = options_.access] {
        *answer = io::HttpFetch(address, "POST", "/api/v1/links/load", body, kTimeout, access);
      },
      [this, answer] { HandleAnswer(*answer); });
}

void ControllerFeed::HandleAnswer(const Result<io::HttpResponse>& answer) {
  is_sending_ = false;
  std::string problem;
  if (!answer) {
    problem = answer.error().message;
  } else if (answer->status != 200) {
    problem = fmt::format("{} answered {}: {}", options_.controller, answer->status,
                          answer->body.substr(0, 300));
  }
  (problem.empty() ? reports_ : refused_).Add();
  if (problem != problem_) {
    if (problem.empty()) {
      Log(LogLevel::kInfo, "event=reports_taken controller={}", options_.controller);
    } else {
      Log(LogLevel::kWarning, "event=reports_fail problem=\"{}\"", problem);
    }
  }
  problem_ = std::move(problem);
}

}  // namespace espalier::telemetry
