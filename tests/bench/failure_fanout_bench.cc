// failure_fanout_bench: measures the time from the report of a spine's failure until the last
// affected agent has acknowledged its push, over real ZeroMQ connections. For comparison it sends,
// in turn, the same bytes to the same agents without any computation. docs/benchmarks.md explains
// the figures.
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <csignal>
#include <ctime>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/metrics.h"
#include "common/bus/zmq_router_bus.h"
#include "common/loop/asio_event_loop.h"
#include "controller/controller.h"
#include "controller/store/memory_store.h"
#include "proto/decode.h"
#include "tests/bench/control_loop_fabric.h"
#include "tests/bench/control_loop_load.h"

namespace espalier::bench {
namespace {

using namespace std::chrono_literals;

double Seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }
double Milliseconds(Duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

// Processor time of the calling thread.
double CpuMilliseconds() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return 1e3 * static_cast<double>(used.tv_sec) + 1e-6 * static_cast<double>(used.tv_nsec);
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// The times of sending one message to each of many agents until all have acknowledged it.
struct Fanout {
  double first_ms = 0;  // the first message is given to the bus
  double sent_ms = 0;   // the last message is given to the bus
  double acked_ms = 0;
  double bus_ms = 0;  // in the bus, in total; the rest until sent_ms is computation
  // Processor time of the loop's thread, without the time of other processes.
  double sent_cpu_ms = 0;
  double acked_cpu_ms = 0;
  std::size_t told = 0;
};

// The controller's bus, which records pushes and acknowledgements.
class WatchedBus : public Bus {
 public:
  WatchedBus(EventLoop& loop, Bus& bus) : loop_(loop), bus_(bus) {}

  void SetHandlers(Handlers handlers) override {
    handlers_ = std::move(handlers);
    bus_.SetHandlers(
        {.on_message = [this](PeerId from, std::string_view bytes) { Handle(from, bytes); },
         .on_peer_gone = [this](PeerId peer) { handlers_.on_peer_gone(peer); }});
  }
  bool Send(PeerId to, std::string bytes) override {
    if (!is_recording_ || !IsPush(bytes)) return bus_.Send(to, std::move(bytes));
    if (messages_.empty()) fanout_.first_ms = Milliseconds(loop_.Now() - began_);
    if (messages_.try_emplace(to, bytes).second) unacknowledged_.insert(to);
    const TimePoint handed = loop_.Now();
    const bool sent = bus_.Send(to, std::move(bytes));
    const TimePoint now = loop_.Now();
    fanout_.bus_ms += Milliseconds(now - handed);
    fanout_.sent_ms = Milliseconds(now - began_);
    fanout_.sent_cpu_ms = CpuMilliseconds() - began_cpu_ms_;
    return sent;
  }
  void Disconnect(PeerId peer) override { bus_.Disconnect(peer); }
  std::optional<std::string> AuthenticatedName(PeerId peer) const override {
    return bus_.AuthenticatedName(peer);
  }

  void Begin() {
    began_ = loop_.Now();
    began_cpu_ms_ = CpuMilliseconds();
    fanout_ = {};
    messages_.clear();
    is_recording_ = true;
  }
  // Call when all messages have been given to the bus.
  void EndSending() {
    is_recording_ = false;
    fanout_.told = messages_.size();
  }
  bool IsAcknowledged() const { return !is_recording_ && unacknowledged_.empty(); }
  const Fanout& fanout() const { return fanout_; }

  // Sends the recorded messages again, without the controller.
  void Repeat() {
    const auto messages = std::exchange(messages_, {});
    Begin();
    is_repetition_ = true;
    for (const auto& [to, bytes] : messages) Send(to, bytes);
    EndSending();
  }
  void EndRepetition() { is_repetition_ = false; }

 private:
  bool IsPush(std::string_view bytes) {
    const auto decoded = decoder_.Decode(bytes);
    return decoded && std::holds_alternative<wire::PathPush>((*decoded)->body);
  }
  void Handle(PeerId from, std::string_view bytes) {
    if (!unacknowledged_.empty()) {
      const auto decoded = decoder_.Decode(bytes);
      if (decoded && std::holds_alternative<wire::Ack>((*decoded)->body)) {
        unacknowledged_.erase(from);
        if (unacknowledged_.empty()) {
          fanout_.acked_ms = Milliseconds(loop_.Now() - began_);
          fanout_.acked_cpu_ms = CpuMilliseconds() - began_cpu_ms_;
        }
        if (is_repetition_) return;
      }
    }
    handlers_.on_message(from, bytes);
  }

  EventLoop& loop_;
  Bus& bus_;
  Handlers handlers_;
  wire::Decoder decoder_;
  TimePoint began_{};
  double began_cpu_ms_ = 0;
  bool is_recording_ = false;
  bool is_repetition_ = false;
  std::map<PeerId, std::string> messages_;  // first push to each agent
  std::set<PeerId> unacknowledged_;
  Fanout fanout_;
};

// The switches of which one fails.
struct Tier {
  std::string_view name;
  int switches = 0;
};

Tier TopTierOf(const LoadOptions& options) {
  const int half = options.fat_tree / 2;
  return half > 0 ? Tier{"core", half * half} : Tier{"spine", options.spines};
}

// Whether "agg0,core1,agg2" or "spine3" has this switch.
bool Passes(const std::string& via, const std::string& name) {
  const std::string all = "," + via + ",";
  return all.find("," + name + ",") != std::string::npos;
}

std::size_t ResidentMiB() {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> pages;
  return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) >> 20;
}

struct Options {
  LoadOptions load{.agents = 2048, .spines = 4, .flows = 8};
  int rounds = 8;
  double rest_limit = 0;  // seconds; 0: none
  double starts = 0;      // flows that start per second, before anything fails
};

class Bench {
 public:
  // `agents`: pipes to the processes of the agents, which are told where the controller is, and
  // later which switch fails or comes back.
  Bench(const Options& options, std::vector<int> agents)
      : options_(options),
        agents_(std::move(agents)),
        router_(io::ZmqRouterBus::Bind(loop_, {.endpoint = "tcp://127.0.0.1:*"}).value()),
        bus_(loop_, *router_),
        store_(disk_, loop_),
        controller_(
            MakeBenchTopology(options.load.agents, options.load.spines, options.load.fat_tree),
            {.heartbeat = {.interval = 10s}, .verification = {.interval = Duration::zero()}}, loop_,
            bus_, store_, metrics_) {
    ESPALIER_CHECK(controller_.Start(), "the controller does not start");
    TellAgents(router_->endpoint());
  }

