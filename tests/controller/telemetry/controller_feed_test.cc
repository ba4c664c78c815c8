#include "controller/telemetry/controller_feed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <vector>

#include "common/fabric/builders.h"
#include "common/files/json.h"
#include "common/http/http_server.h"
#include "common/net/socket_address.h"
#include "controller/telemetry/datagram_socket.h"
#include "tests/common/loop/asio_harness.h"

namespace espalier::telemetry {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class FeedTest : public testing::Test {
 protected:
  // Serves as a controller that answers with this status.
  void Serve(int status) {
    server_ = io::HttpServer::Listen(loop_, "127.0.0.1:0",
                                     io::HttpServer::Handler([this, status](const auto& request) {
                                       requests_.push_back(request);
                                       return io::HttpResponse{status, "application/json", "{}"};
                                     }))
                  .value();
  }
  Collector::Load Load(int link, bool forward, double bps) const {
    return {{fabric::LinkId(link), forward}, bps};
  }

  io::AsioEventLoop loop_;
  const fabric::Topology topology_ = *fabric::Topology::Build(*fabric::BuildLeafSpine({}));
  Metrics metrics_;
  std::vector<io::HttpRequest> requests_;
  std::unique_ptr<io::HttpServer> server_;
};

TEST_F(FeedTest, ReportsLoadsAsTheControllerReadsThem) {
  Serve(200);
  ControllerFeed feed(loop_, topology_,
                      {.controller = server_->address(),
                       .access = {.headers = {{"Authorization", "Bearer x"}}},
                       .max_age = 7s},
                      metrics_);
  feed.SendLoads({});
  feed.SendLoads({Load(20, true, 1e9), Load(20, false, 2.4)});
  // While a report is on its way, others wait, and the latest load of a link counts.
  feed.SendLoads({Load(21, true, 5)});
  feed.SendLoads({Load(21, true, 6)});
  ASSERT_TRUE(io::RunUntil(loop_, [&] {
    feed.SendLoads({});
    return requests_.size() == 2;
  }));
  EXPECT_EQ(requests_[0].method, "POST");
  EXPECT_EQ(requests_[0].path, "/api/v1/links/load");
  EXPECT_EQ(requests_[0].headers.at("authorization"), "Bearer x");
  const auto body = io::ParseJson(requests_[0].body, "body");
  ASSERT_TRUE(body);
  EXPECT_EQ(body->Find("source")->text, "sflow");
  const auto& loads = body->Find("loads")->items;
  ASSERT_EQ(loads.size(), 2U);
  EXPECT_EQ(loads[0].Find("link")->text, topology_.DirectionName({fabric::LinkId(20), true}));
  EXPECT_EQ(loads[0].Find("bps")->text, "1000000000");
  EXPECT_EQ(loads[1].Find("bps")->text, "2");
  EXPECT_THAT(requests_[1].body, HasSubstr("\"bps\":6"));
  EXPECT_EQ(feed.problem(), "");
}

TEST_F(FeedTest, ReportsTheFlowsThatSwitchesSaw) {
  Serve(200);
  ControllerFeed feed(loop_, topology_, {.controller = server_->address()}, metrics_);
  SampledFlows::Flow flow{.key = {.source = IpAddress::FromV4(0x0A000001),
                                  .destination = IpAddress::FromV4(0x0A020001),
                                  .source_port = 50'000,
                                  .destination_port = 4'791,
                                  .queue_pair = 17,
                                  .protocol = 17},
                          .links = {{.link = {fabric::LinkId(20), true}, .samples = 9}},
                          .bps = 1e9,
                          .error = 0.5};
  feed.SendFlows({flow}, 4s);
  feed.SendFlows({flow}, 5s);  // the one before is on its way
  ASSERT_TRUE(io::RunUntil(loop_, [&] { return !requests_.empty(); }));
  EXPECT_EQ(requests_[0].path, "/api/v1/flows/seen");
  const auto body = io::ParseJson(requests_[0].body, "body");
  ASSERT_TRUE(body);
  EXPECT_EQ(body->Find("window_seconds")->text, "4.0");
  const io::JsonValue& seen = body->Find("flows")->items.at(0);
  EXPECT_EQ(seen.Find("source")->text, "10.0.0.1");
  EXPECT_EQ(seen.Find("queue_pair")->text, "17");
  EXPECT_EQ(seen.Find("bps")->text, "1000000000");
  EXPECT_EQ(seen.Find("links")->items.at(0).Find("samples")->text, "9");
}

TEST_F(FeedTest, SaysWhyTheControllerDoesNotTakeReports) {
  Serve(404);
  ControllerFeed feed(loop_, topology_, {.controller = server_->address()}, metrics_);
  feed.SendLoads({Load(20, true, 1)});
  ASSERT_TRUE(io::RunUntil(loop_, [&] { return !feed.problem().empty(); }));
  EXPECT_THAT(feed.problem(), HasSubstr("404"));
  const std::string gone = server_->address();
  server_.reset();
  feed.SendLoads({Load(20, true, 1)});
  ASSERT_TRUE(io::RunUntil(loop_, [&] { return !feed.problem().ends_with("{}"); }));
  EXPECT_THAT(feed.problem(), HasSubstr(gone));
}

TEST(DatagramSocket, ReadsMoreThanABatchWithItsSources) {
  auto socket = DatagramSocket::Open("127.0.0.1:0", 1 << 20);
  ASSERT_TRUE(socket) << socket.error().message;
  EXPECT_GT(socket->buffer_bytes(), 0U);
  const io::SocketAddress to = io::ParseSocketAddress(socket->address()).value();
  const UniqueFd sender(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  constexpr std::size_t kSent = DatagramSocket::kBatch + 10;
  for (std::size_t i = 0; i < kSent; ++i) {
    const std::string text(i, 'x');
    ASSERT_EQ(sendto(sender.get(), text.data(), i, 0, to.get(), to.size), static_cast<ssize_t>(i));
  }
  std::size_t got = 0;
  socket->Read(4, [&](const IpAddress& source, std::span<const std::uint8_t> bytes) {
    EXPECT_EQ(source.ToString(), "127.0.0.1");
    EXPECT_EQ(bytes.size(), got);
    ++got;
  });
  EXPECT_EQ(got, kSent);
  EXPECT_FALSE(DatagramSocket::Open(socket->address(), 1)) << "the port is taken";
  EXPECT_FALSE(DatagramSocket::Open("unix:/tmp/x", 1));
}

}  // namespace
}  // namespace espalier::telemetry
