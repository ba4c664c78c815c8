// The whole system: unmodified programs, the shim, an agent for each host, the controller and the
// fabric.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <iostream>
#include <memory>
#include <regex>
#include <set>
#include <string>

#include "tests/rdma/bursting_programs.h"
#include "tests/rdma/daemons.h"
#include "tests/rdma/rdma_machine.h"
#include "tests/rdma/spines.h"

namespace espalier {
namespace {

using rdma::Await;
using rdma::Daemons;
using rdma::Process;
using rdma::SocketOf;
using rdma::Spines;
using ::testing::ContainsRegex;

// Runs ib_write_bw from one host to another without end, with few and short writes, as soft RoCE
// fails with many. Its bytes are announced, so that its port is chosen before it begins, or they
// are not.
class Stream {
 public:
  Stream(int from, int to, int announced_bytes)
      : port_(18610 + from), announced_bytes_(announced_bytes) {
    server_ = Start(to, "");
    rdma::Shell(fmt::format("until ss -Hltn sport = :{} | grep -q .; do sleep 0.1; done", port_));
    client_ = Start(from, "127.0.0.1");
  }
  bool Lives() { return client_->Lives(); }

 private:
  std::unique_ptr<Process> Start(int host, const std::string& server) const {
    const auto address = rdma::RoceAddressOf(host, false);
    return std::make_unique<Process>(
        fmt::format("stream{}", host),
        fmt::format("LD_PRELOAD={} ESPALIER_AGENT_SOCKET={} ESPALIER_VERBS_ANNOUNCE_BYTES={} "
                    "ESPALIER_VERBS_WAIT_MS=60000 ib_write_bw -d {} -x {} -F -t 4 -s 8192 "
                    "--run_infinitely -D 2 -p {} {}",
                    ESPALIER_VERBS_SHIM, SocketOf(host), announced_bytes_, address.device,
                    address.gid_index, port_, server));
  }

