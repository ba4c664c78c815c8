// Jobs on forests under random events. The plans that hosts hold are checked by the messages on the
// wire alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "collective/program/program_bytes.h"
#include "collective/program/verifier/verifier.h"
#include "controller/forests/tree_jobs.h"
#include "tests/controller/cluster.h"
#include "tests/seeds.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

constexpr fabric::LeafSpineOptions kShape{.spines = 4,
                                          .leaves = 4,
                                          .hosts_per_leaf = 2,
                                          .host_rate = BitsPerSecond{800'000'000'000},
                                          .fabric_rate = BitsPerSecond{100'000'000'000}};
constexpr Duration kPortRest = 2min;

// Sees only the plans that hosts hold, not the controller.
class WireChecker {
 public:
  explicit WireChecker(Cluster& cluster) : cluster_(cluster) {}

  using Jobs = std::map<std::string, std::vector<int>>;  // hosts, by rank

  void Look(Duration now, const Jobs& running) {
    for (int i = 0; i < cluster_.hosts(); ++i) {
      std::map<std::uint16_t, std::string> listeners;
      for (const auto& [rank, plan] : cluster_.host(i).plans) {
        LookAt(i, plan, now, running);
        LookAtListener(rank, plan, listeners);
      }
    }
  }
  // Checks, when no message is in flight, that all ranks of a job hold the same plan and that both
  // ends of each connection agree.
  void LookAtRest(const Jobs& jobs) {
    for (const auto& [job, hosts] : jobs) {
      std::set<std::uint64_t> versions;
      for (std::uint32_t rank = 0; rank < hosts.size(); ++rank) {
        const auto& plans = cluster_.host(hosts[rank]).plans;
        const auto found = plans.find({job, rank});
        ASSERT_NE(found, plans.end()) << job << " rank " << rank;
        versions.insert(found->second.version);
        for (const wire::PeerPorts& peer : found->second.peers) {
          const int other = hosts[peer.rank];
          EXPECT_EQ(peer.address, cluster_.Address(other));
          EXPECT_EQ(peer.destination_port,
                    cluster_.host(other).plans.at({job, peer.rank}).listen_port);
        }
      }
      EXPECT_EQ(versions.size(), 1U) << job << " has ranks in different plans";
    }
    for (int i = 0; i < cluster_.hosts(); ++i) {
      for (const auto& [rank, plan] : cluster_.host(i).plans) {
        EXPECT_TRUE(jobs.contains(rank.first)) << "host " << i << " has a rank of " << rank.first;
      }
    }
  }
  int plans() const { return static_cast<int>(programs_.size()); }

 private:
  using Rank = std::pair<std::string, std::uint32_t>;
  using Version = std::pair<std::string, std::uint64_t>;
  // The fields of a connection that the fabric hashes.
  using Connection = std::tuple<int, IpAddress, std::uint16_t, std::uint16_t>;
  struct Use {
    Version version;
    Duration last{};
  };

  // A program listens at the port of its first plan for as long as it runs, whichever controller
  // makes the plans; no other program on its host can use that port.
  void LookAtListener(const Rank& rank, const wire::RankPlan& plan,
                      std::map<std::uint16_t, std::string>& listeners) {
    const std::uint16_t first = listens_.try_emplace(rank, plan.listen_port).first->second;
    EXPECT_EQ(plan.listen_port, first) << plan.job << " rank " << plan.rank << " is to move";
    const auto [other, is_alone] = listeners.try_emplace(plan.listen_port, plan.job);
    EXPECT_TRUE(is_alone) << plan.job << " listens where " << other->second << " does";
  }
  // The epoch of the controller that made the plan (controller/forests/tree_jobs.cc).
  static std::uint64_t EpochOf(const Version& version) { return version.second >> 24U; }
  void LookAt(int host, const wire::RankPlan& plan, Duration now, const Jobs& running) {
    const Version version(plan.job, plan.version);
    const auto [known, is_new] = programs_.try_emplace(version, plan.program);
    EXPECT_EQ(known->second, plan.program) << plan.job << ": one plan, two programs";
    if (is_new) {
      const auto program = program::DecodeProgram(plan.program);
      ASSERT_TRUE(program.has_value());
      EXPECT_EQ(program->ranks.size(), plan.ranks);
      EXPECT_FALSE(program::Verify(*program, {.fifo_slots = 2}).violation);
    }
    for (const wire::PeerPorts& peer : plan.peers) {
      for (const std::uint16_t port : peer.source_ports) {
        const Connection connection(host, peer.address, peer.destination_port, port);
        Use& use = uses_.try_emplace(connection, Use{version, now}).first->second;
        // A controller does not know the ports that its predecessor gave. A job's own connections
        // have ended when those of its next plan begin; those of other jobs have other
        // destinations.
        const bool is_of_one_controller = EpochOf(use.version) == EpochOf(version);
        const bool is_others = use.version.first != plan.job && running.contains(use.version.first);
        if ((is_of_one_controller && use.version != version) || is_others) {
          EXPECT_GE(now - use.last, kPortRest)
              << plan.job << " has port " << port << " of " << use.version.first << " again";
        }
        use = {version, now};
      }
    }
  }

  Cluster& cluster_;
  std::map<Version, std::string> programs_;
  std::map<Connection, Use> uses_;
  std::map<Rank, std::uint16_t> listens_;
};

class Storm {
 public:
  explicit Storm(std::uint64_t seed) : random_(seed), cluster_(kShape, Options(seed)) {
    cluster_.ConnectAll();
  }

  void Run(int actions, bool with_restarts) {
    for (int i = 0; i < actions; ++i) {
      Act(with_restarts);
      Pass(std::chrono::milliseconds(Draw(1'500)));
      if (testing::Test::HasFailure()) return;
    }
    Calm();
    if (testing::Test::HasFailure()) return;
    checker_.LookAtRest(jobs_);
    cluster_.state().flow_paths.CheckInvariants();
    cluster_.state().edges.CheckInvariants();
    if (testing::Test::HasFailure()) return;
    CheckPaths();
    EXPECT_GT(checker_.plans(), 0);
  }

 private:
  static ControllerOptions Options(std::uint64_t seed) {
    ControllerOptions options;
    options.fabric_hashes_protocol = false;
    options.verification.interval = {};
    options.plan_ahead = seed % 4 == 0;  // forests that are ready for failures take time
    return options;
  }
  int Draw(int below) { return std::uniform_int_distribution(0, below - 1)(random_); }

  void Pass(Duration by) {
    constexpr Duration kStep = 50ms;
    for (Duration done{}; done < by; done += kStep) {
      cluster_.Advance(kStep);
      now_ += kStep;
      checker_.Look(now_, jobs_);
    }
  }
  void Act(bool with_restarts) {
    switch (Draw(with_restarts ? 9 : 8)) {
      case 0:
      case 1:
        return StartJob();
      case 2:
        return StopJob();
      case 3:
      case 4:
        return ChangeLink();
      case 5: {  // an agent that hears nothing for a while
        const int host = Draw(cluster_.hosts());
        cluster_.host(host).peer = PeerId(0);
        Pass(4s);
        return cluster_.Connect(host);
      }
      case 6: {  // an agent that starts again
        const int number = Draw(cluster_.hosts());
        Cluster::Host& host = cluster_.host(number);
        host.peer = PeerId(0);
        Pass(4s);
        host.plans.clear();
        host.new_plans.clear();
        host.epoch = host.generation = 0;
        host.instance += 100;
        host.acknowledges = true;
        return cluster_.Connect(number);
      }
      case 7:
        cluster_.host(Draw(cluster_.hosts())).acknowledges = false;
        Pass(300ms);
        for (int i = 0; i < cluster_.hosts(); ++i) cluster_.host(i).acknowledges = true;
        return static_cast<void>(cluster_.Recompute());
      default:
        cluster_.RestartController();
        cluster_.ConnectAll();
    }
  }
  void StartJob() {
    constexpr std::size_t kMaxJobs = 3;
    if (jobs_.size() >= kMaxJobs) return;
    std::vector<int> hosts;
    for (int i = 0; i < cluster_.hosts(); ++i) hosts.push_back(i);
    std::shuffle(hosts.begin(), hosts.end(), random_);
    hosts.resize(std::size_t{2} + static_cast<std::size_t>(Draw(5)));
    JobSpec spec{.name = "job" + std::to_string(started_++), .ranks = {}};
    for (const int host : hosts) spec.ranks.push_back("h" + std::to_string(host));
    // Refused if an agent is disconnected or the fabric is partitioned.
    if (cluster_.StartJob(spec).has_value()) jobs_[spec.name] = hosts;
  }
  void StopJob() {
    if (jobs_.empty()) return;
    const auto job = std::next(jobs_.begin(), Draw(static_cast<int>(jobs_.size())));
    ASSERT_TRUE(cluster_.StopJob(job->first).has_value());
    jobs_.erase(job);
  }
  void ChangeLink() {
    if (!changed_link_.empty()) {
      const auto back = is_drained_ ? IntentAction::kUndrain : IntentAction::kRestore;
      ASSERT_TRUE(cluster_.ChangeLink(changed_link_, back).has_value());
      changed_link_.clear();
      return;
    }
    changed_link_ = "leaf" + std::to_string(Draw(4)) + "--spine" + std::to_string(Draw(4));
    is_drained_ = Draw(2) == 0;
    const auto away = is_drained_ ? IntentAction::kDrain : IntentAction::kFail;
    ASSERT_TRUE(cluster_.ChangeLink(changed_link_, away).has_value());
  }
  void Calm() {
    for (int i = 0; i < cluster_.hosts(); ++i) cluster_.host(i).acknowledges = true;
    Pass(10s);
    for (const auto& [name, hosts] : jobs_) {
      const auto& all = cluster_.controller().jobs().all();
      const auto job = all.find(name);
      ASSERT_NE(job, all.end()) << name << " is gone";
      EXPECT_EQ(cluster_.controller().jobs().StatusOf(job->second), JobStatus::kReady)
          << name << ": " << job->second.problem;
    }
  }
  // No path or return path of a connection has an unusable link.
  void CheckPaths() {
    if (changed_link_.empty()) return;
    const int leaf = changed_link_[4] - '0';
    const int spine = changed_link_.back() - '0';
    for (const auto& [name, hosts] : jobs_) {
      for (std::uint32_t rank = 0; rank < hosts.size(); ++rank) {
        const int from = hosts[rank];
        const wire::RankPlan& plan = cluster_.host(from).plans.at({name, rank});
        for (const auto& peer : plan.peers) {
          const int to = hosts[peer.rank];
          const bool is_near = from / 2 == leaf || to / 2 == leaf;
          if (!is_near || from / 2 == to / 2) continue;
          for (const std::uint16_t port : peer.source_ports) {
            EXPECT_NE(cluster_.SpineOf(from, to, port), spine);
            if (is_drained_) continue;
            EXPECT_NE(cluster_.SpineBack(to, from, port), spine);
          }
        }
      }
    }
  }

  std::mt19937_64 random_;
  Cluster cluster_;
  WireChecker checker_{cluster_};
  Duration now_{};
  WireChecker::Jobs jobs_;
  int started_ = 0;
  std::string changed_link_;
  bool is_drained_ = false;
};

class TreeStorm : public testing::TestWithParam<std::uint64_t> {};

TEST_P(TreeStorm, RanksOfAJobHoldOnePlanAndNoPortComesBackEarly) {
  Storm(GetParam()).Run(30, /*with_restarts=*/false);
}

TEST_P(TreeStorm, JobsOutliveTheirController) {
  Storm(GetParam() + 1'000).Run(20, /*with_restarts=*/true);
}

INSTANTIATE_TEST_SUITE_P(Seeds, TreeStorm, testing::ValuesIn(SeedsToTry(0, 4)));

}  // namespace
}  // namespace espalier::controller
