#include "controller/api/views/job_view.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <optional>
#include <vector>

#include "common/files/json_writer.h"
#include "controller/api/views/flow_view.h"
#include "controller/intents/intent_text.h"

namespace espalier::controller {
namespace {

using io::JsonWriter;

constexpr Duration kRemembered = std::chrono::minutes(10);

double MedianSeconds(const std::deque<JobRound>& rounds, Duration JobRound::*what) {
  std::vector<Duration> values;
  for (const JobRound& round : rounds) values.push_back(round.*what);
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return SecondsOf(*middle);
}

void WriteRounds(JsonWriter& json, const State& state, std::uint32_t job, TimePoint now) {
  const std::deque<JobRound> rounds = state.rounds.Finished(job, now);
  const std::optional<TimePoint> begun = state.rounds.Begun(job, now);
  json.Key("in_round").Bool(begun.has_value());
  json.Key("rounds").Integer(static_cast<std::int64_t>(state.rounds.Count(job, now)));
  const auto [allreduce, ideal] = MedianRound(state, job, now);
  json.Key("round_groups").Integer(static_cast<std::int64_t>(state.rounds.Groups(job, now)));
  json.Key("rounds_note")
      .String(begun && now - *begun > JobRounds::kPast
                  ? "a group of its flows has not paused for more than a minute, so no round of it "
                    "has ended"
                  : "");
  json.Key("allreduce_seconds").Double(allreduce);
  json.Key("ideal_seconds").Double(ideal);
  json.Key("history").BeginArray();
  for (const JobRound& round : rounds) {
    json.BeginObject();
    json.Key("seconds").Double(SecondsOf(round.duration));
    json.Key("ideal_seconds").Double(SecondsOf(round.ideal));
    json.EndObject();
  }
  json.EndArray();
}

void WriteJob(JsonWriter& json, const State& state, TimePoint now, std::uint32_t index,
              const JobStatistics& job, const LinkTraffic& traffic, bool coarse) {
  const auto rate = [coarse](std::uint64_t bps) {
    return static_cast<std::int64_t>(coarse ? CoarseRate(bps) : bps);
  };
  json.BeginObject();
  json.Key("job").String(state.flows.JobName(index));
  json.Key("flows").Integer(job.flows);
  json.Key("flows_routed").Integer(job.routed);
  json.Key("flows_unroutable").Integer(job.unroutable);
  json.Key("achieved_bps").Integer(rate(job.achieved_bps));
  json.Key("slowest_flow_bps").Integer(rate(job.slowest_bps.value_or(0)));
  json.Key("max_link_flows").Integer(job.MaxLinkFlows(traffic));
  const std::string& name = state.flows.JobName(index);
  const auto weight = state.intents.weights.find(name);
  json.Key("weight").String(
      weight == state.intents.weights.end() ? "1" : FormatIntentValue(weight->second.value));
  json.Key("forest").Bool(state.intents.jobs.contains(name));
  WriteRounds(json, state, index, now);
  json.EndObject();
}

}  // namespace

std::pair<double, double> MedianRound(const State& state, std::uint32_t job, TimePoint now) {
  const std::deque<JobRound> rounds = state.rounds.Finished(job, now);
  return {MedianSeconds(rounds, &JobRound::duration), MedianSeconds(rounds, &JobRound::ideal)};
}

bool ShowsJob(const State& state, TimePoint now, std::uint32_t job,
              const FlowStatistics& statistics) {
  if (statistics.jobs().contains(job)) return true;
  const std::deque<JobRound> rounds = state.rounds.Finished(job, now);
  return !rounds.empty() && now - rounds.back().ended < kRemembered;
}

std::string JobView(const State& state, TimePoint now, std::uint32_t job,
                    const FlowStatistics& statistics) {
  JsonWriter json;
  WriteJob(json, state, now, job, statistics.StatisticsOf(job), statistics.traffic(),
           /*coarse=*/false);
  return json.Text();
}

std::string LiveJobs(const State& state, TimePoint now, const FlowStatistics& statistics) {
  JsonWriter json;
  json.BeginArray();
  for (std::uint32_t job = 0; job < state.flows.jobs().size(); ++job) {
    if (!ShowsJob(state, now, job, statistics)) continue;
    WriteJob(json, state, now, job, statistics.StatisticsOf(job), statistics.traffic(),
             /*coarse=*/true);
  }
  json.EndArray();
  return json.Text();
}

}  // namespace espalier::controller
