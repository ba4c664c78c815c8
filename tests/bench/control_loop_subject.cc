#include "tests/bench/control_loop_subject.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/metrics.h"
#include "common/bus/zmq_router_bus.h"
#include "common/loop/asio_event_loop.h"
#include "common/loop/background.h"
#include "controller/controller.h"
#include "controller/store/memory_store.h"
#include "proto/decode.h"
#include "proto/encode.h"
#include "tests/bench/control_loop_fabric.h"

namespace espalier::bench {
namespace {

constexpr const char* kAnyEndpoint = "tcp://127.0.0.1:*";

constexpr std::string_view kCurveSuffix = "+curve";
constexpr int kSpinesChanged = 1;  // of 16: a sixteenth of the flows lose their planned paths
constexpr std::string_view kEndOfMetrics = "# end\n";

void Announce(const std::string& endpoint, const std::string& public_key = "") {
  fmt::print("{}\n{}\n", endpoint, public_key);
  std::fflush(stdout);
}

// Names the agents "h0", "h1", ... by the public keys on standard input, one per line.
io::ZmqRouterOptions RouterOptions(bool with_keys, const io::CurveKeys& keys) {
  io::ZmqRouterOptions options{.endpoint = kAnyEndpoint};
  if (!with_keys) return options;
  std::unordered_map<std::string, std::string> names;
  for (std::string key; std::getline(std::cin, key);) {
    const std::string name = fmt::format("h{}", names.size());
    names.emplace(key, name);
  }
  options.curve = io::CurveServer{
      keys.secret_key,
      [names = std::move(names)](std::string_view key) -> std::optional<std::string> {
        const auto found = names.find(std::string(key));
        return found == names.end() ? std::nullopt : std::optional(found->second);
      }};
  return options;
}

// Answers like a controller that computes nothing.
class Echo {
 public:
  // None if the message needs no answer.
  std::optional<std::string> Answer(std::string_view bytes) {
    const Result<const wire::Message*> decoded = decoder_.Decode(bytes);
    ESPALIER_CHECK(decoded, "error={}", decoded.error().message);
    if (std::holds_alternative<wire::Hello>((*decoded)->body)) {
      return wire::Encode(
          {1, wire::Welcome{.accepted = true, .epoch = 1, .heartbeat_interval_us = 1'000'000}});
    }
    const auto* const report = std::get_if<wire::FlowReport>(&(*decoded)->body);
    if (report == nullptr || report->opened.empty()) return std::nullopt;
    wire::PathPush push{.epoch = 1, .generation = ++generation_};
    for (const wire::OpenedFlow& flow : report->opened) {
      push.sets.push_back({.flow = flow.id, .paths = {{.source_port = 0xC000}}});
    }
    return wire::Encode({1, std::move(push)});
  }

