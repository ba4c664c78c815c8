#include "tests/studies/lab/tree_job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <set>
#include <thread>
#include <tuple>
#include <utility>

#include "common/base/users/job_key.h"
#include "common/files/json.h"
#include "common/files/json_writer.h"

namespace espalier::demo {
namespace {

using namespace std::chrono_literals;

constexpr int kStorePort = 20'000;
constexpr std::uint8_t kTcp = 6;
constexpr double kHeaderBytes = 52;  // IP and TCP headers with timestamps, per buffer of the kernel

struct RankProcess {
  ChildProcess process;
  std::string text;
  bool has_ended = false;
};

Result<std::vector<RankProcess>> StartRanks(const lab::Lab& lab, const std::string& programs,
                                            const RanksOptions& options) {
  const int count = lab.layout().options().RankCount();
  // The key by which ranks without a plan recognise each other.
  const std::string key = JobKey::Draw().ToText();
  std::vector<RankProcess> ranks;
  for (int rank = 0; rank < count; ++rank) {
    std::vector<std::string> argv = {programs + "/espalier-lab-rank",
                                     "--rank",
                                     std::to_string(rank),
                                     "--ranks",
                                     std::to_string(count),
                                     "--bytes",
                                     std::to_string(options.bytes),
                                     "--calls",
                                     std::to_string(options.calls),
                                     "--timeout-ms",
                                     std::to_string(options.timeout_ms)};
    if (!options.job.empty()) argv.insert(argv.end(), {"--job", options.job});
    if (options.job.empty() || options.may_be_plain) {
      argv.insert(argv.end(),
                  {"--store", fmt::format("tcp://{}:{}", lab.layout().RankAddress(0), kStorePort),
                   "--address", lab.layout().RankAddress(rank)});
    }
    auto command = lab.MakeCommand(lab.layout().RankName(rank), std::move(argv));
    if (!command) return Propagate(command);
    command->environment.emplace_back("ESPALIER_JOB_KEY", key);
    auto process = ChildProcess::Start(*command);
    if (!process) return Propagate(process);
    ranks.push_back({std::move(*process), "", false});
  }
  return ranks;
}

// Reads the ranks' output; returns true while any rank may write more.
bool ReadOutputs(std::vector<RankProcess>& ranks) {
  std::vector<pollfd> polled;
  for (RankProcess& rank : ranks) {
    polled.push_back({.fd = rank.has_ended ? -1 : rank.process.output(), .events = POLLIN});
  }
  ::poll(polled.data(), polled.size(), 50);
  bool some_run = false;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (polled[i].revents != 0) {
      std::array<char, 4'096> buffer;
      const ssize_t size = ::read(polled[i].fd, buffer.data(), buffer.size());
      if (size > 0) ranks[i].text.append(buffer.data(), static_cast<std::size_t>(size));
      ranks[i].has_ended = size <= 0;
    }
    some_run = some_run || !ranks[i].has_ended;
  }
  return some_run;
}

double Number(const io::JsonValue& object, std::string_view key) {
  const io::JsonValue* value = object.Find(key);
  return value != nullptr ? std::strtod(value->text.c_str(), nullptr) : 0;
}

void TakeLines(const std::string& text, RanksRun& run) {
  std::size_t call = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const auto line =
        io::ParseJson(std::string_view(text).substr(at, end - at), "the output of a rank");
    at = end + 1;
    if (!line) continue;
    if (run.seconds.size() <= call) run.seconds.resize(call + 1);
    run.seconds[call] = std::max(run.seconds[call], Number(*line, "seconds"));
    run.wrong_sums += static_cast<std::int64_t>(Number(*line, "wrong_sums"));
    const io::JsonValue* const done = line->Find("done");
    if (done == nullptr || !done->boolean) ++run.failed_calls;
    ++call;
  }
}

}  // namespace

double RanksRun::Median() const {
  if (seconds.empty()) return 0;
  std::vector<double> sorted = seconds;
  std::sort(sorted.begin(), sorted.end());
  return sorted[sorted.size() / 2];
}

Result<RanksRun> RunRanks(const lab::Lab& lab, const std::string& programs,
                          const RanksOptions& options) {
  auto ranks = StartRanks(lab, programs, options);
  if (!ranks) return Propagate(ranks);
  while (ReadOutputs(*ranks)) {
    if (options.on_running) options.on_running();
  }
  RanksRun run;
  run.completed = true;
  for (RankProcess& rank : *ranks) {
    run.completed = rank.process.Wait() == 0 && run.completed;
    TakeLines(rank.text, run);
  }
  run.completed = run.completed && run.seconds.size() == static_cast<std::size_t>(options.calls);
  return run;
}

