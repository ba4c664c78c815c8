#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <map>
#include <random>

#include "agent/local/local_protocol.h"
#include "common/os/message_socket.h"
#include "tests/agent/local/local_api_fixture.h"

// Clients that do not use the library.
namespace espalier::agent {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

class HostileClient {
 public:
  explicit HostileClient(const std::string& path) : socket_(std::move(*ConnectToPath(path))) {}
  void Send(const void* bytes, std::size_t size) {
    EXPECT_EQ(send(socket_.get(), bytes, size, MSG_NOSIGNAL), static_cast<ssize_t>(size));
  }
  void SendHello(std::uint32_t version) { Send(&version, sizeof(version)); }
  void Wake() {
    const std::uint32_t wake = ESPALIER_LOCAL_WAKE;
    Send(&wake, sizeof(wake));
  }
  espalier_local_welcome ReceiveWelcome() {
    espalier_local_welcome welcome{};
    auto message = ReceiveMessage(socket_.get(), &welcome, sizeof(welcome), false);
    EXPECT_TRUE(message && message->bytes == sizeof(welcome));
    if (message) file_ = std::move(message->file);
    return welcome;
  }
  espalier_local_memory& Map() {
    void* mapped = mmap(nullptr, sizeof(espalier_local_memory), PROT_READ | PROT_WRITE, MAP_SHARED,
                        file_.get(), 0);
    EXPECT_NE(mapped, MAP_FAILED);
    return *static_cast<espalier_local_memory*>(mapped);
  }
  int file() const { return file_.get(); }
  bool IsDisconnected() {
    char byte = 0;
    ssize_t size = 0;
    while ((size = recv(socket_.get(), &byte, 1, MSG_DONTWAIT)) > 0) {
    }
    return size == 0;
  }