 private:
  wire::Decoder decoder_;
  std::uint64_t generation_ = 0;
};

void ServeBare() {
  void* const context = zmq_ctx_new();
  void* const router = zmq_socket(context, ZMQ_ROUTER);
  const int backlog = 4096;
  zmq_setsockopt(router, ZMQ_BACKLOG, &backlog, sizeof backlog);
  ESPALIER_CHECK(zmq_bind(router, kAnyEndpoint) == 0, "errno={}", errno);
  std::array<char, 256> endpoint{};
  std::size_t size = endpoint.size();
  zmq_getsockopt(router, ZMQ_LAST_ENDPOINT, endpoint.data(), &size);
  Announce(endpoint.data());

  Echo echo;
  zmq_msg_t id;
  zmq_msg_t payload;
  zmq_msg_init(&id);
  zmq_msg_init(&payload);
  for (;;) {
    zmq_pollitem_t item{router, 0, ZMQ_POLLIN, 0};
    zmq_poll(&item, 1, -1);
    while (zmq_msg_recv(&id, router, ZMQ_DONTWAIT) >= 0) {
      zmq_msg_recv(&payload, router, 0);
      const auto answer =
          echo.Answer({static_cast<const char*>(zmq_msg_data(&payload)), zmq_msg_size(&payload)});
      if (!answer) continue;
      zmq_msg_send(&id, router, ZMQ_SNDMORE);
      zmq_send(router, answer->data(), answer->size(), ZMQ_DONTWAIT);
    }
  }
}

void ServeBus(bool with_keys) {
  io::AsioEventLoop loop;
  const io::CurveKeys keys = io::MakeCurveKeys();
  const auto bus = io::ZmqRouterBus::Bind(loop, RouterOptions(with_keys, keys)).value();
  Echo echo;
  bus->SetHandlers({.on_message =
                        [&](PeerId from, std::string_view bytes) {
                          if (auto answer = echo.Answer(bytes)) bus->Send(from, std::move(*answer));
                        },
                    .on_peer_gone = {}});
  Announce(bus->endpoint(), keys.public_key);
  loop.Run();
}

void ServeController(int agents, bool with_keys) {
  SetLogLevel(LogLevel::kWarning);
  io::AsioEventLoop loop;
  const io::CurveKeys keys = io::MakeCurveKeys();
  const auto bus = io::ZmqRouterBus::Bind(loop, RouterOptions(with_keys, keys)).value();
  controller::MemoryDisk disk;
  controller::MemoryStore store(disk, loop);
  Metrics metrics;
  io::Background background(loop, io::Background::Priority::kLow);
  // Long, so that agents do not seem dead on a busy machine.
  // Ports are not verified: their steady probes would keep the loop from ever being quiet.
  const controller::ControllerOptions options{
      .heartbeat = {.interval = std::chrono::seconds(10)},
      .verification = {.interval = Duration::zero()},
      .background = [&](std::function<void()> work, std::function<void()> done) {
        background.Run(std::move(work), std::move(done));
      }};
  controller::Controller controller(MakeBenchTopology(agents), options, loop, *bus, store, metrics);
  const Result<void> started = controller.Start();
  ESPALIER_CHECK(started, "error={}", started.error().message);
  bool is_drained = false;
  const TimerPtr watch = loop.WatchSignals(std::array{SIGUSR1, SIGUSR2}, [&](int signal) {
    if (signal == SIGUSR2) {
      is_drained = !is_drained;
      for (int spine = 0; spine < kSpinesChanged; ++spine) {
        controller.actions().ChangeNode(
            fmt::format("spine{}", spine),
            is_drained ? controller::IntentAction::kDrain : controller::IntentAction::kUndrain, {},
            [](const auto&) {});
      }
      return;
    }
    fmt::print("{}{}", metrics.Text(), kEndOfMetrics);
    std::fflush(stdout);
  });
  Announce(bus->endpoint(), keys.public_key);
  loop.Run();
}

double SecondsOnCpu(const std::filesystem::path& task) {
  std::uint64_t nanoseconds = 0;
  std::ifstream(task / "schedstat") >> nanoseconds;
  return static_cast<double>(nanoseconds) * 1e-9;
}

}  // namespace

bool ServeSubject(const std::string& subject, int agents) {
  const bool with_keys = subject.ends_with(kCurveSuffix);
  const std::string name =
      with_keys ? subject.substr(0, subject.size() - kCurveSuffix.size()) : subject;
  if (name == "bare") {
    ServeBare();
  } else if (name == "bus") {
    ServeBus(with_keys);
  } else if (name == "controller") {
    ServeController(agents, with_keys);
  } else {
    return false;
  }
  return true;
}

SubjectProcess::SubjectProcess(const std::string& name, int agents) {
  std::array<int, 2> in{};
  std::array<int, 2> out{};
  ESPALIER_CHECK(pipe(in.data()) == 0 && pipe(out.data()) == 0, "errno={}", errno);
  if (name.ends_with(kCurveSuffix)) {
    for (int i = 0; i < agents; ++i) agent_keys_.push_back(io::MakeCurveKeys());
  }
  const std::string count = std::to_string(agents);
  pid_ = fork();
  ESPALIER_CHECK(pid_ >= 0, "errno={}", errno);
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(in[0], STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    close(in[1]);
    execl("/proc/self/exe", "control_loop_bench", "--serve", name.c_str(), "--agents",
          count.c_str(), static_cast<char*>(nullptr));
    _exit(1);
  }
  close(in[0]);
  close(out[1]);
  std::string keys;
  for (const io::CurveKeys& agent : agent_keys_) keys += agent.public_key + "\n";
  for (std::size_t sent = 0; sent < keys.size();) {
    const ssize_t written = write(in[1], keys.data() + sent, keys.size() - sent);
    ESPALIER_CHECK(written > 0, "errno={}", errno);
    sent += static_cast<std::size_t>(written);
  }
  close(in[1]);
  for (std::string* line : {&endpoint_, &public_key_}) {
    for (char c = 0; read(out[0], &c, 1) == 1 && c != '\n';) line->push_back(c);
  }
  output_ = out[0];
  ESPALIER_CHECK(!endpoint_.empty(), "subject={}", name);
}

SubjectProcess::~SubjectProcess() {
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  close(output_);
}

void SubjectProcess::ChangeSpines() const { kill(pid_, SIGUSR2); }

std::string SubjectProcess::Metrics() const {
  kill(pid_, SIGUSR1);
  std::string text;
  std::array<char, 4096> bytes{};
  while (!text.ends_with(kEndOfMetrics)) {
    const ssize_t count = read(output_, bytes.data(), bytes.size());
    ESPALIER_CHECK(count > 0, "errno={}", errno);
    text.append(bytes.data(), static_cast<std::size_t>(count));
  }
  return text;
}

std::optional<io::CurveClient> SubjectProcess::KeysOf(int agent) const {
  if (agent_keys_.empty()) return std::nullopt;
  return io::CurveClient{agent_keys_[static_cast<std::size_t>(agent)], {public_key_}};
}

SubjectProcess::Usage SubjectProcess::Measure() const {
  const std::filesystem::path process = fmt::format("/proc/{}", pid_);
  Usage usage;
  for (const auto& task : std::filesystem::directory_iterator(process / "task")) {
    usage.cpu_seconds += SecondsOnCpu(task.path());
  }
  usage.loop_seconds = SecondsOnCpu(process / "task" / std::to_string(pid_));
  std::uint64_t total_pages = 0;
  std::uint64_t resident_pages = 0;
  std::ifstream(process / "statm") >> total_pages >> resident_pages;
  usage.resident_mib =
      static_cast<double>(resident_pages) * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
  return usage;
}

}  // namespace espalier::bench
