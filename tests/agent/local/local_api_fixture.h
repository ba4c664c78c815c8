#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "agent/local/espalier_agent.h"
#include "agent/local/local_server.h"
#include "tests/agent/manual_loop.h"

namespace espalier::agent {

inline std::string MakeFolder() {
  std::string folder = ::testing::TempDir() + "/espalier-local-XXXXXX";
  EXPECT_NE(mkdtemp(folder.data()), nullptr);
  return folder;
}

// A server in a folder of its own, whose work the test triggers.
class LocalApi : public ::testing::Test {
 protected:
  void SetUp() override { Start({}); }
  void TearDown() override {
    server_.reset();
    std::filesystem::remove_all(folder_);
  }

  void Start(LocalServerOptions options) {
    server_.reset();
    options.path = path_;
    auto server = LocalServer::Listen(loop_, options, metrics_);
    ASSERT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
    server_->OnChange([this] { ++changes_; });
  }

  bool HasWork() const {
    pollfd ready{server_->fd(), POLLIN, 0};
    return poll(&ready, 1, 0) > 0;
  }
  void Turn() {
    while (HasWork()) server_->HandleReady();
    loop_.Advance(Duration::zero());
  }

  // Connects in a thread, as connecting waits for the server.
  espalier_agent* Connect(int expected = 0) {
    espalier_agent* agent = nullptr;
    auto connecting = std::async(std::launch::async,
                                 [&] { return espalier_agent_connect(path_.c_str(), &agent); });
    while (connecting.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
      pollfd ready{server_->fd(), POLLIN, 0};
      poll(&ready, 1, 1);
      server_->HandleReady();
    }
    EXPECT_EQ(connecting.get(), expected);
    return agent;
  }

  std::string folder_ = MakeFolder();
  std::string path_ = folder_ + "/agent.sock";
  ManualLoop loop_;
  Metrics metrics_;
  std::unique_ptr<LocalServer> server_;
  int changes_ = 0;
};

inline void SetAddress(std::uint8_t (&to)[16], const char* text) {
  const IpAddress::Bytes bytes = IpAddress::Parse(text).value().bytes();
  std::memcpy(to, bytes.data(), bytes.size());
}

inline espalier_flow_desc Desc(const char* job = "") {
  espalier_flow_desc desc{};
  std::snprintf(desc.job, sizeof desc.job, "%s", job);
  SetAddress(desc.source, "10.0.0.1");
  SetAddress(desc.destination, "10.1.0.1");
  desc.protocol = 17;
  desc.max_paths = 4;
  desc.movable = 1;
  desc.destination_port = 4791;
  desc.source_port = 50000;
  desc.remaining_bytes = 1 << 20;
  return desc;
}

inline espalier_flow* Open(espalier_agent* agent, const espalier_flow_desc& desc = Desc()) {
  espalier_flow* flow = nullptr;
  EXPECT_EQ(espalier_flow_open(agent, &desc, &flow), 0);
  return flow;
}

inline wire::PathSet Set(const espalier_flow* flow, const std::vector<std::uint16_t>& ports) {
  wire::PathSet set;
  set.flow = wire::LocalFlowId(espalier_flow_id(flow));
  for (const std::uint16_t port : ports) set.paths.push_back({.source_port = port, .encoding = {}});
  set.max_rate_bps = 1'000'000;
  set.reason = wire::PathReason::kPathDead;
  return set;
}

inline espalier_path_set Paths(const espalier_flow* flow) {
  espalier_path_set paths;
  espalier_flow_paths(flow, &paths);
  return paths;
}

inline bool Readable(const espalier_agent* agent) {
  pollfd ready{espalier_agent_fd(agent), POLLIN, 0};
  return poll(&ready, 1, 0) > 0;
}

}  // namespace espalier::agent