Result<void> StartTreeJob(const LabDaemons& daemons, const lab::Lab& lab, const std::string& name,
                          std::int64_t bytes, bool offload) {
  io::JsonWriter body;
  body.BeginObject();
  body.Key("name").String(name);
  body.Key("ranks").BeginArray();
  for (int rank = 0; rank < lab.layout().options().RankCount(); ++rank) {
    body.String(lab.layout().RankName(rank));
  }
  body.EndArray();
  body.Key("bytes").Integer(bytes);
  body.Key("offload").Bool(offload);
  body.EndObject();
  // An agent tells at its next heartbeat that the offload service of its host runs.
  const auto end = std::chrono::steady_clock::now() + 60s;
  auto started = daemons.Post("/api/v1/jobs/start", body.Text());
  while (!started && started.error().message.find("does not support") != std::string::npos &&
         std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(50ms);
    started = daemons.Post("/api/v1/jobs/start", body.Text());
  }
  if (!started) return Propagate(started);
  auto ready = AwaitPlan(daemons, name, "");
  if (!ready) return Propagate(ready);
  return {};
}

Result<void> StopTreeJob(const LabDaemons& daemons, const std::string& name) {
  auto stopped = daemons.Post("/api/v1/jobs/stop?id=" + name);
  if (!stopped) return Propagate(stopped);
  return {};
}

Result<std::string> AwaitPlan(const LabDaemons& daemons, const std::string& name,
                              const std::string& other_than) {
  const auto end = std::chrono::steady_clock::now() + 60s;
  std::string last;
  while (std::chrono::steady_clock::now() < end) {
    const auto answer = daemons.Get("/api/v1/forests");
    if (!answer) return tl::unexpected<Error>(answer.error());
    for (const io::JsonValue& job : answer->Find("forests")->items) {
      if (job.Find("job")->text != name) continue;
      last = job.Find("status")->text + " " + job.Find("problem")->text;
      if (job.Find("status")->text == "READY" && job.Find("plan")->text != other_than) {
        return job.Find("plan")->text;
      }
    }
    std::this_thread::sleep_for(5ms);
  }
  return Fail(ErrorCode::kUnavailable, fmt::format("job {} has no new plan: {}", name, last));
}

Result<std::vector<PlannedEdge>> ReadPlan(const LabDaemons& daemons, const std::string& name) {
  const auto answer = daemons.Get("/api/v1/forests/plan?job=" + name);
  if (!answer) return tl::unexpected<Error>(answer.error());
  const double chunks = Number(*answer, "chunks");
  std::vector<PlannedEdge> plan;
  for (const io::JsonValue& edge : answer->Find("edges")->items) {
    plan.push_back({.source = edge.Find("source_address")->text,
                    .destination = edge.Find("destination_address")->text,
                    .port = static_cast<std::uint16_t>(Number(edge, "source_port")),
                    .via = edge.Find("via")->text,
                    .share = Number(edge, "chunks") / chunks});
  }
  return plan;
}

namespace {

// The switches that "agg0,core1,agg2" names.
std::set<std::string> SwitchesOf(const std::string& via) {
  std::set<std::string> switches;
  for (std::size_t at = 0; at < via.size();) {
    const std::size_t end = std::min(via.find(',', at), via.size());
    switches.insert(via.substr(at, end - at));
    at = end + 1;
  }
  return switches;
}

}  // namespace

CounterComparison CompareWithCounters(const std::vector<PlannedEdge>& plan, std::int64_t bytes,
                                      int calls, std::span<const lab::FlowCount> counts) {
  using Connection = std::tuple<std::string, std::string, std::uint16_t>;
  std::map<Connection, std::map<std::string, double>> seen;  // payload by switch
  for (const lab::FlowCount& count : counts) {
    if (count.protocol != kTcp || count.packets == 0) continue;
    const Connection connection{count.source.ToString(), count.destination.ToString(),
                                count.source_port};
    seen[connection][count.spine] =
        static_cast<double>(count.bytes) - kHeaderBytes * static_cast<double>(count.packets);
  }
  CounterComparison comparison{.least_payload = 1e9};
  for (const PlannedEdge& edge : plan) {
    if (edge.via.empty()) continue;
    ++comparison.edges;
    const auto found = seen.extract({edge.source, edge.destination, edge.port});
    if (found.empty()) {
      ++comparison.silent_edges;
      continue;
    }
    std::set<std::string> passed;
    for (const auto& [name, payload] : found.mapped()) {
      passed.insert(name);
      const double ratio = payload / (edge.share * static_cast<double>(bytes) * calls);
      comparison.least_payload = std::min(comparison.least_payload, ratio);
      comparison.most_payload = std::max(comparison.most_payload, ratio);
    }
    if (passed != SwitchesOf(edge.via)) {
      comparison.stray_connections.push_back(fmt::format("{} > {} port {} over {} and not {}",
                                                         edge.source, edge.destination, edge.port,
                                                         fmt::join(passed, ", "), edge.via));
    }
  }
  for (const auto& [connection, payload] : seen) {
    const auto& [source, destination, port] = connection;
    comparison.stray_connections.push_back(
        fmt::format("{} > {} port {}, which nobody planned, {} bytes", source, destination, port,
                    payload.begin()->second));
  }
  return comparison;
}

}  // namespace espalier::demo
