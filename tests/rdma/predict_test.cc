// A repeating job on real queue pairs, from which the controller learns through the agents'
// reports.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "common/files/json.h"
#include "tests/rdma/daemons.h"
#include "tests/rdma/rdma_machine.h"

namespace espalier {
namespace {

using rdma::Daemons;

// Runs ib_write_bw from one host to another through the shim, to its end.
void WriteOnce(int from, int to) {
  const int port = 18650 + from;
  const auto words = [&](int host) {
    const auto address = rdma::RoceAddressOf(host, false);
    return fmt::format(
        "env LD_PRELOAD={} ESPALIER_AGENT_SOCKET={} ESPALIER_VERBS_ANNOUNCE_BYTES=1048576 "
        "ESPALIER_VERBS_WAIT_MS=60000 ESPALIER_JOB=train ib_write_bw -d {} -x {} -F -t 4 -s 8192 "
        "-n 300 -p {}",
        ESPALIER_VERBS_SHIM, rdma::SocketOf(host), address.device, address.gid_index, port);
  };
  rdma::Shell(
      fmt::format("{} & until ss -Hltn sport = :{} | grep -q .; do sleep 0.1; done; "
                  "{} 127.0.0.1 && wait $!",
                  words(to), port, words(from)));
}

TEST(RdmaPrediction, LongExpectsWhatAJobRepeats) {
  constexpr int kIterations = 8;
  const Daemons daemons;
  for (int i = 0; i < kIterations; ++i) {
    std::thread other([] { WriteOnce(1, 3); });
    WriteOnce(0, 2);
    other.join();
  }
  const std::string text = Daemons::Get("/api/v1/predict");
  const auto answer = io::ParseJson(text, "the predictions");
  ASSERT_TRUE(answer) << text;
  const std::vector<io::JsonValue>& jobs = answer->Find("predict")->items;
  ASSERT_EQ(jobs.size(), 1U);
  const auto number = [&](const char* key) { return std::stod(jobs[0].Find(key)->text); };
  EXPECT_EQ(jobs[0].Find("job")->text, "train");
  EXPECT_TRUE(jobs[0].Find("on")->boolean);
  // The first start of a flow cannot be predicted, nor can one before it is known which flows start
  // together.
  EXPECT_GE(number("flows"), 2);
  EXPECT_GE(number("predicted_starts"), kIterations - 4);
  EXPECT_GT(number("period_seconds"), 0) << text;
}

}  // namespace
}  // namespace espalier
