#include "controller/api/job_view.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <numeric>

#include "common/io/json.h"
#include "controller/api/flow_view.h"

namespace espalier::controller {
namespace {

using io::JsonWriter;

constexpr Duration kRemembered = std::chrono::minutes(10);

double Seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

double MeanSeconds(const std::deque<JobRound>& rounds, Duration JobRound::*what) {
  const Duration sum =
      std::accumulate(rounds.begin(), rounds.end(), Duration::zero(),
                      [&](Duration so_far, const JobRound& round) { return so_far + round.*what; });
  return rounds.empty() ? 0 : Seconds(sum) / static_cast<double>(rounds.size());
}

void WriteRounds(JsonWriter& json, const State& state, std::uint32_t job, TimePoint now) {
  const std::deque<JobRound> rounds = state.rounds.Finished(job, now);
  json.Key("in_round").Bool(state.rounds.Begun(job, now).has_value());
  json.Key("rounds").Integer(static_cast<std::int64_t>(state.rounds.Count(job, now)));
  json.Key("allreduce_seconds").Double(MeanSeconds(rounds, &JobRound::duration));
  json.Key("ideal_seconds").Double(MeanSeconds(rounds, &JobRound::ideal));
  json.Key("history").BeginArray();
  for (const JobRound& round : rounds) {
    json.BeginObject();
    json.Key("seconds").Double(Seconds(round.duration));
    json.Key("ideal_seconds").Double(Seconds(round.ideal));
    json.EndObject();
  }
  json.EndArray();
}

void WriteJobs(JsonWriter& json, const State& state, TimePoint now, const FlowCensus& census,
               bool coarse) {
  const auto rate = [coarse](std::uint64_t bps) {
    return static_cast<std::int64_t>(coarse ? CoarseRate(bps) : bps);
  };
  std::map<std::uint32_t, const JobFigures*> jobs;
  for (const auto& [index, job] : census.jobs()) jobs[index] = &job;
  const JobFigures idle;
  for (std::uint32_t job = 0; job < state.flows.jobs().size(); ++job) {
    const std::deque<JobRound> rounds = state.rounds.Finished(job, now);
    if (!rounds.empty() && now - rounds.back().ended < kRemembered) jobs.try_emplace(job, &idle);
  }
  json.BeginArray();
  for (const auto& [index, job] : jobs) {
    json.BeginObject();
    json.Key("job").String(state.flows.JobName(index));
    json.Key("flows").Integer(job->flows);
    json.Key("flows_routed").Integer(job->routed);
    json.Key("flows_unroutable").Integer(job->unroutable);
    json.Key("achieved_bps").Integer(rate(job->achieved_bps));
    json.Key("slowest_flow_bps").Integer(rate(job->slowest_bps.value_or(0)));
    json.Key("max_link_flows").Integer(job->MaxLinkFlows(census.traffic()));
    WriteRounds(json, state, index, now);
    json.EndObject();
  }
  json.EndArray();
}

}  // namespace

std::string JobsView(State& state, TimePoint now) {
  JsonWriter json;
  json.BeginObject().Key("jobs");
  WriteJobs(json, state, now, FlowCensus::Take(state), /*coarse=*/false);
  json.EndObject();
  return json.Text();
}

std::string LiveJobs(const State& state, TimePoint now, const FlowCensus& census) {
  JsonWriter json;
  WriteJobs(json, state, now, census, /*coarse=*/true);
  return json.Text();
}

}  // namespace espalier::controller
