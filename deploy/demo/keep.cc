#include "deploy/demo/keep.h"

#include <fmt/format.h>
#include <signal.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "deploy/demo/main_job.h"
#include "deploy/demo/page_proxy.h"
#include "deploy/lab/run_traffic.h"

namespace espalier::demo {
namespace {

constexpr std::chrono::minutes kLimit{2};
constexpr std::size_t kUnixLength = std::string_view("unix:").size();

void TellHowToLook(const lab::Lab& lab, const LabDaemons& daemons, const std::string& folder) {
  const Result<std::string> page = StartPageProxy(daemons.api_address().substr(kUnixLength));
  fmt::print(
      stderr,
      "\nTwo jobs run until Ctrl-C, which ends everything that was started. To watch them:\n"
      "  the page: {}\n"
      "  export ESPALIER_CONTROLLER={}\n"
      "  build/release/bin/espalier status     # or flows, jobs, nodes, links, plans, events, top\n"
      "  build/release/bin/espalier lab counters --name {}\n"
      "logs: {}/*.log\n",
      page ? *page + "/" : fmt::format("none ({})", page.error().message), daemons.api_address(),
      lab.record().options.name, folder);
}

// Blocks the signals that end the process and reports whether one has arrived. Programs that are
// started later inherit this.
class EndSignals {
 public:
  EndSignals() {
    sigemptyset(&signals_);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals_, signal);
    sigprocmask(SIG_BLOCK, &signals_, nullptr);
  }
  bool HaveCome() {
    constexpr timespec kNow{};
    has_come_ = has_come_ || sigtimedwait(&signals_, nullptr, &kNow) > 0;
    return has_come_;
  }

 private:
  sigset_t signals_{};
  bool has_come_ = false;
};

}  // namespace

Result<void> KeepRunning(const lab::Lab& lab, LabDaemons& daemons, const std::string& folder) {
  auto round = MakePermutation(lab.layout());
  if (!round) return Propagate(round);
  bool is_first = false;
  for (traffic::SingleFlow& flow : round->workload.flows) {
    is_first = !is_first;
    flow.job = is_first ? "A" : "B";
  }
  EndSignals signals;
  TellHowToLook(lab, daemons, folder);
  lab::TrafficOptions options;
  options.use_agents = true;
  options.time_limit = kLimit;
  options.needs_agents = false;
  options.is_over = [&] { return signals.HaveCome(); };
  Result<void> looked_after;
  options.on_running = [&](std::chrono::nanoseconds) {
    auto news = daemons.LookAfterHosts();
    if (!news) looked_after = Propagate(news);
    for (const std::string& text : news.value_or(std::vector<std::string>())) {
      fmt::print(stderr, "{}\n", text);
    }
  };
  while (!signals.HaveCome()) {
    auto ran = lab::RunTraffic(lab, round->workload, options);
    if (!ran) return Propagate(ran);
    if (!looked_after) return looked_after;
  }
  fmt::print(stderr, "\nended\n");
  return {};
}

}  // namespace espalier::demo
