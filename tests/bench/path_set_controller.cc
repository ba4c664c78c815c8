// The controller's side of path_set_bench.
#include <malloc.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "agent/sim/sim_host.h"
#include "common/base/check.h"
#include "common/sim/sim_world.h"
#include "controller/controller.h"
#include "controller/store/memory_store.h"
#include "proto/decode.h"
#include "proto/encode.h"
#include "tests/bench/control_loop_fabric.h"
#include "tests/bench/path_set_sides.h"
#include "tests/bench/probe_answers.h"

namespace espalier::bench {
namespace {

using namespace std::chrono_literals;

// A controller, and hosts that answer its probes and acknowledge its pushes. Only the controller's
// time is counted.
class ControllerSide : private Bus {
 public:
  ControllerSide(const PathSetOptions& options, const PathSetCase& with)
      : options_(options),
        with_(with),
        fabric_(std::move(
            sim::SimFabric::Build(*host_loop_, MakeBenchTopology(options.hosts, options.spines))
                .value())) {
    controller_ = std::make_unique<controller::Controller>(
        MakeBenchTopology(options.hosts, options.spines), controller::ControllerOptions{}, *loop_,
        static_cast<Bus&>(*this), store_, metrics_);
    const auto started = controller_->Start();
    ESPALIER_CHECK(started.has_value(), "{}", started.error().message);
  }
  // Opens the flows.
  void MeasureOpening(PathSetFigures& figures);
  void MeasureReports(PathSetFigures& figures);

 private:
  void SetHandlers(Handlers handlers) override { handlers_ = std::move(handlers); }
  bool Send(PeerId to, std::string bytes) override {
    in_flight_.emplace_back(to.value() - 1, std::move(bytes));
    return true;
  }
  void Disconnect(PeerId) override { ESPALIER_CHECK(false, "the controller hung up"); }

  IpAddress AddressOf(int host) const {
    const auto node = fabric_->topology().FindNode("h" + std::to_string(host));
    return fabric_->topology().node(*node).addresses.front();
  }
  // Returns the size of the message.
  std::size_t Deliver(std::uint64_t host, wire::Body body);
  void DeliverFromAll(const std::function<wire::Body(int host)>& make);
  // Runs until nothing is due and no message is under way.
  void RunFor(Duration span);
  void Answer(std::uint64_t host, const wire::ProbeOrder& order);
  void HandleAtHost(std::uint64_t host, const wire::Message& message, std::size_t bytes);
  wire::FlowReport Opening(int host) const;
  bool AreComplete() const;
  double FlowCount() const { return static_cast<double>(options_.hosts * options_.flows); }
  double MicrosecondsSince(double cpu) const { return 1e6 * (cpu_ - cpu) / FlowCount(); }