  int port_;
  int announced_bytes_;
  std::unique_ptr<Process> server_;
  std::unique_ptr<Process> client_;
};

constexpr int kEnough = 200;
constexpr int kElephant = 1 << 20;

void AwaitPackets(Spines& spines, const std::string& what) {
  spines.Clear();
  Await(what, [&] {
    spines.Look();
    return spines.PacketsOf(0) >= kEnough && spines.PacketsOf(1) >= kEnough;
  });
}

// True if the controller's path and port of each host's flow agree with the spines' captures.
bool AreFlowsAsSeen(Spines& spines) {
  const std::string flows = Daemons::Operator("flows");
  for (int host = 0; host < rdma::kHostsPerLeaf; ++host) {
    const int spine = spines.OnlySpineOf(host);
    if (spine < 0 || spines.at(spine, host).ports.size() != 1) return false;
    const auto as_seen = ContainsRegex(fmt::format("h{} +h{} +ROUTED +spine{} +{} ", host, host + 2,
                                                   spine, *spines.at(spine, host).ports.begin()));
    if (!::testing::Matches(as_seen)(flows)) return false;
  }
  return spines.OnlySpineOf(0) != spines.OnlySpineOf(1);
}

// Waits for agreement, as a queue pair takes its new port at one of its next messages.
void ExpectFlowsAsSeen(Spines& spines) {
  Await("the spines see what the controller says", [&] {
    AwaitPackets(spines, "both write");
    return AreFlowsAsSeen(spines);
  });
}

// True if the first host's writes pass one spine, and their acknowledgements come back over the
// same one, from the port that the controller has chosen for the queue pair that sends them.
bool AreAnswersAsSeen(Spines& spines) {
  const int spine = spines.OnlySpineOf(0);
  for (int other = 0; other < rdma::kSpines; ++other) {
    if ((spines.answers_at(other, 0).packets > 0) != (other == spine)) return false;
  }
  const std::set<std::uint16_t>& ports = spines.answers_at(spine, 0).ports;
  const auto as_seen =
      ContainsRegex(fmt::format("h2 +h0 +ROUTED +spine{} +{} ", spine, *ports.begin()));
  return ports.size() == 1 && ::testing::Matches(as_seen)(Daemons::Operator("flows"));
}

void ExpectAnswersAsSeen(Spines& spines) {
  Await("acknowledgements come back over the spine of their data", [&] {
    spines.Clear();
    Await("it writes", [&] {
      spines.Look();
      return spines.PacketsOf(0) >= kEnough;
    });
    return spines.OnlySpineOf(0) >= 0 && AreAnswersAsSeen(spines);
  });
}

TEST(RdmaSteering, KeepsProgramsApartAndOffALinkThatFails) {
  const Daemons daemons;
  Spines spines;
  Stream first(0, 2, kElephant);
  Stream second(1, 3, kElephant);
  AwaitPackets(spines, "both write");
  ExpectFlowsAsSeen(spines);
  const int victims_spine = spines.OnlySpineOf(0);
  // The controller knows the fill level of their send queues.
  Await("bytes are outstanding", [] {
    return ::testing::Matches(ContainsRegex("\"outstanding_bytes\": *[1-9]"))(
        Daemons::Operator("flows --json"));
  });
  // The far link of one fails, which its source's leaf does not notice.
  Daemons::Operator(fmt::format("fail link leaf1--spine{}", victims_spine));
  Await("it moves", [&] {
    spines.Clear();
    AwaitPackets(spines, "both go on");
    return spines.OnlySpineOf(0) >= 0 && spines.OnlySpineOf(0) != victims_spine;
  });
  ExpectFlowsAsSeen(spines);
  const rdma::DeadSpine dead(victims_spine);
  AwaitPackets(spines, "both go on without it");
  EXPECT_EQ(spines.at(victims_spine, 0).packets + spines.at(victims_spine, 1).packets, 0);
  EXPECT_TRUE(first.Lives() && second.Lives());
}

// Both queue pairs of fio can change their ports in use, unlike the receiving one of ib_write_bw,
// which is never ready to send.
TEST(RdmaSteering, AcknowledgementsLeaveALinkWithTheirData) {
  const rdma::BurstingProgram program = rdma::SteadyFio(SocketOf, 0, 2);
  if (!program.can_run) GTEST_SKIP() << "fio is not installed (deploy/setup installs it)";
  const Daemons daemons;
  Spines spines;
  const rdma::Process fio("fio", program.command);
  ExpectAnswersAsSeen(spines);
  EXPECT_THAT(Daemons::Operator("flows --json"), ContainsRegex("\"answering\": *true"));
  const int before = spines.OnlySpineOf(0);
  Daemons::Operator(fmt::format("fail link leaf1--spine{}", before));
  Await("it moves", [&] {
    ExpectAnswersAsSeen(spines);
    return spines.OnlySpineOf(0) != before;
  });
}

// True if the agent of the first host has taken a standby path.
bool HasTakenStandby() {
  return ::testing::Matches(ContainsRegex("espalier_agent_standby_moves_total [1-9]"))(
      Daemons::MetricsOf(0));
}

void AwaitStandby() {
  Await("the flow has a standby path", [] {
    return ::testing::Matches(ContainsRegex("\"standby_port\": *[1-9]"))(
        Daemons::Operator("flows --json"));
  });
}

// A spine drops everything, and no switch notices. The source's host goes to its standby path, and
// the controller moves the acknowledgements after it.
TEST(RdmaSteering, BothDirectionsLeaveASpineThatDiesSilently) {
  const rdma::BurstingProgram program = rdma::SteadyFio(SocketOf, 0, 2);
  if (!program.can_run) GTEST_SKIP() << "fio is not installed (deploy/setup installs it)";
  const Daemons daemons;
  Spines spines;
  rdma::Process fio("fio", program.command);
  ExpectAnswersAsSeen(spines);
  AwaitStandby();
  const int before = spines.OnlySpineOf(0);
  const rdma::DeadSpine dead(before);
  Await("it moves", [&] {
    ExpectAnswersAsSeen(spines);
    return spines.OnlySpineOf(0) != before;
  });
  EXPECT_TRUE(HasTakenStandby());
  EXPECT_TRUE(fio.Lives());
}

// The same for the requests alone, after the controller has gone.
TEST(RdmaSteering, HostLeavesADeadPathWithoutTheController) {
  const rdma::BurstingProgram program = rdma::SteadyFio(SocketOf, 0, 2);
  if (!program.can_run) GTEST_SKIP() << "fio is not installed (deploy/setup installs it)";
  Daemons daemons;
  Spines spines;
  rdma::Process fio("fio", program.command);
  ExpectAnswersAsSeen(spines);
  AwaitStandby();
  const int before = spines.OnlySpineOf(0);
  daemons.KillController();
  const rdma::DeadSpine dead(before, rdma::DeadSpine::Drops::kFromFirstLeaf);
  Await("it goes on over another spine", [&] {
    spines.Clear();
    Await("it writes", [&] {
      spines.Look();
      return spines.PacketsOf(0) >= kEnough;
    });
    return spines.OnlySpineOf(0) >= 0 && spines.OnlySpineOf(0) != before;
  });
  EXPECT_TRUE(HasTakenStandby());
  EXPECT_TRUE(fio.Lives());
}

// The same for the acknowledgements alone: their host moves them, as its device receives requests
// again. The writes stay where they are.
TEST(RdmaSteering, HostMovesAcknowledgementsOffADeadPathWithoutTheController) {
  const rdma::BurstingProgram program = rdma::SteadyFio(SocketOf, 0, 2);
  if (!program.can_run) GTEST_SKIP() << "fio is not installed (deploy/setup installs it)";
  Daemons daemons;
  Spines spines;
  rdma::Process fio("fio", program.command);
  ExpectAnswersAsSeen(spines);
  Await("both ends have a standby path", [] {
    const std::string flows = Daemons::Operator("flows --json");
    const auto one = ContainsRegex("\"standby_port\": *[1-9].*\"standby_port\": *[1-9]");
    return ::testing::Matches(one)(std::regex_replace(flows, std::regex("\n"), " "));
  });
  const int before = spines.OnlySpineOf(0);
  daemons.KillController();
  const rdma::DeadSpine dead(before, rdma::DeadSpine::Drops::kFromSecondLeaf);
  const auto died = std::chrono::steady_clock::now();
  spines.Clear();
  Await("acknowledgements come back over another spine", [&] {
    spines.Look();
    int answers = 0;
    for (int spine = 0; spine < rdma::kSpines; ++spine) {
      if (spine != before) answers += spines.answers_at(spine, 0).packets;
    }
    return answers > 0;
  });
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - died;
  std::cout << "acknowledgements came back after " << took.count() << " s\n";
  Await("it writes", [&] {
    spines.Look();
    return spines.PacketsOf(0) >= 2 * kEnough;
  });
  EXPECT_EQ(spines.OnlySpineOf(0), before);
  EXPECT_THAT(Daemons::MetricsOf(2), ContainsRegex("espalier_agent_standby_moves_total [1-9]"));
  EXPECT_TRUE(fio.Lives());
}

// Programs that run before any agent collide by the switches' hash. Then the controller starts,
// learns by probes which port takes which path, and moves one of them.
TEST(RdmaSteering, SteersProgramsApartThatCollide) {
  Stream first(0, 2, 0);
  auto second = std::make_unique<Stream>(1, 3, 0);
  const auto collide = [] {
    Spines spines;
    AwaitPackets(spines, "both write");
    return spines.OnlySpineOf(0) == spines.OnlySpineOf(1) && spines.OnlySpineOf(0) >= 0;
  };
  // A new queue pair has another number and therefore another port.
  for (int tries = 0; !collide(); ++tries) {
    ASSERT_LT(tries, 100);
    second.reset();
    second = std::make_unique<Stream>(1, 3, 0);
  }
  const Daemons daemons;
  Spines spines;
  Await("they are steered apart", [&] {
    AwaitPackets(spines, "both go on");
    return spines.OnlySpineOf(0) >= 0 && spines.OnlySpineOf(1) >= 0 &&
           spines.OnlySpineOf(0) != spines.OnlySpineOf(1);
  });
  ExpectFlowsAsSeen(spines);
  EXPECT_TRUE(first.Lives() && second->Lives());
}

}  // namespace
}  // namespace espalier
