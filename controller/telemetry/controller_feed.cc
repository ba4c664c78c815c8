#include "controller/telemetry/controller_feed.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <memory>
#include <utility>

#include "common/base/log.h"
#include "common/files/json_writer.h"

namespace espalier::telemetry {
namespace {

constexpr Duration kTimeout = std::chrono::seconds(5);

}  // namespace

ControllerFeed::ControllerFeed(EventLoop& loop, const fabric::Topology& topology, Options options,
                               Metrics& metrics)
    : topology_(topology),
      options_(std::move(options)),
      reports_(metrics.MakeCounter("espalier_telemetry_reports_total",
                                   "Reports that the controller accepted")),
      refused_(metrics.MakeCounter("espalier_telemetry_reports_failed_total",
                                   "Reports that the controller refused or did not answer")),
      background_(loop) {}

std::string ControllerFeed::TakeLoads() {
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

void ControllerFeed::Post(const char* path, std::string body, bool& is_sending,
                          std::function<void(int status)> done) {
  is_sending = true;
  auto answer = std::make_shared<Result<io::HttpResponse>>();
  background_.Run(
      [answer, path, body = std::move(body), address = options_.controller,
       access = options_.access] {
        *answer = io::HttpFetch(address, "POST", path, body, kTimeout, access);
      },
      [this, answer, path, &is_sending, done = std::move(done)] {
        is_sending = false;
        HandleAnswer(path, *answer);
        if (done) done(*answer ? (*answer)->status : 0);
      });
}

void ControllerFeed::SendLoads(const std::vector<Collector::Load>& loads) {
  for (const Collector::Load& load : loads) waiting_.insert_or_assign(load.link.Index(), load);
  if (is_sending_loads_ || waiting_.empty()) return;
  Post("/api/v1/links/load", TakeLoads(), is_sending_loads_);
}

void ControllerFeed::SendFlows(const std::vector<SampledFlows::Flow>& flows, Duration window) {
  if (is_sending_flows_) return;
  io::JsonWriter json;
  json.BeginObject().Key("source").String(options_.source);
  json.Key("window_seconds").Double(SecondsOf(window));
  json.Key("flows").BeginArray();
  for (const SampledFlows::Flow& flow : flows) {
    json.BeginObject().Key("source").String(flow.key.source.ToString());
    json.Key("destination").String(flow.key.destination.ToString());
    json.Key("protocol").Integer(flow.key.protocol);
    json.Key("source_port").Integer(flow.key.source_port);
    json.Key("destination_port").Integer(flow.key.destination_port);
    json.Key("queue_pair").Integer(flow.key.queue_pair);
    json.Key("bps").Integer(std::llround(flow.bps));
    json.Key("error").Double(flow.error);
    json.Key("links").BeginArray();
    for (const SampledFlows::OnLink& on : flow.links) {
      json.BeginObject().Key("link").String(topology_.DirectionName(on.link));
      json.Key("samples").Integer(on.samples).EndObject();
    }
    json.EndArray().EndObject();
  }
  json.EndArray().EndObject();
  Post("/api/v1/flows/seen", json.Text(), is_sending_flows_);
}

bool ControllerFeed::SendStates(const std::vector<LinkState>& states,
                                std::function<void(int status)> done) {
  if (is_sending_states_) return false;
  std::string lines;
  for (const LinkState& state : states) {
    io::JsonWriter json;
    json.BeginObject().Key("link").String(topology_.link(state.link).id);
    json.Key("up").Bool(state.is_up).Key("source").String(options_.source).EndObject();
    lines += json.Text() + "\n";
  }
  Post("/api/v1/links/report", std::move(lines), is_sending_states_, std::move(done));
  return true;
}

std::string ControllerFeed::problem() const {
  return problems_.empty() ? "" : problems_.begin()->second;
}

void ControllerFeed::HandleAnswer(const char* path, const Result<io::HttpResponse>& answer) {
  std::string problem;
  if (!answer) {
    problem = answer.error().message;
  } else if (answer->status != 200) {
    problem = fmt::format("{} answered {}: {}", options_.controller, answer->status,
                          answer->body.substr(0, 300));
  }
  (problem.empty() ? reports_ : refused_).Add();
  const auto before = problems_.find(path);
  if (problem.empty()) {
    if (before == problems_.end()) return;
    problems_.erase(before);
    Log(LogLevel::kInfo, "event=reports_taken controller={} path={}", options_.controller, path);
  } else if (before == problems_.end() || before->second != problem) {
    Log(LogLevel::kWarning, "event=reports_fail path={} problem=\"{}\"", path, problem);
    problems_.insert_or_assign(path, std::move(problem));
  }
}

}  // namespace espalier::telemetry