  void Run() {
    const auto flows = static_cast<std::size_t>(options_.load.agents) *
                       static_cast<std::size_t>(options_.load.flows);
    const TimePoint began = loop_.Now();
    Await([&] { return controller_.state().flows.size() == flows; });
    AwaitRest();
    const double at_rest = Seconds(loop_.Now() - began);
    const std::string planned_at_first = PlansText();
    std::vector<double> failed;
    std::vector<double> returned;
    std::vector<Fanout> planned;
    std::vector<Fanout> bare;
    std::size_t too_many = 0;
    std::string planned_after_failure;
    for (int round = 0; round < options_.rounds; ++round) {
      const std::string spine = fmt::format("{}{}", tier_.name, round % tier_.switches);
      const std::set<PeerId> concerned = AgentsOn(spine);
      planned.push_back(Fail(spine));
      too_many += planned.back().told - std::min(planned.back().told, concerned.size());
      failed.push_back(AwaitRest());
      planned_after_failure = PlansText();
      bus_.Repeat();
      Await([&] { return bus_.IsAcknowledged(); });
      bus_.EndRepetition();
      bare.push_back(bus_.fanout());
      TellAgents(spine);
      controller_.actions().ChangeNode(spine, controller::IntentAction::kRestore, {},
                                       [](const auto&) {});
      returned.push_back(AwaitRest());
    }
    Print(planned, bare, too_many);
    fmt::print(
        "all flows have ports, and all failures have plans: after {:.2f} s{}; after a failure "
        "{:.2f} s later{}; after the return of the switch {:.2f} s later{}\n{} ports known, {} MiB "
        "resident memory\n",
        at_rest, planned_at_first, Median(failed), planned_after_failure, Median(returned),
        PlansText(), controller_.state().path_map.PortCount(), ResidentMiB());
  }

