#include "deploy/lab/run_traffic.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <limits>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "common/files/json_writer.h"
#include "common/os/os_error.h"

namespace espalier::lab {
namespace {

using Clock = std::chrono::steady_clock;
using traffic::HostReport;
using traffic::WorkloadFlow;

constexpr std::chrono::milliseconds kPoll{20};
constexpr std::chrono::seconds kReadyLimit{30};
constexpr std::chrono::seconds kReportLimit{30};

std::string ProgramPath(const TrafficOptions& options) {
  if (!options.program.empty()) return options.program;
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path beside = self.parent_path() / "espalier-traffic";
  return !error && std::filesystem::exists(beside, error) ? beside.string() : "espalier-traffic";
}

// A file that is removed when this object is destroyed.
class TemporaryFile {
 public:
  static Result<TemporaryFile> Write(const std::string& folder, const std::string& text) {
    TemporaryFile file;
    file.path_ = folder + "/workload-XXXXXX";
    const UniqueFd fd(::mkstemp(file.path_.data()));
    if (!fd) return FailErrno(file.path_, errno);
    for (std::size_t at = 0; at < text.size();) {
      const ssize_t n = ::write(fd.get(), text.data() + at, text.size() - at);
      if (n < 0) return FailErrno(file.path_, errno);
      at += static_cast<std::size_t>(n);
    }
    return file;
  }
  TemporaryFile(TemporaryFile&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  TemporaryFile& operator=(TemporaryFile&&) = delete;
  ~TemporaryFile() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  const std::string& path() const { return path_; }

 private:
  TemporaryFile() = default;
  std::string path_;
};

// The processes of one run and their output so far.
class Fleet {
 public:
  Result<void> Start(const std::string& host, const Command& command) {
    Result<ChildProcess> child = ChildProcess::Start(command);
    if (!child) return Propagate(child);
    members_.push_back({host, std::move(*child), "", false});
    return {};
  }

  Result<void> TellAll(char command) {
    for (Member& member : members_) {
      if (Result<void> told = member.process.Write({&command, 1}); !told) return told;
    }
    return {};
  }

  // Waits until every process has written `lines` lines or closed its output. Returns false at the
  // deadline, or when keep_on, which is called repeatedly, returns false.
  bool WaitForLines(std::size_t lines, Clock::time_point deadline,
                    const std::function<bool()>& keep_on) {
    while (!HaveAllSaid(lines)) {
      if (Clock::now() >= deadline) return false;
      ReadSome();
      if (keep_on && !keep_on()) return false;
    }
    return true;
  }

  // Finds a process that has ended too early.
  const std::string* FindEnded() const {
    for (const Member& member : members_) {
      if (member.ended) return &member.host;
    }
    return nullptr;
  }

  // Waits until every process has closed its output; returns false at the deadline.
  bool WaitForEnd(Clock::time_point deadline) {
    return WaitForLines(std::numeric_limits<std::size_t>::max(), deadline, nullptr);
  }

  // The last complete line of each host.
  std::vector<std::pair<std::string, std::string>> LastLines() const {
    std::vector<std::pair<std::string, std::string>> lines;
    for (const Member& member : members_) {
      const std::string_view said(member.said.data(), member.said.rfind('\n'));
      lines.emplace_back(member.host, said.substr(said.rfind('\n') + 1));
    }
    return lines;
  }

 private:
  struct Member {
    std::string host;
    ChildProcess process;
    std::string said;
    bool ended;
  };

  bool HaveAllSaid(std::size_t lines) const {
    return std::all_of(members_.begin(), members_.end(), [&](const Member& member) {
      return member.ended || static_cast<std::size_t>(
                                 std::count(member.said.begin(), member.said.end(), '\n')) >= lines;
    });
  }

