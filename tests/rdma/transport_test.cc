// The verbs transport: the contract of all transports, and its own features.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <iostream>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "collective/transport/stores/file_store.h"
#include "collective/transport/verbs/verbs_transport.h"
#include "common/verbs/source_port.h"
#include "tests/attack/raw_tcp.h"
#include "tests/collective/transport/transport_contract.h"
#include "tests/rdma/daemons.h"
#include "tests/rdma/rdma_machine.h"

namespace espalier::transport {
namespace {

using rdma::Capture;
using rdma::DeadSpine;
using rdma::Packet;

// For tests without dead paths, so that a slow machine does not look like one.
constexpr verbs::RetryPolicy kLongPatience = {.timeout_log2 = 19, .retries = 6};  // 7 tries of 2 s

VerbsOptions OptionsOf(int rank, bool ipv6) {
  return {.slots = kSlots,
          .slot_bytes = kSlotBytes,
          .address = rdma::AddressOfHost(rank, ipv6).ToString(),
          .control_address = "127.0.0.1"};
}

Kind VerbsKind(const std::string& name, bool ipv6) {
  return {name,
          [ipv6](transport::RendezvousStore& store, int rank, int size,
                 Deadline /*deadline*/) -> Result<std::unique_ptr<Transport>> {
            auto joined = JoinVerbs(store, "g", rank, size, OptionsOf(rank % rdma::kHosts, ipv6));
            if (!joined) return Propagate(joined);
            return std::move(*joined);
          }};
}

INSTANTIATE_TEST_SUITE_P(Rdma, TransportContract,
                         ::testing::Values(VerbsKind("verbs", false), VerbsKind("verbs6", true)),
                         [](const auto& test) { return test.param.name; });

// Silent strangers once delayed a rank by a second. They must not delay any rank, and a stranger
// without the key must be refused.
TEST(VerbsTransport, StrangersDelayNobodyAndDoNotGetIn) {
  TemporaryFolder folder;
  FileStore store(folder.path());
  const GroupCredentials members = {.key = JobKey::Draw()};
  const auto join = [&](int rank) {
    VerbsOptions options = OptionsOf(rank, false);
    options.patience = kLongPatience;
    options.members = members;
    return JoinVerbs(store, "g", rank, 2, options);
  };
  auto first = join(0);
  ASSERT_TRUE(first) << first.error().message;
  attack::RankHello hello = {.magic = 0x45535652, .version = 2, .form = 2, .slots = kSlots};
  hello.slot_bytes = kSlotBytes;
  std::istringstream place(*store.Get("g/verbs.0", InAWhile()));
  std::string address;
  std::uint16_t port = 0;
  place >> address >> port >> hello.group;
  std::vector<std::unique_ptr<attack::RawTcp>> strangers;
  for (int i = 0; i < 300; ++i) {
    strangers.push_back(std::make_unique<attack::RawTcp>(port));
    if (i % 3 == 0) continue;
    EXPECT_TRUE(strangers.back()->Send(i % 3 == 1 ? "some bytes" : hello.ToBytes()));
  }
  std::thread other([&] {
    attack::RawTcp guesser(port);
    EXPECT_TRUE(guesser.Send(hello.ToBytes()));
    EXPECT_NE(guesser.Take(64), "");
    EXPECT_TRUE(guesser.Send(std::string(32 + 256, 'g')));
    EXPECT_TRUE(guesser.IsHungUpOn());
    auto second = join(1);
    ASSERT_TRUE(second) << second.error().message;
    const Endpoint to_first = {0, 0};
    ExpectDone((*second)->Connect({&to_first, 1}, InAWhile()));
  });
  const Endpoint to_second = {1, 0};
  ExpectDone((*first)->Connect({&to_second, 1}, InAWhile()));
  other.join();
}

// Rank 0 on host 0 sends numbered messages of full slots to rank 1 on host 2. Tests can act before
// some of them are committed.
class VerbsStream {
 public:
  VerbsOptions options = OptionsOf(0, false);
  std::function<void(VerbsTransport&, int)> before_message = [](VerbsTransport&, int) {};