  const PathSetOptions options_;
  const PathSetCase with_;
  sim::SimWorld world_{1};
  sim::SimWorld host_world_{1};
  std::unique_ptr<EventLoop> loop_ = world_.MakeLoop();
  std::unique_ptr<EventLoop> host_loop_ = host_world_.MakeLoop();
  std::unique_ptr<sim::SimFabric> fabric_;
  controller::MemoryDisk disk_;
  controller::MemoryStore store_{disk_, *loop_};
  Metrics metrics_;
  Handlers handlers_;
  std::unique_ptr<controller::Controller> controller_;
  std::vector<std::pair<std::uint64_t, std::string>> in_flight_;  // to hosts
  wire::Decoder decoder_;
  double cpu_ = 0;  // seconds, of the controller
  double push_bytes_ = 0;
  std::map<std::pair<std::uint64_t, wire::LocalFlowId>, std::vector<wire::FlowPath>> held_;
};

std::size_t ControllerSide::Deliver(std::uint64_t host, wire::Body body) {
  const std::string bytes = wire::Encode({host + 1'000, std::move(body)});
  const double start = ThreadCpuSeconds();
  handlers_.on_message(PeerId(host + 1), bytes);
  cpu_ += ThreadCpuSeconds() - start;
  return bytes.size();
}

void ControllerSide::RunFor(Duration span) {
  constexpr Duration kStep = 10ms;
  for (Duration done{}; done < span; done += kStep) {
    const double start = ThreadCpuSeconds();
    world_.RunFor(kStep);
    cpu_ += ThreadCpuSeconds() - start;
    while (!in_flight_.empty()) {
      for (const auto& [host, bytes] : std::exchange(in_flight_, {})) {
        const wire::Message message = **decoder_.Decode(bytes);
        HandleAtHost(host, message, bytes.size());
      }
      const double again = ThreadCpuSeconds();
      world_.RunFor(1us);
      cpu_ += ThreadCpuSeconds() - again;
    }
  }
}

void ControllerSide::HandleAtHost(std::uint64_t host, const wire::Message& message,
                                  std::size_t bytes) {
  if (const auto* order = std::get_if<wire::ProbeOrder>(&message.body)) Answer(host, *order);
  if (std::holds_alternative<wire::Heartbeat>(message.body)) Deliver(host, wire::Heartbeat{});
  const auto* push = std::get_if<wire::PathPush>(&message.body);
  if (push == nullptr) return;
  push_bytes_ += static_cast<double>(bytes);
  for (const wire::PathSet& set : push->sets) held_[{host, set.flow}] = set.paths;
  Deliver(host, wire::Ack{.epoch = push->epoch, .generation = push->generation});
}

void ControllerSide::Answer(std::uint64_t host, const wire::ProbeOrder& order) {
  Deliver(host, bench::AnswerOrder(*fabric_, order));
}

wire::FlowReport ControllerSide::Opening(int host) const {
  wire::FlowReport report{.sequence = 2, .jobs = {"train"}, .addresses = {AddressOf(host)}};
  for (int i = 0; i < options_.flows; ++i) {
    report.addresses.push_back(AddressOf(RemoteHost(host, i, options_.hosts)));
    report.opened.push_back({.id = wire::LocalFlowId(static_cast<std::uint64_t>(i) + 1),
                             .destination = static_cast<std::uint32_t>(i) + 1,
                             .max_paths = static_cast<std::uint8_t>(with_.paths),
                             .age_us = 1'000,
                             .source_port = 0xC000});
    report.progress.push_back({.id = report.opened.back().id, .remaining_bytes = 1 << 30});
  }
  return report;
}

bool ControllerSide::AreComplete() const {
  const auto wanted = static_cast<std::size_t>((with_.has_standbys ? 2 : 1) * with_.paths);
  std::size_t complete = 0;
  for (const auto& [flow, paths] : held_) complete += paths.size() >= wanted ? 1 : 0;
  return complete >= static_cast<std::size_t>(FlowCount());
}

void ControllerSide::DeliverFromAll(const std::function<wire::Body(int host)>& make) {
  for (int host = 0; host < options_.hosts; ++host) {
    Deliver(static_cast<std::uint64_t>(host), make(host));
  }
}

void ControllerSide::MeasureOpening(PathSetFigures& figures) {
  DeliverFromAll([&](int host) {
    wire::Hello hello{.name = "h" + std::to_string(host)};
    if (with_.has_standbys) hello.features.emplace_back("standby");
    if (with_.tells_links) hello.features.emplace_back("path_links");
    hello.nics = {{AddressOf(host), "eth0", true}};
    return hello;
  });
  DeliverFromAll([&](int host) {
    return wire::FlowReport{.full = true, .sequence = 1, .addresses = {AddressOf(host)}};
  });
  RunFor(2s);
  const double before_kib = AllocatedKib();
  double cpu = cpu_;
  double opening_bytes = 0;
  push_bytes_ = 0;
  for (int host = 0; host < options_.hosts; ++host) {
    opening_bytes += static_cast<double>(Deliver(static_cast<std::uint64_t>(host), Opening(host)));
  }
  RunFor(50ms);
  ESPALIER_CHECK(held_.size() == static_cast<std::size_t>(FlowCount()), "routed={}", held_.size());
  figures.opening_bytes = opening_bytes / FlowCount();
  figures.assignment_bytes = push_bytes_ / FlowCount();
  figures.assignment_us = MicrosecondsSince(cpu);
  cpu = cpu_;
  int rounds = 0;
  for (; !AreComplete() && rounds < 600; ++rounds) RunFor(100ms);
  ESPALIER_CHECK(AreComplete(), "some flows have no standby paths after a minute");
  figures.all_push_bytes = push_bytes_ / FlowCount();
  figures.standbys_us = MicrosecondsSince(cpu);
  cpu = cpu_;
  RunFor(1s);
  figures.rest_us = MicrosecondsSince(cpu);
  const double after_kib = AllocatedKib();
  const auto copy = held_;  // as large as what the hosts hold, which is not the controller's
  figures.controller_kib = (2 * after_kib - AllocatedKib() - before_kib) / FlowCount();
}

void ControllerSide::MeasureReports(PathSetFigures& figures) {
  // Several reports, so that what happens besides does not count.
  constexpr int kReports = 20;
  double reports_cpu = cpu_;
  for (int i = 0; i < kReports; ++i) {
    DeliverFromAll([&](int) {
      wire::FlowReport report{.sequence = 3 + static_cast<std::uint64_t>(i)};
      for (int flow = 1; flow <= options_.flows; ++flow) {
        report.progress.push_back({.id = wire::LocalFlowId(static_cast<std::uint64_t>(flow)),
                                   .remaining_bytes = (1 << 30) - static_cast<unsigned>(i),
                                   .outstanding_bytes = 1 << 20});
      }
      return report;
    });
  }
  figures.progress_us = MicrosecondsSince(reports_cpu) / kReports;
  reports_cpu = cpu_;
  for (int i = 0; i < kReports; ++i) {
    DeliverFromAll([&](int host) {
      wire::PathHealth health;
      for (int flow = 1; flow <= options_.flows; ++flow) {
        const wire::LocalFlowId id(static_cast<std::uint64_t>(flow));
        for (const wire::FlowPath& path : held_.at({static_cast<std::uint64_t>(host), id})) {
          if (path.IsStandby()) continue;
          health.flows.push_back({.flow = id,
                                  .path_id = path.path_id,
                                  .source_port = path.source_port,
                                  .achieved_bps = 10'000'000'000});
        }
      }
      return health;
    });
  }
  figures.health_us = MicrosecondsSince(reports_cpu) / kReports;
}

}  // namespace

double AllocatedKib() { return static_cast<double>(mallinfo2().uordblks) / 1024; }

void MeasureController(const PathSetOptions& options, const PathSetCase& with,
                       PathSetFigures& figures) {
  ControllerSide side(options, with);
  side.MeasureOpening(figures);
  side.MeasureReports(figures);
}

}  // namespace espalier::bench
