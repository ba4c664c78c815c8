// Programs of others that keep their queue pairs and send in bursts, under the whole system: what
// the controller learns of them, and which paths their packets take.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <future>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/files/json.h"
#include "tests/rdma/bursting_programs.h"
#include "tests/rdma/daemons.h"
#include "tests/rdma/rdma_machine.h"
#include "tests/rdma/wire_pauses.h"

namespace espalier {
namespace {

using rdma::BurstingProgram;
using rdma::Daemons;

// A source, a destination, a source port, and the spine that it was chosen for or seen at.
using Way = std::tuple<std::string, std::string, std::uint16_t, std::string>;

double NumberIn(const io::JsonValue& value, const char* key) {
  const io::JsonValue* found = value.Find(key);
  return found == nullptr ? 0 : std::stod(found->text);
}

// What the controller knows of a job at one moment.
struct Known {
  std::size_t flows = 0;
  std::size_t steered = 0;  // flows that have a port for each queue pair, on different paths
  std::set<Way> ways;
  double bursts = 0;
  double ready = 0;  // bursts whose ports were right before their first byte
  double start_error_p90 = 0;
  double period = 0;
  double uncertainty = 0;
  double planned = 0;  // flows with a path for all phases
};

void ReadFlows(const BurstingProgram& program, Known& known) {
  const auto answer = io::ParseJson(Daemons::Get("/api/v1/flows"), "the flows");
  if (!answer) return;
  for (const io::JsonValue& flow : answer->Find("flows")->items) {
    // The other ends only answer.
    if (flow.Find("job")->text != program.job || flow.Find("answering")->boolean) continue;
    ++known.flows;
    std::set<std::string> spines;
    std::size_t ports = 0;
    for (const io::JsonValue& path : flow.Find("paths")->items) {
      const auto port = static_cast<std::uint16_t>(std::stoi(path.Find("source_port")->text));
      const std::string spine = path.Find("via")->text;
      if (port == 0 || spine.empty()) continue;
      ++ports;
      spines.insert(spine);
      known.ways.emplace(flow.Find("source_address")->text, flow.Find("destination_address")->text,
                         port, spine);
    }
    if (ports == program.queue_pairs && spines.size() == ports) ++known.steered;
  }
}

Known Ask(const BurstingProgram& program) {
  Known known;
  ReadFlows(program, known);
  if (const auto answer = io::ParseJson(Daemons::Get("/api/v1/predict"), "the predictions")) {
    for (const io::JsonValue& job : answer->Find("predict")->items) {
      if (job.Find("job")->text != program.job) continue;
      known.bursts = NumberIn(job, "bursts");
      known.ready = NumberIn(job, "bursts_ready");
      known.start_error_p90 = NumberIn(job, "start_error_p90");
      known.period = NumberIn(job, "period_seconds");
      known.uncertainty = NumberIn(job, "uncertainty_seconds");
    }
  }
  const std::string metrics = Daemons::Get("/metrics");
  const std::string name = "\nespalier_phase_plan_flows ";
  const auto at = metrics.find(name);
  if (at != std::string::npos) known.planned = std::atof(metrics.c_str() + at + name.size());
  return known;
}

// Counts packets of messages at the spines that do not take a way which was chosen lately.
class Ways {
 public:
  explicit Ways(const BurstingProgram& program) {
    for (int spine = 0; spine < rdma::kSpines; ++spine) {
      for (int leaf = 0; leaf < 2; ++leaf) {
        captures_.emplace_back(
            spine, rdma::Capture(fmt::format("spine{}", spine), fmt::format("l{}", leaf)));
      }
    }
    for (const auto& [from, to] : program.flows) {
      pairs_.emplace(rdma::AddressOfHost(from, false).ToString(),
                     rdma::AddressOfHost(to, false).ToString());
    }
  }

  // Takes what has passed since the last call; `counts`: it is to be counted.
  void Look(const std::set<Way>& ways, bool counts) {
    // A queue pair takes a new port at one of its next messages.
    constexpr std::size_t kLooksKept = 6;
    latest_.push_back(ways);
    if (latest_.size() > kLooksKept) latest_.pop_front();
    for (auto& [spine, capture] : captures_) {
      for (const rdma::Packet& packet : capture.Take()) {
        const Way way{packet.source.ToString(), packet.destination.ToString(), packet.source_port,
                      fmt::format("spine{}", spine)};
        if (!counts || !packet.IsMessage() ||
            !pairs_.contains({std::get<0>(way), std::get<1>(way)}))
          continue;
        ++packets;
        const bool is_chosen = std::ranges::any_of(
            latest_, [&](const std::set<Way>& chosen) { return chosen.contains(way); });
        if (!is_chosen) ++strays[way];
      }
    }
    for (const auto& each : latest_) used.insert(each.begin(), each.end());
  }

  std::size_t packets = 0;  // each is seen twice, on both links of a spine
  std::map<Way, std::size_t> strays;
  std::set<Way> used;