  void Run(int messages) {
    std::thread receiver([&] {
      VerbsOptions own = options;
      own.address = rdma::AddressOfHost(2, false).ToString();
      own.source_ports = nullptr;
      auto transport = JoinVerbs(store_, "g", 1, 2, own);
      ASSERT_TRUE(transport) << transport.error().message;
      const Endpoint endpoint = {0, 0};
      ExpectDone((*transport)->Connect({&endpoint, 1}, InAWhile()));
      for (int i = 0; i < messages; ++i) {
        const Message& message = AwaitMessage(**transport, endpoint);
        ASSERT_EQ(message.tag[0], static_cast<std::uint64_t>(i));
        ASSERT_EQ(message.bytes.size(), options.slot_bytes);
        const auto expected = static_cast<std::byte>(i);
        ASSERT_TRUE(std::all_of(message.bytes.begin(), message.bytes.end(), [&](std::byte b) {
          return b == expected;
        })) << i;
        (*transport)->inbox(endpoint).Release();
      }
      // The final confirmation comes back over the same connection.
      AwaitSlot(**transport, endpoint);
      (*transport)->outbox(endpoint).Commit(0, {});
      ExpectDone((*transport)->Flush(InAWhile()));
    });
    Send(messages);
    receiver.join();
  }

 private:
  void Send(int messages) {
    auto transport = JoinVerbs(store_, "g", 0, 2, options);
    ASSERT_TRUE(transport) << transport.error().message;
    const Endpoint endpoint = {1, 0};
    ExpectDone((*transport)->Connect({&endpoint, 1}, InAWhile()));
    for (int i = 0; i < messages; ++i) {
      before_message(**transport, i);
      std::byte* const slot = AwaitSlot(**transport, endpoint);
      std::fill_n(slot, options.slot_bytes, static_cast<std::byte>(i));
      (*transport)->outbox(endpoint).Commit(options.slot_bytes, {static_cast<std::uint64_t>(i)});
    }
    ExpectDone((*transport)->Flush(InAWhile()));
    AwaitMessage(**transport, endpoint);
  }

