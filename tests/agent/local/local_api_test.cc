#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <future>
#include <limits>
#include <thread>

#include "agent/local/local_protocol.h"
#include "common/base/unique_fd.h"
#include "common/os/message_socket.h"
#include "tests/agent/local/local_api_fixture.h"

namespace espalier::agent {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(LocalApi, AnnouncedFlowIsSeenWithItsDescription) {
  espalier_agent* agent = Connect();
  espalier_flow* flow = Open(agent, Desc("job-a"));
  Turn();
  ASSERT_THAT(server_->Flows(), SizeIs(1));
  const FlowSample& sample = server_->Flows()[0];
  EXPECT_EQ(sample.id.value(), espalier_flow_id(flow));
  EXPECT_EQ(sample.announced.user, geteuid());  // as the kernel says
  EXPECT_EQ(sample.job, "job-a");
  EXPECT_EQ(sample.source.ToString(), "10.0.0.1");
  EXPECT_EQ(sample.destination.ToString(), "10.1.0.1");
  EXPECT_EQ(sample.source_port, 50000);
  EXPECT_EQ(sample.remaining_bytes, 1u << 20);
  EXPECT_EQ(sample.max_paths, 4);
  EXPECT_TRUE(sample.movable);
  EXPECT_FALSE(sample.keeps_rate);
  EXPECT_EQ(changes_, 1);
  espalier_agent_close(agent);
}

TEST_F(LocalApi, FlagsSayWhoKeepsRatesPathsAndWeights) {
  espalier_agent* agent = Connect();
  for (std::uint8_t flags = 0; flags < 16; ++flags) {
    espalier_flow_desc desc = Desc("job");
    desc.flags = flags;
    Open(agent, desc);
  }
  Turn();
  ASSERT_THAT(server_->Flows(), SizeIs(16));
  for (std::size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(server_->Flows()[i].keeps_rate, i % 2 == 1);
    EXPECT_EQ(server_->Flows()[i].announced.path_fixed, i / 2 % 2 == 1);
    EXPECT_EQ(server_->Flows()[i].keeps_weights, i / 4 % 2 == 1);
    EXPECT_EQ(server_->Flows()[i].announced.is_alone, i / 8 % 2 == 1);
  }
  espalier_agent_close(agent);
}

TEST_F(LocalApi, ProgressIsSeenWithoutAMessage) {
  espalier_agent* agent = Connect();
  espalier_flow* flow = Open(agent);
  Turn();
  espalier_flow_progress(flow, 70, 20, 10, 51111);
  espalier_flow_transport(flow, 3, 250);
  espalier_flow_timeout(flow, 67'108, 7);
  EXPECT_FALSE(HasWork());
  const FlowSample& sample = server_->Flows()[0];
  EXPECT_EQ(sample.remaining_bytes, 70u);
  EXPECT_EQ(sample.outstanding_bytes, 20u);
  EXPECT_EQ(sample.sent_bytes, 10u);
  EXPECT_EQ(sample.source_port, 51111);
  EXPECT_EQ(sample.retries, 3u);
  EXPECT_EQ(sample.rtt_us, 250u);
  EXPECT_EQ(sample.wait.timeout_us, 67'108u);
  EXPECT_EQ(sample.wait.repetitions, 7u);
  espalier_agent_close(agent);
}

TEST_F(LocalApi, ANumberThatIsKnownLaterMakesAnotherFlowWithTheSamePaths) {
  espalier_agent* agent = Connect();
  espalier_flow* other = Open(agent);
  espalier_flow* flow = Open(agent);
  Turn();
  const wire::LocalFlowId id(espalier_flow_id(flow));
  ASSERT_TRUE(server_->Apply({.flow = id, .paths = {{.source_port = 61'001}}}));
  espalier_flow_progress(flow, 70, 20, 10, 61'001);
  const std::uint64_t version = espalier_flow_version(flow);
  EXPECT_EQ(espalier_flow_set_local_qpn(flow, 1U << 24), -EINVAL);
  ASSERT_EQ(espalier_flow_set_local_qpn(flow, 0x123456), 0);
  EXPECT_EQ(espalier_flow_version(flow), version);
  Turn();
  ASSERT_THAT(server_->Flows(), SizeIs(2));
  EXPECT_EQ(server_->Flows()[0].id.value(), espalier_flow_id(other));
  const FlowSample& sample = server_->Flows()[1];
  EXPECT_NE(sample.id, id);
  EXPECT_EQ(sample.id.value(), espalier_flow_id(flow));
  EXPECT_EQ(sample.local_qpn, 0x123456U);
  EXPECT_EQ(sample.sent_bytes, 10U);
  ASSERT_THAT(sample.kept.paths, SizeIs(1));
  EXPECT_EQ(sample.kept.paths[0].source_port, 61'001);
  espalier_path_set paths{};
  espalier_flow_paths(flow, &paths);
  ASSERT_EQ(paths.path_count, 1U);
  EXPECT_EQ(paths.source_port[0], 61'001);
  // What is decided for the flow that has ended reaches nobody.
  EXPECT_FALSE(server_->Apply({.flow = id, .paths = {{.source_port = 61'003}}}));
  ASSERT_TRUE(server_->Apply({.flow = sample.id, .paths = {{.source_port = 61'002}}}));
  EXPECT_GT(espalier_flow_version(flow), version);
  espalier_flow_paths(flow, &paths);
  EXPECT_EQ(paths.source_port[0], 61'002);
  espalier_agent_close(agent);
}

TEST_F(LocalApi, EdgesAreSeenWithoutAMessage) {
  espalier_agent* agent = Connect();
  espalier_flow* flow = Open(agent);
  Turn();
  EXPECT_EQ(server_->Flows()[0].edges.count, 0U);
  espalier_flow_edges(flow, 5, 7'000'000'123, 4'000'900);
  EXPECT_FALSE(HasWork());
  const SourceEdges edges = server_->Flows()[0].edges;
  EXPECT_EQ(edges.count, 5U);
  EXPECT_EQ(edges.last, TimePoint(std::chrono::nanoseconds(7'000'000'123)));
  EXPECT_EQ(edges.between, std::chrono::microseconds(4'000));
  // A program may claim anything.
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  espalier_flow_edges(flow, 6, kMost, kMost);
  const SourceEdges odd = server_->Flows()[0].edges;
  EXPECT_EQ(odd.last.time_since_epoch().count(), std::numeric_limits<std::int64_t>::max());
  EXPECT_LE(odd.between, std::chrono::hours(2));
  // The next flow in the slot starts without edges.
  espalier_flow_close(flow);
  Turn();
  Open(agent);
  Turn();
  EXPECT_EQ(server_->Flows()[0].edges.count, 0U);
  espalier_agent_close(agent);
}

TEST_F(LocalApi, SubflowsOfASplitFlowAreSeen) {
  espalier_agent* agent = Connect();
  espalier_flow* flow = Open(agent);
  Turn();
  EXPECT_THAT(server_->Flows()[0].ports, SizeIs(0));
  espalier_flow_path_progress(flow, 0, 50001, 7, 70, 1);
  espalier_flow_path_progress(flow, 2, 50002, 8, 80, 2);
  espalier_flow_path_progress(flow, ESPALIER_MAX_PATHS, 50003, 1, 1, 1);  // there is none
  const std::vector<PortProgress> ports = server_->Flows()[0].ports;
  ASSERT_THAT(ports, SizeIs(2));
  EXPECT_EQ(ports[0].source_port, 50001);
  EXPECT_EQ(ports[0].outstanding_bytes, 7u);
  EXPECT_EQ(ports[0].sent_bytes, 70u);
  EXPECT_EQ(ports[0].retries, 1u);
  EXPECT_EQ(ports[1].source_port, 50002);
  espalier_flow_path_progress(flow, 0, 0, 0, 0, 0);
  EXPECT_THAT(server_->Flows()[0].ports, SizeIs(1));
  // The next flow in the slot starts without subflows.
  espalier_flow_close(flow);
  Turn();
  espalier_flow* next = Open(agent);
  Turn();
  EXPECT_THAT(server_->Flows()[0].ports, SizeIs(0));
  // Flows over one path have no subflows.
  espalier_flow_close(next);
  espalier_flow_desc desc = Desc();
  desc.max_paths = 1;
  espalier_flow* single = Open(agent, desc);
  Turn();
  espalier_flow_path_progress(single, 0, 50001, 7, 70, 1);
  EXPECT_THAT(server_->Flows()[0].ports, SizeIs(0));
  espalier_agent_close(agent);
}

TEST_F(LocalApi, PathSetReachesTheProgramAndWakesIt) {
  espalier_agent* agent = Connect();
  espalier_flow* flow = Open(agent);
  Turn();
  EXPECT_EQ(espalier_flow_version(flow), 0u);
  EXPECT_EQ(Paths(flow).path_count, 0u);
  EXPECT_FALSE(Readable(agent));
  ASSERT_TRUE(server_->Apply(Set(flow, {50001, 50002})));
  EXPECT_TRUE(Readable(agent));
  EXPECT_EQ(espalier_agent_dispatch(agent), 0);
  EXPECT_FALSE(Readable(agent));
  EXPECT_EQ(espalier_flow_version(flow), 1u);
  const espalier_path_set paths = Paths(flow);
  EXPECT_EQ(paths.version, 1u);
  EXPECT_EQ(paths.path_count, 2u);
  EXPECT_EQ(paths.source_port[0], 50001);
  EXPECT_EQ(paths.source_port[1], 50002);
  EXPECT_EQ(paths.weight[1], 1);
  EXPECT_EQ(paths.max_rate_bps, 1'000'000u);
  EXPECT_EQ(paths.reason, static_cast<std::uint32_t>(ESPALIER_REASON_PATH_DEAD));
  ASSERT_TRUE(server_->Clear(wire::LocalFlowId(espalier_flow_id(flow))));
  EXPECT_EQ(Paths(flow).path_count, 0u);
  EXPECT_EQ(Paths(flow).version, 2u);
  espalier_agent_close(agent);
}

TEST_F(LocalApi, EndedFlowIsGoneAndItsSlotServesTheNextOne) {
  espalier_agent* agent = Connect();
  espalier_flow* first = Open(agent);
  Turn();
  const wire::PathSet stale = Set(first, {50001});
  espalier_flow_close(first);
  espalier_flow* second = Open(agent);
  EXPECT_NE(espalier_flow_id(second), stale.flow.value());
  // The agent has not looked yet: what it writes for the first flow must not move the second.
  ASSERT_TRUE(server_->Apply(stale));
  EXPECT_EQ(Paths(second).path_count, 0u);
  Turn();
  ASSERT_THAT(server_->Flows(), SizeIs(1));
  EXPECT_EQ(server_->Flows()[0].id.value(), espalier_flow_id(second));
  EXPECT_EQ(server_->Apply(stale).error().code, ErrorCode::kNotFound);
  ASSERT_TRUE(server_->Apply(Set(second, {50009})));
  EXPECT_EQ(Paths(second).source_port[0], 50009);
  espalier_agent_close(agent);
}

TEST_F(LocalApi, FlowsOfAProgramThatGoesAwayEnd) {
  espalier_agent* agent = Connect();
  espalier_agent* other = Connect();
  Open(agent);
  Open(agent);
  espalier_flow* kept = Open(other);
  Turn();
  EXPECT_THAT(server_->Flows(), SizeIs(3));
  espalier_agent_close(agent);
  Turn();
  ASSERT_THAT(server_->Flows(), SizeIs(1));
  EXPECT_EQ(server_->Flows()[0].id.value(), espalier_flow_id(kept));
  espalier_agent_close(other);
}

TEST_F(LocalApi, PathSetsBecomeEmptyWhenTheAgentGoesAwayWithoutAGrace) {
  setenv("ESPALIER_AGENT_GRACE_SECONDS", "0", 1);
  espalier_agent* agent = Connect();
  unsetenv("ESPALIER_AGENT_GRACE_SECONDS");
  espalier_flow* flow = Open(agent);
  Turn();
  ASSERT_TRUE(server_->Apply(Set(flow, {50001})));
  server_.reset();
  EXPECT_EQ(espalier_agent_dispatch(agent), -EPIPE);
  EXPECT_EQ(Paths(flow).path_count, 0u);
  EXPECT_EQ(Paths(flow).version, 2u);
  EXPECT_EQ(espalier_agent_dispatch(agent), -EPIPE);
  espalier_flow* late = nullptr;
  const espalier_flow_desc desc = Desc();
  EXPECT_EQ(espalier_flow_open(agent, &desc, &late), -EPIPE);
  espalier_flow_progress(flow, 1, 1, 1, 1);  // harmless
  espalier_flow_close(flow);
  espalier_agent_close(agent);
  EXPECT_EQ(espalier_agent_connect(path_.c_str(), &agent), -ENOENT);
}

TEST_F(LocalApi, BurstOfOpensIsOneChange) {
  espalier_agent* agent = Connect();
  std::vector<espalier_flow*> flows;
  for (std::uint32_t i = 0; i < ESPALIER_LOCAL_SLOTS; ++i) flows.push_back(Open(agent));
  espalier_flow* refused = nullptr;
  const espalier_flow_desc desc = Desc();
  EXPECT_EQ(espalier_flow_open(agent, &desc, &refused), -ENOSPC);
  server_->HandleReady();
  Turn();
  EXPECT_THAT(server_->Flows(), SizeIs(ESPALIER_LOCAL_SLOTS));
  EXPECT_EQ(changes_, 1);
  for (std::size_t i = 1; i < flows.size(); ++i) {
    EXPECT_LT(server_->Flows()[i - 1].id, server_->Flows()[i].id);
  }
  espalier_flow_close(flows[7]);
  EXPECT_EQ(espalier_flow_open(agent, &desc, &refused), 0);
  espalier_agent_close(agent);
}

TEST_F(LocalApi, FlowsBeyondTheLimitStayUnseen) {
  Start({.max_flows = 2});
  espalier_agent* agent = Connect();
  espalier_flow* first = Open(agent);
  Open(agent);
  Open(agent);
  Turn();
  EXPECT_THAT(server_->Flows(), SizeIs(2));
  espalier_flow_close(first);
  Turn();
  EXPECT_THAT(server_->Flows(), SizeIs(2));  // the third took its place
  espalier_agent_close(agent);
}

TEST_F(LocalApi, LibraryRefusesFieldsOutOfRange) {
  espalier_agent* agent = Connect();
  const std::vector<std::function<void(espalier_flow_desc&)>> faults = {
      [](auto& d) { std::memset(d.job, 'x', sizeof(d.job)); },
      [](auto& d) { d.job[0] = '\n'; },
      [](auto& d) { std::memset(d.source, 0, 16); },
      [](auto& d) { std::memset(d.destination, 0, 16); },
      [](auto& d) { d.protocol = 1; },
      [](auto& d) { d.max_paths = 0; },
      [](auto& d) { d.max_paths = 17; },
      [](auto& d) { d.movable = 2; },
      [](auto& d) { d.destination_port = 0; },
      [](auto& d) { d.local_qpn = 1 << 24; },
      [](auto& d) { d.remote_qpn = 1 << 24; },
  };
  for (std::size_t i = 0; i < faults.size(); ++i) {
    espalier_flow_desc desc = Desc();
    faults[i](desc);
    espalier_flow* flow = nullptr;
    EXPECT_EQ(espalier_flow_open(agent, &desc, &flow), -EINVAL) << "fault " << i;
  }
  Turn();
  EXPECT_THAT(server_->Flows(), IsEmpty());
  espalier_agent_close(agent);
}

TEST_F(LocalApi, ReportsWhyThereIsNoConnection) {
  espalier_agent* agent = nullptr;
  EXPECT_EQ(espalier_agent_connect((folder_ + "/none").c_str(), &agent), -ENOENT);
  EXPECT_EQ(espalier_agent_connect(std::string(200, 'x').c_str(), &agent), -ENAMETOOLONG);
  Start({.max_clients = 1});
  espalier_agent* first = Connect();
  Connect(-EUSERS);
  espalier_agent_close(first);
  Turn();
  espalier_agent_close(Connect());
}

TEST_F(LocalApi, RefusesPathsThatItCannotExpress) {
  espalier_agent* agent = Connect();
  espalier_flow* flow = Open(agent);
  Turn();
  EXPECT_EQ(server_->Apply(Set(flow, std::vector<std::uint16_t>(17, 50000))).error().code,
            ErrorCode::kUnsupported);
  wire::PathSet encoded = Set(flow, {50000});
  encoded.paths[0].encoding = "srv6";
  EXPECT_EQ(server_->Apply(encoded).error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(espalier_flow_version(flow), 0u);
  espalier_agent_close(agent);
}

TEST_F(LocalApi, SecondAgentOnOnePathIsRefusedAndADeadOnesFileReplaced) {
  EXPECT_EQ(LocalServer::Listen(loop_, {.path = path_}, metrics_).error().code,
            ErrorCode::kAlreadyExists);
  EXPECT_EQ(LocalServer::Listen(loop_, {.path = folder_ + "/no/such"}, metrics_).error().code,
            ErrorCode::kNotFound);
  EXPECT_EQ(LocalServer::Listen(loop_, {.path = std::string(200, 'x')}, metrics_).error().code,
            ErrorCode::kInvalidArgument);
  const std::string stale = folder_ + "/stale.sock";
  {
    const UniqueFd dead(socket(AF_UNIX, SOCK_SEQPACKET, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::snprintf(address.sun_path, sizeof address.sun_path, "%s", stale.c_str());
    ASSERT_EQ(bind(dead.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  EXPECT_TRUE(LocalServer::Listen(loop_, {.path = stale}, metrics_));
}

// One thread changes path sets as fast as it can; the other must never see a mixture.
TEST_F(LocalApi, ReaderNeverSeesHalfAPathSet) {
  espalier_agent* agent = Connect();
  espalier_flow* flow = Open(agent);
  Turn();
  std::atomic<bool> stop = false;
  std::uint64_t torn = 0;
  std::uint64_t seen = 0;
  std::thread reader([&] {
    while (!stop) {
      const espalier_path_set paths = Paths(flow);
      if (paths.path_count == 0) continue;
      ++seen;
      for (std::uint32_t i = 0; i < paths.path_count; ++i) {
        if (paths.source_port[i] != paths.source_port[0] + i) ++torn;
      }
    }
  });
  for (std::uint16_t round = 0; round < 20'000; ++round) {
    std::vector<std::uint16_t> ports;
    for (std::uint16_t i = 0; i < 16; ++i) ports.push_back(static_cast<std::uint16_t>(round + i));
    ASSERT_TRUE(server_->Apply(Set(flow, ports)));
  }
  stop = true;
  reader.join();
  EXPECT_EQ(torn, 0u);
  EXPECT_EQ(Paths(flow).version, 20'000u);
  espalier_agent_close(agent);
}

// An agent older than the progress of subflows, whose file ends after the slots.
TEST(LocalApiOfAnOldAgent, GetsNoProgressOfSubflows) {
  const std::string folder = MakeFolder();
  const std::string path = folder + "/agent.sock";
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  std::snprintf(address.sun_path, sizeof address.sun_path, "%s", path.c_str());
  const UniqueFd listener(socket(AF_UNIX, SOCK_SEQPACKET, 0));
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(listener.get(), 1), 0);
  espalier_agent* agent = nullptr;
  auto connecting =
      std::async(std::launch::async, [&] { return espalier_agent_connect(path.c_str(), &agent); });
  const UniqueFd client(accept(listener.get(), nullptr, nullptr));
  espalier_local_hello hello{};
  ASSERT_EQ(recv(client.get(), &hello, sizeof(hello), 0), ssize_t{sizeof(hello)});
  EXPECT_EQ(hello.version, ESPALIER_LOCAL_VERSION);

  constexpr std::size_t kOldBytes = offsetof(espalier_local_memory, paths);
  const UniqueFd file(memfd_create("old", MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(file.get(), kOldBytes), 0);
  ASSERT_EQ(fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  espalier_local_welcome welcome{ESPALIER_LOCAL_VERSION, 0, 1, ESPALIER_LOCAL_SLOTS};
  iovec part{&welcome, sizeof(welcome)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* const rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int));
  const int memory = file.get();
  std::memcpy(CMSG_DATA(rights), &memory, sizeof(memory));
  ASSERT_EQ(sendmsg(client.get(), &message, 0), ssize_t{sizeof(welcome)});
  ASSERT_EQ(connecting.get(), 0);

  espalier_flow* flow = Open(agent);
  espalier_flow_path_progress(flow, 0, 50001, 7, 70, 1);
  espalier_flow_progress(flow, 70, 20, 10, 51111);
  std::uint64_t sent = 0;
  constexpr auto kSentAt = static_cast<off_t>(offsetof(espalier_local_memory, slots) +
                                              offsetof(espalier_local_slot, sent_bytes));
  EXPECT_EQ(pread(file.get(), &sent, sizeof(sent), kSentAt), ssize_t{sizeof(sent)});
  EXPECT_EQ(sent, 10u);
  espalier_agent_close(agent);
  std::filesystem::remove_all(folder);
}

// An agent that is stopped, with a full queue, once held programs for good.
TEST(LocalApiCall, EndsAtAnAgentThatAcceptsNobody) {
  const std::string folder = MakeFolder();
  const std::string path = folder + "/agent.sock";
  const UniqueFd listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  const auto* const to = reinterpret_cast<const sockaddr*>(&address);
  ASSERT_EQ(::bind(listener.get(), to, sizeof(address)), 0);
  ASSERT_EQ(::listen(listener.get(), 0), 0);
  std::vector<UniqueFd> queued;
  do {
    queued.emplace_back(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  } while (::connect(queued.back().get(), to, sizeof(address)) == 0);
  EXPECT_EQ(errno, EAGAIN);
  auto other = std::async(std::launch::async, [&] { return ConnectToPath(path).error().code; });
  espalier_agent* agent = nullptr;
  EXPECT_EQ(espalier_agent_connect(path.c_str(), &agent), -ETIMEDOUT);
  EXPECT_EQ(other.get(), ErrorCode::kUnavailable);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace espalier::agent