 private:
  UniqueFd socket_;
  UniqueFd file_;
};

TEST_F(LocalApi, DropsClientsWithoutAProperHello) {
  espalier_agent* good = Connect();
  Open(good);
  const std::string empty;
  for (const std::size_t size : {1U, 3U, 5U, 64U, 65U, 4096U}) {
    HostileClient client(path_);
    const std::string garbage(size, '\1');
    client.Send(garbage.data(), garbage.size());
    Turn();
    EXPECT_EQ(client.ReceiveWelcome().status, static_cast<std::uint32_t>(EPROTO)) << size;
    EXPECT_TRUE(client.IsDisconnected()) << size;
  }
  HostileClient later(path_);
  later.SendHello(ESPALIER_LOCAL_VERSION + 1);
  Turn();
  const espalier_local_welcome welcome = later.ReceiveWelcome();
  EXPECT_EQ(welcome.status, static_cast<std::uint32_t>(EPROTO));
  EXPECT_EQ(welcome.version, ESPALIER_LOCAL_VERSION);
  EXPECT_THAT(server_->Flows(), SizeIs(1));
  espalier_agent_close(good);
}

TEST_F(LocalApi, DropsClientsThatSendAnythingButWakeUps) {
  for (const std::size_t size : {1U, 4U, 8U, 100U}) {
    HostileClient client(path_);
    client.SendHello(ESPALIER_LOCAL_VERSION);
    const std::string garbage(size, 'x');
    client.Send(garbage.data(), garbage.size());
    Turn();
    EXPECT_EQ(client.ReceiveWelcome().status, 0u);
    EXPECT_TRUE(client.IsDisconnected()) << size;
  }
}

TEST_F(LocalApi, MemoryCannotBeResizedByAClient) {
  HostileClient client(path_);
  client.SendHello(ESPALIER_LOCAL_VERSION);
  Turn();
  EXPECT_EQ(client.ReceiveWelcome().status, 0u);
  EXPECT_EQ(ftruncate(client.file(), 0), -1);
  EXPECT_EQ(ftruncate(client.file(), 1 << 30), -1);
}

TEST_F(LocalApi, OneSerialInTwoSlotsEndsTheConnection) {
  HostileClient client(path_);
  client.SendHello(ESPALIER_LOCAL_VERSION);
  Turn();
  client.ReceiveWelcome();
  espalier_local_memory& memory = client.Map();
  memory.header.slots_used = 2;
  for (std::size_t i = 0; i < 2; ++i) {
    memory.slots[i].flow = Desc();
    memory.slots[i].owner = 1;
  }
  client.Wake();
  Turn();
  EXPECT_TRUE(client.IsDisconnected());
  EXPECT_THAT(server_->Flows(), IsEmpty());
}

TEST_F(LocalApi, GarbageInSharedMemoryHarmsOnlyItsWriter) {
  std::mt19937_64 random(1);
  espalier_agent* good = Connect();
  espalier_flow* flow = Open(good, Desc("kept"));
  for (int round = 0; round < 50; ++round) {
    HostileClient client(path_);
    client.SendHello(ESPALIER_LOCAL_VERSION);
    Turn();
    ASSERT_EQ(client.ReceiveWelcome().status, 0u);
    espalier_local_memory& memory = client.Map();
    auto* const bytes = reinterpret_cast<std::uint64_t*>(&memory);
    for (std::size_t i = 0; i < sizeof(memory) / 8; ++i) bytes[i] = random();
    if (round % 2 == 0) {  // valid slots with garbage as progress
      for (espalier_local_slot& slot : memory.slots) slot.flow = Desc();
    }
    client.Wake();
    Turn();
    for (const FlowSample& sample : server_->Flows()) {
      EXPECT_LE(std::max({sample.remaining_bytes, sample.outstanding_bytes, sample.sent_bytes}),
                (std::uint64_t{1} << 63) - 1);
      wire::PathSet set;
      set.flow = sample.id;
      set.paths = {{.source_port = 50000, .encoding = {}}};
      EXPECT_TRUE(server_->Apply(set));
    }
    EXPECT_EQ(client.IsDisconnected(), round % 2 == 1);
    munmap(&memory, sizeof(memory));
  }
  Turn();
  ASSERT_THAT(server_->Flows(), SizeIs(1));
  EXPECT_EQ(server_->Flows()[0].id.value(), espalier_flow_id(flow));
  espalier_agent_close(good);
}

TEST_F(LocalApi, SilentConnectionsGiveWayToPrograms) {
  Start({.max_clients = 4});
  std::vector<std::unique_ptr<HostileClient>> silent;
  for (int i = 0; i < 4; ++i) silent.push_back(std::make_unique<HostileClient>(path_));
  Turn();
  espalier_agent* agent = Connect();
  Open(agent);
  Turn();
  EXPECT_THAT(server_->Flows(), SizeIs(1));
  EXPECT_TRUE(silent[0]->IsDisconnected());
  EXPECT_FALSE(silent[3]->IsDisconnected());
  espalier_agent_close(agent);
}

TEST_F(LocalApi, FloodOfWakeUpsIsSurvived) {
  HostileClient client(path_);
  client.SendHello(ESPALIER_LOCAL_VERSION);
  Turn();
  client.ReceiveWelcome();
  for (int round = 0; round < 100; ++round) {
    client.Wake();
    client.Wake();
    client.Wake();
    server_->HandleReady();
  }
  Turn();
  EXPECT_FALSE(client.IsDisconnected());
}

// A client of another user of this host, or of this one.
std::unique_ptr<HostileClient> ConnectAs(uid_t user, const std::string& path) {
  const uid_t own = ::geteuid();
  EXPECT_EQ(::seteuid(user), 0);
  auto client = std::make_unique<HostileClient>(path);
  EXPECT_EQ(::seteuid(own), 0);
  client->SendHello(ESPALIER_LOCAL_VERSION);
  return client;
}

void WriteFlows(espalier_local_memory& memory, std::uint32_t count) {
  for (std::uint32_t slot = 0; slot < count; ++slot) {
    memory.slots[slot].flow = Desc();
    memory.slots[slot].owner = slot + 1;
  }
  memory.header.slots_used = count;
}

constexpr uid_t kFirst = 61'001;
constexpr uid_t kSecond = 61'002;
constexpr uid_t kThird = 61'003;

// Two user ids once took all clients.
TEST_F(LocalApi, TwoUsersLeaveClientsForAThird) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become other users";
  Start({.max_clients = 9, .max_clients_of_user = 6});
  std::filesystem::permissions(folder_, std::filesystem::perms(0755));
  std::vector<std::unique_ptr<HostileClient>> clients;
  const auto connect = [&](uid_t user) {
    clients.push_back(ConnectAs(user, path_));
    Turn();
    return clients.back()->ReceiveWelcome().status == 0;
  };
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(connect(kFirst));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(connect(kSecond));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(connect(kThird)) << i;
  EXPECT_FALSE(connect(kThird)) << "everybody has three";
  EXPECT_FALSE(connect(kFirst));
  int gone = 0;
  for (int i = 0; i < 6; ++i)
    gone += clients[static_cast<std::size_t>(i)]->IsDisconnected() ? 1 : 0;
  EXPECT_EQ(gone, 3) << "of the user with the most";
  EXPECT_FALSE(clients[0]->IsDisconnected()) << "its newest clients go first";
}

