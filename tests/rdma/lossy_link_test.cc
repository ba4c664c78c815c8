// A link that loses one packet in a hundred: unmodified programs leave it, and it is used again.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "common/files/json.h"
#include "tests/rdma/daemons.h"
#include "tests/rdma/rdma_machine.h"

namespace espalier {
namespace {

using rdma::Await;
using rdma::Daemons;
using rdma::Process;
using rdma::SocketOf;

constexpr const char* kLink = "leaf0--spine1";
constexpr const char* kPort = "-n leaf0 qdisc {} dev s1 root";

// Loses packets that the first leaf sends to a spine.
class Loss {
 public:
  explicit Loss(double percent) {
    rdma::Shell(fmt::format("tc {} netem loss {}%", fmt::format(kPort, "add"), percent));
  }
  ~Loss() { rdma::Shell(fmt::format("tc {}", fmt::format(kPort, "del"))); }
  Loss(const Loss&) = delete;
  Loss& operator=(const Loss&) = delete;
};

// Runs ib_write_bw without end between two hosts, with few and short writes, as soft RoCE fails
// with many.
class Stream {
 public:
  Stream(int from, int to) : from_(from), to_(to), port_(18'900 + 10 * from + to) {
    server_ = Start(to, "");
    rdma::Shell(fmt::format("until ss -Hltn sport = :{} | grep -q .; do sleep 0.1; done", port_));
    client_ = Start(from, "127.0.0.1");
  }
  bool Lives() { return client_->Lives(); }

 private:
  std::unique_ptr<Process> Start(int host, const std::string& server) const {
    const auto address = rdma::RoceAddressOf(host, false);
    return std::make_unique<Process>(
        fmt::format("stream{}{}{}", from_, to_, server.empty() ? "s" : "c"),
        fmt::format("LD_PRELOAD={} ESPALIER_AGENT_SOCKET={} ESPALIER_JOB=streams "
                    "ib_write_bw -d {} -x {} -F -t 4 -s 8192 --run_infinitely -D 2 -p {} {}",
                    ESPALIER_VERBS_SHIM, SocketOf(host), address.device, address.gid_index, port_,
                    server));
  }

  int from_;
  int to_;
  int port_;
  std::unique_ptr<Process> server_;
  std::unique_ptr<Process> client_;
};

struct LinkView {
  std::string state;
  int flows = 0;  // in the direction away from the leaf of the senders
};

LinkView ViewOf(const std::string& id) {
  const auto answer = io::ParseJson(Daemons::Get("/api/v1/links"), "the links");
  if (!answer) return {};
  for (const io::JsonValue& link : answer->Find("links")->items) {
    if (link.Find("id")->text != id) continue;
    return {link.Find("state")->text, std::stoi(link.Find("flows_a_to_b")->text)};
  }
  return {};
}

int CountEvents(const std::string& kind) {
  const auto answer = io::ParseJson(Daemons::Get("/api/v1/events"), "the events");
  int count = 0;
  if (!answer) return count;
  for (const io::JsonValue& event : answer->Find("events")->items) {
    if (event.Find("kind")->text == kind) ++count;
  }
  return count;
}

double SecondsSince(TimePoint start) {
  return std::chrono::duration<double>(rdma::Now() - start).count();
}

TEST(RdmaLossyLink, LongIsLeftAndUsedAgainWhenItIsHealed) {
  const Daemons daemons;
  std::vector<std::unique_ptr<Stream>> streams;
  for (const int from : {0, 1}) {
    for (const int to : {2, 3}) streams.push_back(std::make_unique<Stream>(from, to));
  }
  Await("each flow has a spine of its own", [] {
    for (int spine = 0; spine < rdma::kSpines; ++spine) {
      if (ViewOf(fmt::format("leaf0--spine{}", spine)).flows != 1) return false;
    }
    return true;
  });
  double left = 0;
  {
    const Loss loss(1);
    const TimePoint start = rdma::Now();
    Await("the link is slow, and its flow has left it", [] {
      const LinkView view = ViewOf(kLink);
      return view.state == "SLOW" && view.flows == 0;
    });
    left = SecondsSince(start);
  }
  const TimePoint healed = rdma::Now();
  Await("it is used again", [] {
    const LinkView view = ViewOf(kLink);
    return view.state == "UP" && view.flows == 1;
  });
  // The acceptance test reads this line.
  fmt::print("loss {{\"percent\": 1, \"left_seconds\": {:.1f}, \"returned_seconds\": {:.1f}}}\n",
             left, SecondsSince(healed));
  EXPECT_EQ(CountEvents("link_slow"), 1);  // it does not flap
  for (const auto& stream : streams) EXPECT_TRUE(stream->Lives());
}

}  // namespace
}  // namespace espalier