 private:
  void TellAgents(const std::string& text) const {
    const std::string line = text + "\n";
    for (const int agents : agents_) {
      ESPALIER_CHECK(write(agents, line.data(), line.size()) == static_cast<ssize_t>(line.size()));
    }
  }
  void Await(const std::function<bool()>& done, Duration interval = 1ms) {
    TimerPtr timer;
    const std::function<void()> look = [&] {
      if (done()) return loop_.Stop();
      timer = loop_.After(interval, look);
    };
    loop_.Post(look);
    loop_.Run();
  }
  // Returns the seconds that it took. Looks seldom, as looking costs time, too.
  double AwaitRest() {
    const TimePoint began = loop_.Now();
    const auto is_over = [&] {
      return options_.rest_limit > 0 && Seconds(loop_.Now() - began) >= options_.rest_limit;
    };
    Await([&] { return is_over() || IsAtRest(); }, 20ms);
    return Seconds(loop_.Now() - began);
  }
  // Says how far the plans are if they are not complete.
  std::string PlansText() const {
    const auto& plans = controller_.failure_plans();
    if (plans.fresh() == plans.loaded()) return "";
    return fmt::format(" (not reached: {} of {} plans)", plans.fresh(), plans.loaded());
  }
  // True if all flows have acknowledged ports and all failure plans are current.
  bool IsAtRest() {
    const controller::State& state = controller_.state();
    if (state.flows.HasNew() || !state.pushes.IsEmpty()) return false;
    for (std::size_t i = 0; i < state.agents.size(); ++i) {
      const controller::Agent& agent = state.agents.At(controller::AgentId(static_cast<int>(i)));
      if (agent.acked_generation < agent.generation) return false;
    }
    for (const controller::FlowSlot slot : state.flows.All()) {
      if (state.flows.At(slot).status == controller::FlowStatus::kLearning) return false;
    }
    const auto& plans = controller_.failure_plans();
    return plans.fresh() == plans.loaded();
  }
  std::set<PeerId> AgentsOn(const std::string& spine) {
    const controller::State& state = controller_.state();
    std::set<PeerId> agents;
    for (const controller::FlowSlot slot : state.flows.All()) {
      const controller::Flow& flow = state.flows.At(slot);
      if (Passes(state.Via(flow), spine)) agents.insert(*state.agents.At(flow.agent).peer);
    }
    return agents;
  }
  Fanout Fail(const std::string& spine) {
    TellAgents(spine);
    bus_.Begin();
    controller_.actions().ChangeNode(spine, controller::IntentAction::kFail, {.reason = "bench"},
                                     [&](const auto& outcome) {
                                       ESPALIER_CHECK(outcome, "spine={}", spine);
                                       bus_.EndSending();
                                     });
    Await([&] { return bus_.IsAcknowledged(); });
    return bus_.fanout();
  }
  void Print(const std::vector<Fanout>& planned, const std::vector<Fanout>& bare,
             std::size_t too_many) const {
    const auto median = [](const std::vector<Fanout>& all, auto value) {
      std::vector<double> values;
      for (const Fanout& one : all) values.push_back(static_cast<double>(one.*value));
      return Median(std::move(values));
    };
    fmt::print("{} agents, {} flows each, {} {}s of which one fails; medians of {} rounds\n\n",
               options_.load.agents, options_.load.flows, tier_.switches, tier_.name,
               options_.rounds);
    fmt::print("{:<12}{:>10}{:>12}{:>12}{:>18}{:>16}{:>12}{:>12}\n", "", "told", "first, ms",
               "last, ms", "of it in bus, ms", "all acked, ms", "CPU, last", "CPU, acked");
    for (const auto& [name, all] : {std::pair{"failure", &planned}, std::pair{"bare", &bare}}) {
      fmt::print("{:<12}{:>10.0f}{:>12.2f}{:>12.2f}{:>18.2f}{:>16.2f}{:>12.2f}{:>12.2f}\n", name,
                 median(*all, &Fanout::told), median(*all, &Fanout::first_ms),
                 median(*all, &Fanout::sent_ms), median(*all, &Fanout::bus_ms),
                 median(*all, &Fanout::acked_ms), median(*all, &Fanout::sent_cpu_ms),
                 median(*all, &Fanout::acked_cpu_ms));
    }
    fmt::print(
        "\nfailure against bare: {:.2f}x until all have acknowledged; told without need: {}\n",
        median(planned, &Fanout::acked_ms) / median(bare, &Fanout::acked_ms), too_many);
  }

