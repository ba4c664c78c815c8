#include "agent/local/rank_plan_server.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <random>

#include "agent/local/rank_plan_client.h"
#include "agent/local/rank_plan_protocol.h"
#include "common/os/message_socket.h"
#include "tests/agent/manual_loop.h"
#include "tests/temporary_folder.h"

namespace espalier::agent {
namespace {

using namespace std::chrono_literals;

class RankPlanServerTest : public testing::Test {
 protected:
  void SetUp() override {
    auto server = RankPlanServer::Listen(loop_, {.path = socket_ + kPlanSocketSuffix}, metrics_);
    ASSERT_TRUE(server.has_value()) << server.error().message;
    server_ = std::move(*server);
  }
  std::unique_ptr<RankPlanClient> Connect(int rank) {
    auto client = RankPlanClient::Connect(socket_, "train", rank);
    EXPECT_TRUE(client.has_value());
    Settle();
    return std::move(*client);
  }
  void Settle() {
    for (int i = 0; i < 4; ++i) server_->HandleReady();
  }
  static wire::RankPlan Plan(std::uint32_t rank, std::uint64_t version) {
    wire::RankPlan plan;
    plan.job = "train";
    plan.rank = rank;
    plan.ranks = 4;
    plan.version = version;
    plan.program = "the program";
    plan.address = IpAddress::Parse("10.0.0.2").value();
    plan.listen_port = 4'791;
    plan.urgent = true;
    plan.peers = {{.rank = 0,
                   .address = IpAddress::Parse("10.0.0.1").value(),
                   .source_ports = {50'000, 50'001},
                   .destination_port = 4'792,
                   .channels = {0, 3}}};
    return plan;
  }
  std::int64_t Refused() {
    return metrics_.MakeCounter("espalier_agent_plan_clients_refused_total", "").Value();
  }