  TemporaryFolder folder_;
  FileStore store_{folder_.path()};
};

std::set<std::uint16_t> PortsOf(const std::vector<Packet>& packets, const IpAddress& source) {
  std::set<std::uint16_t> ports;
  for (const Packet& packet : packets) {
    if (packet.source == source && packet.IsWrite()) ports.insert(packet.source_port);
  }
  return ports;
}

TEST(VerbsTransport, SendsFromThePlannedSourcePorts) {
  Capture capture("", "h0");
  VerbsStream stream;
  stream.options.patience = kLongPatience;
  stream.options.queue_pairs = 3;
  stream.options.source_ports = [](Endpoint) { return std::vector<std::uint16_t>{0xC111, 0xD222}; };
  stream.Run(40);
  EXPECT_EQ(PortsOf(capture.Take(), rdma::AddressOfHost(0, false)),
            (std::set<std::uint16_t>{0xC111, 0xD222}));
}

TEST(VerbsTransport, MovesToOtherSourcePortsInOrder) {
  Capture capture("", "h0");
  VerbsStream stream;
  stream.options.patience = kLongPatience;
  stream.options.slots = 8;
  stream.options.source_ports = [](Endpoint) { return std::vector<std::uint16_t>{0xC001}; };
  stream.before_message = [](VerbsTransport& transport, int message) {
    if (message % 20 != 10) return;
    const auto port = static_cast<std::uint16_t>(0xC100 + message);
    ExpectDone(transport.SetSourcePorts({1, 0}, {&port, 1}));
  };
  stream.Run(60);
  std::vector<std::uint16_t> ports;
  for (const Packet& packet : capture.Take()) {
    const bool is_ours = packet.source == rdma::AddressOfHost(0, false) && packet.IsWrite();
    if (is_ours && (ports.empty() || ports.back() != packet.source_port)) {
      ports.push_back(packet.source_port);
    }
  }
  EXPECT_EQ(ports, (std::vector<std::uint16_t>{0xC001, 0xC10A, 0xC11E, 0xC132}));
}

TEST(VerbsTransport, RefusesPortsThatThereAreNot) {
  VerbsStream stream;
  stream.before_message = [](VerbsTransport& transport, int /*message*/) {
    for (const std::vector<std::uint16_t>& ports :
         {std::vector<std::uint16_t>{}, {4791}, {0xC001, 0xC002, 0xC003}}) {
      const auto set = transport.SetSourcePorts({1, 0}, ports);
      ASSERT_FALSE(set);
      EXPECT_EQ(set.error().code, ErrorCode::kInvalidArgument);
    }
  };
  stream.Run(1);
}

// Finds a port for each spine by sending one message from each port until both spines were used.
std::vector<std::uint16_t> PortsBySpine() {
  std::vector<Capture> spines;
  for (int spine = 0; spine < rdma::kSpines; ++spine) {
    spines.emplace_back("spine" + std::to_string(spine), "l0");
  }
  std::vector<std::uint16_t> ports(rdma::kSpines);
  for (std::uint16_t port = 0xC501; std::count(ports.begin(), ports.end(), 0) > 0; ++port) {
    rdma::Pair pair(0, 2, false, *verbs::FlowLabelFor(port), 1, 64);
    pair.PostWrite(0, 64);
    pair.AwaitWrites(1);
    for (std::size_t spine = 0; spine < spines.size(); ++spine) {
      if (PortsOf(spines[spine].Take(), rdma::AddressOfHost(0, false)).contains(port)) {
        ports[spine] = port;
      }
    }
  }
  return ports;
}

TEST(VerbsTransport, LosesAndDoublesNothingWhenAPathDies) {
  const std::vector<std::uint16_t> all = PortsBySpine();
  std::vector<std::uint16_t> by_spine = {all[0], all[1]};
  std::unique_ptr<DeadSpine> dead;
  Capture capture("spine1", "l0");
  VerbsStream stream;
  stream.options.slots = 16;  // number of writes in flight when the path dies
  stream.options.source_ports = [&](Endpoint) { return by_spine; };
  using Clock = std::chrono::steady_clock;
  Clock::time_point last;
  Clock::duration pause{};
  stream.before_message = [&](VerbsTransport& /*transport*/, int message) {
    if (message == 40) dead = std::make_unique<DeadSpine>(0);
    const Clock::time_point now = Clock::now();
    if (message > 40) pause = std::max(pause, now - last);
    last = now;
  };
  stream.Run(200);
  // For docs/benchmarks.md: the sender's longest wait for a slot.
  std::cout << "resumed after "
            << std::chrono::duration_cast<std::chrono::milliseconds>(pause).count() << " ms\n";
  EXPECT_TRUE(PortsOf(capture.Take(), rdma::AddressOfHost(0, false)).contains(by_spine[1]));
}

// Lost acknowledgements are a dead path, too, although every message has arrived.
TEST(VerbsTransport, LosesAndDoublesNothingWhenThePathBackDies) {
  std::deque<DeadSpine> dead;
  VerbsStream stream;
  stream.options.slots = 16;
  stream.options.queue_pairs = 4;
  stream.before_message = [&](VerbsTransport& /*transport*/, int message) {
    if (message == 80) dead.clear();
    if (message != 40 && message != 120) return;
    for (const int spine : {0, 1}) dead.emplace_back(message == 40 ? spine : 2 + spine);
  };
  stream.Run(200);
}

}  // namespace
}  // namespace espalier::transport