  const Options options_;
  const Tier tier_ = TopTierOf(options_.load);
  const std::vector<int> agents_;
  io::AsioEventLoop loop_;
  std::unique_ptr<io::ZmqRouterBus> router_;
  WatchedBus bus_;
  controller::MemoryDisk disk_;
  controller::MemoryStore store_;
  Metrics metrics_;
  controller::Controller controller_;
};

// Agents of one process: each has a few open files, of which a process may have 20,000 or so.
constexpr int kAgentsOfProcess = 4'096;

constexpr double kSecondsOfStarts = 10;

// How long flows that start wait for their port.
void PrintStarts(const Load::Latencies& found) {
  if (found.seconds.empty()) return;
  const auto at = [&](double part) {
    const auto last = static_cast<double>(found.seconds.size() - 1);
    return 1e3 * found.seconds[static_cast<std::size_t>(part * last)];
  };
  fmt::print("{} starts in {:.1f} s: p50 {:.2f} ms, p99 {:.2f} ms until the port is there\n",
             found.seconds.size(), found.elapsed, at(0.5), at(0.99));
  std::fflush(stdout);
}

// Starts a process with these agents.
pid_t StartAgents(const LoadOptions& options, double starts, int from_bench) {
  const pid_t pid = fork();
  ESPALIER_CHECK(pid >= 0, "errno={}", errno);
  if (pid > 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::string endpoint;
  for (char c = 0; read(from_bench, &c, 1) == 1 && c != '\n';) endpoint.push_back(c);
  Load load(options, endpoint);
  load.Connect();
  if (starts > 0) PrintStarts(load.RequestReply(starts, kSecondsOfStarts));
  load.Serve(from_bench);
  _exit(0);
}

int Main(int argc, char** argv) {
  CLI::App app(
      "Measure how fast agents learn of a failure, over ZeroMQ on the loopback interface.");
  Options options;
  app.add_option("--agents", options.load.agents, "Agents")->check(CLI::Range(1, 8192));
  app.add_option("--flows", options.load.flows, "Flows of each agent")->check(CLI::Range(1, 64));
  app.add_option("--spines", options.load.spines, "Spines, of which one fails at a time")
      ->check(CLI::Range(2, 64));
  app.add_option("--fat-tree", options.load.fat_tree,
                 "A fat-tree of switches with so many ports instead, of which a core fails")
      ->check(CLI::IsMember({8, 16, 32}));
  app.add_option("--rounds", options.rounds, "Number of rounds; medians are shown")
      ->check(CLI::Range(1, 100));
  app.add_option("--starts", options.starts,
                 "Flows that start in a second, for ten seconds at the beginning (default: none)")
      ->check(CLI::PositiveNumber);
  app.add_option("--rest-limit", options.rest_limit,
                 "Wait no longer than so many seconds for ports and plans (default: for ever)")
      ->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  const int k = options.load.fat_tree;
  if (k > 0 && options.load.agents > k * k * k / 4) {
    fmt::print(stderr, "failure_fanout_bench: a fat-tree of {} has {} hosts\n", k, k * k * k / 4);
    return 2;
  }
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  SetLogLevel(LogLevel::kError);
  std::vector<int> pipes;
  std::vector<pid_t> agents;  // started before this process has other threads
  for (int first = 0; first < options.load.agents; first += kAgentsOfProcess) {
    std::array<int, 2> to_agents{};
    ESPALIER_CHECK(pipe(to_agents.data()) == 0, "errno={}", errno);
    LoadOptions load = options.load;
    load.first = first;
    load.end = std::min(first + kAgentsOfProcess, options.load.agents);
    const double part = static_cast<double>(load.end - load.first) / options.load.agents;
    agents.push_back(StartAgents(load, part * options.starts, to_agents[0]));
    pipes.push_back(to_agents[1]);
  }
  {
    Bench bench(options, pipes);
    bench.Run();
    for (const pid_t pid : agents) {
      kill(pid, SIGKILL);  // otherwise they would report that the controller is gone
      waitpid(pid, nullptr, 0);
    }
  }
  return 0;
}

}  // namespace
}  // namespace espalier::bench

int main(int argc, char** argv) { return espalier::bench::Main(argc, argv); }