  void ReadSome() {
    std::vector<pollfd> waiting;
    for (const Member& member : members_) {
      waiting.push_back({member.ended ? -1 : member.process.output(), POLLIN, 0});
    }
    ::poll(waiting.data(), waiting.size(), static_cast<int>(kPoll.count()));
    for (std::size_t i = 0; i < waiting.size(); ++i) {
      if ((waiting[i].revents & (POLLIN | POLLHUP)) == 0) continue;
      std::array<char, 65'536> buffer{};
      const ssize_t n = ::read(waiting[i].fd, buffer.data(), buffer.size());
      if (n > 0) members_[i].said.append(buffer.data(), static_cast<std::size_t>(n));
      if (n == 0) members_[i].ended = true;
    }
  }

  std::vector<Member> members_;
};

Result<void> StartAll(const Lab& lab, const std::vector<WorkloadFlow>& plans,
                      const std::string& workload_file, const TrafficOptions& options,
                      Fleet& fleet) {
  std::set<std::string> hosts;  // with several NICs each, one process for each NIC
  for (const WorkloadFlow& plan : plans) {
    hosts.insert(plan.source);
    hosts.insert(plan.destination);
  }
  for (const std::string& host : hosts) {
    std::vector<std::string> argv = {
        ProgramPath(options), "--host",      host,
        "--workload",         workload_file, "--topology",
        lab.topology_file(),  "--seed",      fmt::format("{}", options.seed)};
    if (options.use_agents) argv.push_back("--agent");
    if (!options.needs_agents) argv.push_back("--agent-optional");
    const Result<Command> command = lab.MakeCommand(host, std::move(argv));
    if (!command) return tl::unexpected(command.error());
    if (Result<void> started = fleet.Start(host, *command); !started) return started;
  }
  return {};
}

double Seconds(std::int64_t ns) { return static_cast<double>(ns) * 1e-9; }

std::vector<JobOutcome> SummariseJobs(const traffic::Workload& workload,
                                      const std::vector<HostReport>& reports) {
  struct Span {
    std::int64_t start = std::numeric_limits<std::int64_t>::max();
    std::int64_t end = 0;
  };
  std::map<std::tuple<int, int, int>, Span> spans;  // by job, epoch and ring
  for (const HostReport& report : reports) {
    for (const traffic::EpochTime& time : report.epochs) {
      Span& span = spans[{time.job, time.epoch, time.ring}];
      span.start = std::min(span.start, time.start_ns);
      span.end = std::max(span.end, time.end_ns);
    }
  }
  std::vector<JobOutcome> jobs;
  for (const traffic::Job& job : workload.jobs) jobs.push_back({job.id, {}, 0});
  for (const auto& [key, span] : spans) {
    const auto& [job, epoch, ring] = key;
    std::vector<double>& epochs = jobs.at(static_cast<std::size_t>(job)).epoch_seconds;
    epochs.resize(std::max(epochs.size(), static_cast<std::size_t>(epoch) + 1));
    double& slowest = epochs[static_cast<std::size_t>(epoch)];
    slowest = std::max(slowest, Seconds(span.end - span.start));
  }
  for (JobOutcome& job : jobs) {
    const double sum = std::accumulate(job.epoch_seconds.begin(), job.epoch_seconds.end(), 0.0);
    if (!job.epoch_seconds.empty()) {
      job.allreduce_seconds = sum / static_cast<double>(job.epoch_seconds.size());
    }
  }
  return jobs;
}

TrafficResult Summarise(const Lab& lab, const traffic::Workload& workload,
                        const std::vector<WorkloadFlow>& plans,
                        const std::vector<HostReport>& reports, Clock::time_point begin) {
  TrafficResult result;
  const fabric::Topology& topology = lab.topology();
  const std::int64_t begin_ns = begin.time_since_epoch().count();
  for (const WorkloadFlow& plan : plans) {
    FlowOutcome outcome{.plan = plan};
    outcome.source = topology.node(*topology.FindNode(plan.source)).addresses.front();
    outcome.destination = topology.node(*topology.FindNode(plan.destination)).addresses.front();
    result.flows.push_back(std::move(outcome));
  }
  for (const HostReport& report : reports) {
    for (const traffic::SentFlow& sent : report.sent) {
      FlowOutcome& flow = result.flows.at(sent.index);
      flow.sent = sent;
      flow.start_seconds = Seconds(sent.start_ns - begin_ns);
      flow.end_seconds = Seconds(sent.end_ns - begin_ns);
      result.seconds = std::max(result.seconds, flow.end_seconds);
      for (const traffic::PortUse& use : sent.ports) {
        if (use.steered) result.steered_bytes += use.bytes;
      }
    }
    result.bursts.insert(result.bursts.end(), report.bursts.begin(), report.bursts.end());
    for (const traffic::ReceivedFlow& received : report.received) {
      result.flows.at(received.index).received = received;
    }
  }
  result.jobs = SummariseJobs(workload, reports);
  result.phased_jobs = traffic::SummarisePhases(workload, reports);
  return result;
}

}  // namespace

Result<TrafficResult> RunTraffic(const Lab& lab, const traffic::Workload& workload,
                                 const TrafficOptions& options) {
  const std::string folder = std::filesystem::path(lab.topology_file()).parent_path();
  const Result<TemporaryFile> file =
      TemporaryFile::Write(folder, traffic::FormatWorkload(workload));
  if (!file) return tl::unexpected(file.error());
  const std::vector<WorkloadFlow> plans = traffic::ListWorkloadFlows(workload);
  Fleet fleet;
  if (Result<void> started = StartAll(lab, plans, file->path(), options, fleet); !started) {
    return Propagate(started);
  }
  const auto fail_ended = [&](const std::string& host) {
    return Fail(ErrorCode::kInternal,
                fmt::format("the traffic process of {} ended early (its message is above)", host));
  };
  const bool ready = fleet.WaitForLines(1, Clock::now() + kReadyLimit, nullptr);
  if (const std::string* host = fleet.FindEnded()) return fail_ended(*host);
  if (!ready) return Fail(ErrorCode::kUnavailable, "the traffic processes do not start in time");

  const Clock::time_point begin = Clock::now();
  if (Result<void> told = fleet.TellAll('g'); !told) return Propagate(told);
  const bool completed = fleet.WaitForLines(2, begin + options.time_limit, [&] {
    if (options.on_running) options.on_running(Clock::now() - begin);
    return !options.is_over || !options.is_over();
  });
  if (const std::string* host = fleet.FindEnded()) return fail_ended(*host);
  if (Result<void> told = fleet.TellAll('s'); !told) return Propagate(told);

  if (!fleet.WaitForEnd(Clock::now() + kReportLimit)) {
    return Fail(ErrorCode::kUnavailable, "the traffic processes do not end in time");
  }
  std::vector<HostReport> reports;
  for (const auto& [host, line] : fleet.LastLines()) {
    Result<HostReport> report = traffic::ParseHostReport(line, host);
    if (!report) return Propagate(report);
    reports.push_back(std::move(*report));
  }
  TrafficResult result = Summarise(lab, workload, plans, reports, begin);
  result.completed = completed;
  return result;
}

bool FlowOutcome::IsWhole() const {
  // UDP ends with a whole datagram, and lost ones are not retransmitted.
  const bool udp = plan.protocol == traffic::Protocol::kUdp;
  return sent.done && (udp ? sent.bytes >= plan.bytes : sent.bytes == plan.bytes) &&
         received.bytes == sent.bytes && received.segments == sent.segments &&
         (!udp || received.duplicates == 0);
}

double TrafficResult::SlowestFlowSeconds() const {
  double slowest = 0;
  for (const FlowOutcome& flow : flows) slowest = std::max(slowest, flow.Seconds());
  return slowest;
}

double TrafficResult::MedianFlowSeconds() const {
  if (flows.empty()) return 0;
  std::vector<double> times;
  for (const FlowOutcome& flow : flows) times.push_back(flow.Seconds());
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

double TrafficResult::ThroughputBps() const {
  double bytes = 0;
  for (const FlowOutcome& flow : flows) bytes += static_cast<double>(flow.received.bytes);
  return seconds > 0 ? 8 * bytes / seconds : 0;
}

std::string DescribeTrafficResult(const TrafficResult& result) {
  std::string text =
      fmt::format("{} flows in {:.2f} s, slowest {:.2f} s, median {:.2f} s, {:.0f} Mbit/s\n",
                  result.flows.size(), result.seconds, result.SlowestFlowSeconds(),
                  result.MedianFlowSeconds(), result.ThroughputBps() / 1e6);
  for (const JobOutcome& job : result.jobs) {
    text += fmt::format("job {}: all-reduce {:.3f} s, mean of {} epochs\n", job.id,
                        job.allreduce_seconds, job.epoch_seconds.size());
  }
  for (const traffic::PhasedOutcome& job : result.phased_jobs) {
    if (job.iterations.empty()) continue;
    const traffic::PhasedFigures figures = traffic::FiguresFrom(job, 0);
    text += fmt::format(
        "job {}: communicates {:.3f} s in each of {} iterations, slowest burst {:.3f} s, {:.1f} "
        "ports changed an iteration\n",
        job.id, figures.communication_seconds, job.iterations.size(), figures.slowest_burst_seconds,
        figures.ports_changed_per_iteration);
  }
  return text;
}

namespace {

void WritePhasedJob(io::JsonWriter& json, const traffic::PhasedOutcome& job) {
  json.BeginObject();
  json.Key("job").String(job.id);
  json.Key("iterations").BeginArray();
  for (const traffic::IterationOutcome& iteration : job.iterations) {
    json.BeginObject();
    json.Key("ports_changed").Integer(iteration.ports_changed);
    json.Key("phases").BeginArray();
    for (const traffic::PhaseOutcome& phase : iteration.phases) {
      json.BeginObject();
      json.Key("seconds").Double(phase.seconds);
      json.Key("slowest_burst_seconds").Double(phase.slowest_burst_seconds);
      json.EndObject();
    }
    json.EndArray().EndObject();
  }
  json.EndArray().EndObject();
}

}  // namespace

std::string FormatTrafficResult(const TrafficResult& result) {
  io::JsonWriter json;
  json.BeginObject();
  json.Key("completed").Bool(result.completed);
  json.Key("seconds").Double(result.seconds);
  json.Key("slowest_flow_seconds").Double(result.SlowestFlowSeconds());
  json.Key("median_flow_seconds").Double(result.MedianFlowSeconds());
  json.Key("throughput_mbps").Double(result.ThroughputBps() / 1e6);
  json.Key("steered_bytes").Integer(result.steered_bytes);
  json.Key("flows").BeginArray();
  for (const FlowOutcome& flow : result.flows) {
    json.BeginObject();
    json.Key("id").String(flow.plan.id);
    json.Key("source").String(flow.source.ToString());
    json.Key("destination").String(flow.destination.ToString());
    json.Key("start_seconds").Double(flow.start_seconds);
    json.Key("end_seconds").Double(flow.end_seconds);
    json.Key("sent_bytes").Integer(flow.sent.bytes);
    json.Key("received_bytes").Integer(flow.received.bytes);
    json.Key("segments").Integer(flow.sent.segments);
    json.Key("duplicates").Integer(flow.received.duplicates);
    json.Key("abandoned").Integer(flow.sent.abandoned);
    json.Key("whole").Bool(flow.IsWhole());
    json.Key("ports").BeginArray();
    for (const traffic::PortUse& use : flow.sent.ports) {
      json.BeginObject();
      json.Key("port").Integer(use.port);
      json.Key("steered").Bool(use.steered);
      json.Key("bytes").Integer(use.bytes);
      json.EndObject();
    }
    json.EndArray().EndObject();
  }
  json.EndArray().Key("jobs").BeginArray();
  for (const JobOutcome& job : result.jobs) {
    json.BeginObject();
    json.Key("job").String(job.id);
    json.Key("allreduce_seconds").Double(job.allreduce_seconds);
    json.Key("epoch_seconds").BeginArray();
    for (const double epoch : job.epoch_seconds) json.Double(epoch);
    json.EndArray().EndObject();
  }
  json.EndArray().Key("phased_jobs").BeginArray();
  for (const traffic::PhasedOutcome& job : result.phased_jobs) WritePhasedJob(json, job);
  json.EndArray().EndObject();
  return json.Text();
}

}  // namespace espalier::lab