// Two user ids once took all flows.
TEST_F(LocalApi, TwoUsersLeaveFlowsForAThird) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become other users";
  Start({.max_flows = 90, .max_flows_of_user = 60});
  std::filesystem::permissions(folder_, std::filesystem::perms(0755));
  std::map<uid_t, std::unique_ptr<HostileClient>> clients;
  const auto open = [&](uid_t user, std::uint32_t count) {
    auto& client = clients[user];
    if (client == nullptr) {
      client = ConnectAs(user, path_);
      Turn();
      EXPECT_EQ(client->ReceiveWelcome().status, 0U);
    }
    espalier_local_memory& memory = client->Map();
    WriteFlows(memory, count);
    client->Wake();
    Turn();
    munmap(&memory, sizeof(memory));
  };
  const auto count = [&] {
    std::map<BudgetOwner, int> counts;
    for (const FlowSample& flow : server_->Flows()) ++counts[flow.user];
    return counts;
  };
  open(kFirst, 100);
  EXPECT_EQ(count()[kFirst], 60);
  for (const FlowSample& flow :
       std::vector<FlowSample>(server_->Flows().begin(), server_->Flows().end())) {
    EXPECT_TRUE(server_->Apply(
        {.flow = flow.id, .paths = {{.source_port = 50'001}}, .max_rate_bps = 1'000}));
  }
  open(kSecond, 30);
  EXPECT_EQ(count()[kSecond], 30);
  open(kThird, 1);
  EXPECT_EQ(count()[kThird], 1);
  open(kThird, 100);
  for (const uid_t user : {kFirst, kSecond, kThird}) EXPECT_EQ(count()[user], 30) << user;
  open(kFirst, 1'000);
  for (const uid_t user : {kFirst, kSecond, kThird}) EXPECT_EQ(count()[user], 30) << user;
  EXPECT_EQ(server_->Flows()[29].id.value() & UINT32_MAX, 30U) << "its oldest flows stay";
  espalier_local_memory& memory = clients[kFirst]->Map();
  for (std::size_t i = 0; i < 60; ++i) {
    const auto& set = memory.slots[i].paths.set;
    EXPECT_EQ(set.path_count, i < 30 ? 1U : 0U) << "nobody adapts the others' rates any more " << i;
    EXPECT_EQ(set.max_rate_bps, i < 30 ? 1'000U : 0U);
  }
  munmap(&memory, sizeof(memory));
  clients.erase(kSecond);
  Turn();
  open(kThird, 100);
  EXPECT_EQ(count()[kThird], 60) << "its own limit";
}

// Such flows once made the agent probe from each of their addresses.
TEST_F(LocalApi, FlowsOfNoFabricStayUnreported) {
  HostileClient client(path_);
  client.SendHello(ESPALIER_LOCAL_VERSION);
  Turn();
  client.ReceiveWelcome();
  espalier_local_memory& memory = client.Map();
  const std::vector<const char*> addresses = {"127.0.0.1", "127.9.8.7",      "0.1.2.3", "224.0.0.1",
                                              "240.0.0.1", "169.254.1.1",    "::1",     "fe80::1",
                                              "ff02::1",   "255.255.255.255"};
  WriteFlows(memory, static_cast<std::uint32_t>(2 * addresses.size() + 1));
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    SetAddress(memory.slots[2 * i].flow.source, addresses[i]);
    SetAddress(memory.slots[2 * i + 1].flow.destination, addresses[i]);
  }
  client.Wake();
  Turn();
  ASSERT_THAT(server_->Flows(), SizeIs(1));
  EXPECT_EQ(server_->Flows()[0].source.ToString(), "10.0.0.1");
  EXPECT_FALSE(client.IsDisconnected());
  munmap(&memory, sizeof(memory));
}

TEST_F(LocalApi, UnreportedFlowsDisplaceNobodysFlows) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
  Start({.max_flows = 40});
  std::filesystem::permissions(folder_, std::filesystem::perms(0755));
  const auto victim = ConnectAs(kFirst, path_);
  const auto client = ConnectAs(kSecond, path_);
  Turn();
  victim->ReceiveWelcome();
  client->ReceiveWelcome();
  espalier_local_memory& flows = victim->Map();
  WriteFlows(flows, 40);
  victim->Wake();
  espalier_local_memory& memory = client->Map();
  WriteFlows(memory, 40);
  for (auto& slot : memory.slots) SetAddress(slot.flow.source, "127.0.0.1");
  client->Wake();
  Turn();
  EXPECT_THAT(server_->Flows(), SizeIs(40));
  EXPECT_EQ(server_->Flows()[39].user, kFirst);
  munmap(&flows, sizeof(flows));
  munmap(&memory, sizeof(memory));
}

// One user could once take all clients and flows of the agent.
TEST_F(LocalApi, OneUserLeavesRoomForOthers) {
  Start({.max_clients = 6, .max_flows = 8, .max_clients_of_user = 4, .max_flows_of_user = 5});
  std::vector<std::unique_ptr<HostileClient>> clients;
  for (int i = 0; i < 6; ++i) {
    clients.push_back(std::make_unique<HostileClient>(path_));
    clients.back()->SendHello(ESPALIER_LOCAL_VERSION);
    Turn();
    EXPECT_EQ(clients.back()->ReceiveWelcome().status,
              static_cast<std::uint32_t>(i < 4 ? 0 : EUSERS));
  }
  espalier_local_memory& memory = clients.front()->Map();
  for (std::uint32_t slot = 0; slot < 8; ++slot) {
    espalier_flow_desc& flow = memory.slots[slot].flow;
    flow = {};
    flow.protocol = 17;
    flow.max_paths = 1;
    flow.destination_port = 4791;
    flow.source[10] = flow.source[11] = flow.destination[10] = flow.destination[11] = 0xff;
    flow.source[12] = flow.destination[12] = 10;
    flow.source[15] = 1;
    flow.destination[15] = 2;
    memory.slots[slot].owner = slot + 1;
  }
  memory.header.slots_used = 8;
  clients.front()->Wake();
  Turn();
  EXPECT_THAT(server_->Flows(), SizeIs(5));
  // Any user can use what it releases.
  clients.clear();
  Turn();
  EXPECT_THAT(server_->Flows(), IsEmpty());
  HostileClient next(path_);
  next.SendHello(ESPALIER_LOCAL_VERSION);
  Turn();
  EXPECT_EQ(next.ReceiveWelcome().status, 0U);
}

}  // namespace
}  // namespace espalier::agent