  TemporaryFolder folder_;
  const std::string socket_ = folder_.path() + "/agent.sock";
  Metrics metrics_;
  ManualLoop loop_;
  std::unique_ptr<RankPlanServer> server_;
};

TEST_F(RankPlanServerTest, ARankGetsItsPlanAndEachThatFollows) {
  server_->SetPlan(Plan(2, 7));
  server_->SetPlan(Plan(3, 7));
  const auto client = Connect(2);
  auto plan = client->Wait(1s);
  ASSERT_TRUE(plan.has_value() && plan->has_value());
  EXPECT_EQ((*plan)->version, 7U);
  EXPECT_EQ((*plan)->rank, 2);
  EXPECT_EQ((*plan)->ranks, 4);
  EXPECT_EQ((*plan)->address.ToString(), "10.0.0.2");
  EXPECT_EQ((*plan)->listen_port, 4'791);
  EXPECT_EQ((*plan)->first_address.ToString(), "10.0.0.1");
  EXPECT_EQ((*plan)->first_listen_port, 4'792);
  EXPECT_EQ((*plan)->program, "the program");
  EXPECT_TRUE((*plan)->urgent);
  ASSERT_EQ((*plan)->ports.size(), 2U);
  EXPECT_EQ((*plan)->ports[1].channel, 3);
  EXPECT_EQ((*plan)->ports[1].port, 50'001);
  server_->SetPlan(Plan(2, 8));
  plan = client->Wait(1s);
  ASSERT_TRUE(plan.has_value() && plan->has_value());
  EXPECT_EQ((*plan)->version, 8U);
  plan = client->Wait(0ms);
  EXPECT_TRUE(plan.has_value() && !plan->has_value());
}

TEST_F(RankPlanServerTest, ARankThatComesBeforeItsPlanWaitsForIt) {
  const auto client = Connect(1);
  EXPECT_FALSE(client->Wait(0ms)->has_value());
  server_->SetPlan(Plan(1, 9));
  EXPECT_EQ((*client->Wait(1s))->version, 9U);
  wire::RankPlan ended;
  ended.job = "train";
  ended.rank = 1;
  server_->SetPlan(ended);
  const auto over = client->Wait(1s);
  ASSERT_FALSE(over.has_value());
  EXPECT_EQ(over.error().message, "the agent says that the job has ended");
}

TEST_F(RankPlanServerTest, TakesReportsOnlyForTheClientsOwnRank) {
  std::vector<wire::CollectiveReport> reports;
  server_->OnReport([&](const wire::CollectiveReport& report) { reports.push_back(report); });
  const auto client = Connect(1);
  server_->SetPlan(Plan(1, 1));
  client->Report(0, 5, 4'096, 77us, "");
  client->Report(4, 6, 0, 0us, std::string(1'000, 'x'));
  Settle();
  ASSERT_EQ(reports.size(), 2U);
  EXPECT_EQ(reports[0].job, "train");
  EXPECT_EQ(reports[0].rank, 1U);
  EXPECT_EQ(reports[0].collective, "allreduce");
  EXPECT_EQ(reports[0].duration_us, 77U);
  EXPECT_EQ(reports[1].collective, "broadcast");
  EXPECT_EQ(reports[1].error.size(), 255U);
}

TEST_F(RankPlanServerTest, ClientsThatSpeakNonsenseAreDropped) {
  std::mt19937 random(3);
  for (int i = 0; i < 200; ++i) {
    const Result<UniqueFd> client = ConnectToPath(socket_ + kPlanSocketSuffix);
    ASSERT_TRUE(client);
    PlanRequest request;
    for (char& c : request.job) c = 'x';  // without an end
    std::string bytes(reinterpret_cast<const char*>(&request), sizeof(request));
    if (i % 2 == 0) bytes.resize(1 + random() % 900);
    if (i % 3 == 0) bytes[random() % bytes.size()] = static_cast<char>(random());
    send(client->get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    Settle();
    char byte = 0;
    EXPECT_EQ(recv(client->get(), &byte, 1, MSG_DONTWAIT), 0);
  }
  EXPECT_EQ(Refused(), 200);
}

TEST_F(RankPlanServerTest, TellsTheNicsOfConnections) {
  const auto address = [](const char* text) { return *IpAddress::Parse(text); };
  wire::RankPlan plan = Plan(1, 7);
  plan.listen_addresses = {address("10.2.0.7")};
  plan.peers.front().connections = {
      {.channel = 3, .source = address("10.2.0.7"), .destination = address("10.2.1.7")},
      {.channel = 9, .source = address("10.2.0.8"), .destination = address("10.2.1.8")}};
  server_->SetPlan(plan);
  const auto client = Connect(1);
  const auto got = client->Wait(1s);
  ASSERT_TRUE(got.has_value() && got->has_value());
  EXPECT_EQ((*got)->listen_addresses, plan.listen_addresses);
  const auto& ports = (*got)->ports;
  ASSERT_EQ(ports.size(), 3U);
  EXPECT_FALSE(ports[0].source || ports[0].destination) << "those of the ranks";
  EXPECT_EQ(ports[1].channel, 3);
  EXPECT_EQ(ports[1].port, 50'001);
  EXPECT_EQ(ports[1].source, address("10.2.0.7"));
  EXPECT_EQ(ports[1].destination, address("10.2.1.7"));
  EXPECT_EQ(ports[2].channel, 9);
  EXPECT_EQ(ports[2].port, 0) << "any";
  EXPECT_EQ(ports[2].source, address("10.2.0.8"));
}

TEST_F(RankPlanServerTest, DamagedPlanFilesAreRefused) {
  std::string bytes(sizeof(PlanFileHeader), '\0');
  EXPECT_FALSE(ParsePlanFile(bytes).has_value());
  EXPECT_FALSE(ParsePlanFile(bytes.substr(1)).has_value());
  PlanFileHeader header;
  header.ranks = 2;
  header.port_count = UINT64_MAX / 2;
  EXPECT_FALSE(ParsePlanFile({reinterpret_cast<const char*>(&header), sizeof(header)}).has_value());
  header.port_count = 0;
  header.listen_address_count = UINT64_MAX / 2;
  EXPECT_FALSE(ParsePlanFile({reinterpret_cast<const char*>(&header), sizeof(header)}).has_value());
  header.listen_address_count = 0;
  EXPECT_TRUE(ParsePlanFile({reinterpret_cast<const char*>(&header), sizeof(header)}).has_value());
}

TEST_F(RankPlanServerTest, WithoutAnAgentTheErrorSaysSo) {
  const auto none = RankPlanClient::Connect(folder_.path() + "/none", "train", 0);
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().code, ErrorCode::kUnavailable);
  EXPECT_FALSE(RankPlanClient::Connect(socket_, "", 0).has_value());
  EXPECT_FALSE(RankPlanClient::Connect(socket_, std::string(300, 'j'), 0).has_value());
  EXPECT_EQ(
      RankPlanServer::Listen(loop_, {.path = socket_ + kPlanSocketSuffix}, metrics_).error().code,
      ErrorCode::kAlreadyExists);
}

}  // namespace
}  // namespace espalier::agent