 private:
  std::vector<std::pair<int, rdma::Capture>> captures_;
  std::set<std::pair<std::string, std::string>> pairs_;
  std::deque<std::set<Way>> latest_;
};

struct Outcome {
  std::optional<double> periods_until_learned;
  double bursts = 0;  // from then on, or all
  double ready = 0;
  double start_error_p90 = 0;
  double period = 0;
  double uncertainty = 0;
  std::size_t most_flows = 0;
  std::size_t most_steered = 0;
  double most_planned = 0;
  std::size_t packets = 0;
  std::size_t strays = 0;
};

// Runs the program to its end.
Outcome Learn(const BurstingProgram& program) {
  Ways ways(program);
  auto running = std::async(std::launch::async, [&] { return rdma::Shell(program.command); });
  Outcome outcome;
  std::optional<TimePoint> opened;
  std::optional<TimePoint> learned;
  TimePoint ended{};
  Known at_learning;
  Known last;
  while (running.wait_for(std::chrono::milliseconds(100)) != std::future_status::ready) {
    const Known known = Ask(program);
    const TimePoint now = rdma::Now();
    if (known.bursts > 0 && !opened) opened = now;
    if (opened && !learned && known.planned >= static_cast<double>(program.flows.size())) {
      learned = now;
      at_learning = known;
    }
    // The ends of programs are no bursts.
    if (known.flows == program.flows.size()) {
      last = known;
      ended = now;
    }
    outcome.most_flows = std::max(outcome.most_flows, known.flows);
    outcome.most_planned = std::max(outcome.most_planned, known.planned);
    outcome.most_steered = std::max(outcome.most_steered, known.steered);
    ways.Look(known.ways, learned && known.flows == program.flows.size());
  }
  const std::string output = running.get();
  outcome.period = last.period;
  outcome.uncertainty = last.uncertainty;
  outcome.bursts = last.bursts - at_learning.bursts;
  outcome.ready = last.ready - at_learning.ready;
  outcome.start_error_p90 = last.start_error_p90;
  if (learned) {
    const double period = SecondsOf(ended - *opened) / program.bursts;
    outcome.periods_until_learned = SecondsOf(*learned - *opened) / period;
  }
  outcome.packets = ways.packets;
  for (const auto& [way, packets] : ways.strays) {
    outcome.strays += packets;
    fmt::print("{} packets from {} to {}, port {}, over {} were on no chosen way\n", packets,
               std::get<0>(way), std::get<1>(way), std::get<2>(way), std::get<3>(way));
  }
  // The acceptance test reads this line.
  fmt::print(
      "learning {{\"program\": \"{}\", \"flows\": {}, \"steered\": {}, \"queue_pairs\": {}, "
      "\"period_seconds\": {:.3f}, \"uncertainty_seconds\": {:.3f}, \"periods_until_learned\": "
      "{:.1f}, \"bursts\": {}, \"ready\": {}, \"start_error_p90\": {:.3f}, \"ways\": {}, "
      "\"packets\": {}, \"strays\": {}}}\n",
      program.job, outcome.most_flows, outcome.most_steered, program.queue_pairs, outcome.period,
      outcome.uncertainty, outcome.periods_until_learned.value_or(-1), outcome.bursts,
      outcome.ready, outcome.start_error_p90, ways.used.size(), outcome.packets, outcome.strays);
  if (!outcome.periods_until_learned) {
    fmt::print("{} flows were planned, {} bursts of which {} were ready\n{}\n{}\n",
               outcome.most_planned, last.bursts, last.ready, output,
               Daemons::Get("/api/v1/predict"));
  }
  return outcome;
}

// Generous, as the emulated machine runs as unevenly as the one on which it runs.
void ExpectPredicted(const BurstingProgram& program, const Outcome& outcome) {
  EXPECT_GE(outcome.most_flows, program.flows.size());
  EXPECT_GE(outcome.most_steered, program.flows.size());
  EXPECT_GT(outcome.bursts, 0);
  EXPECT_GE(outcome.ready, 0.8 * outcome.bursts);
  EXPECT_LE(outcome.start_error_p90, 0.2);
  EXPECT_LE(outcome.strays, outcome.packets / 10);
}

// The emulated machine often does nothing for some ten milliseconds in the middle of a burst, and a
// step of LAMMPS takes some hundred.
std::string Agent(int idle_after_ms) {
  return fmt::format("elephant_bytes: 65536\nidle_after_ms: {}\n", idle_after_ms);
}

// Its pauses are timers, so it repeats however busy the machine is.
TEST(RdmaBurstLearning, LongLearnsThePhasesOfFio) {
  const BurstingProgram program = rdma::FioBursts(rdma::SocketOf, 30);
  if (!program.can_run) GTEST_SKIP() << "fio is not installed (deploy/setup installs it)";
  const Daemons daemons("", Agent(100));
  const Outcome outcome = Learn(program);
  ExpectPredicted(program, outcome);
  EXPECT_TRUE(outcome.periods_until_learned);
  EXPECT_GT(outcome.packets, 0U);
}

// Whether its phases are learned depends on how evenly the emulated machine computes.
TEST(RdmaBurstLearning, LongPredictsTheStartsOfAnMpiProgram) {
  const BurstingProgram program = rdma::MpiBursts(rdma::SocketOf, 24);
  if (!program.can_run) GTEST_SKIP() << "LAMMPS is not installed (deploy/setup installs it)";
  const Daemons daemons("", Agent(400));
  ExpectPredicted(program, Learn(program));
}

}  // namespace
}  // namespace espalier
