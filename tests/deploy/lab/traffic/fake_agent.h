#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "agent/local/local_server.h"
#include "common/loop/asio_event_loop.h"

namespace espalier::traffic {

// The agent's end of the local API on a separate thread. A rule of the test gives each flow its
// path set; it is called every millisecond on that thread.
class FakeAgent {
 public:
  using Rule = std::function<std::optional<wire::PathSet>(const agent::FlowSample&)>;

  FakeAgent(const std::string& path, Rule rule) : rule_(std::move(rule)) {
    std::promise<void> listening;
    thread_ = std::thread([this, path, &listening] { Run(path, listening); });
    listening.get_future().wait();
  }
  ~FakeAgent() {
    loop_.Stop();
    thread_.join();
  }
  FakeAgent(const FakeAgent&) = delete;
  FakeAgent& operator=(const FakeAgent&) = delete;

 private:
  void Run(const std::string& path, std::promise<void>& listening) {
    auto server = agent::LocalServer::Listen(
        loop_, {.path = path, .has_flows = [](const IpAddress&) { return true; }}, metrics_);
    ASSERT_TRUE(server.has_value()) << server.error().message;
    server_ = std::move(*server);
    TimerPtr watch = loop_.WatchReadable(server_->fd(), [this] { server_->HandleReady(); });
    Ask();
    listening.set_value();
    loop_.Run();
    timer_.reset();
    watch.reset();
    server_.reset();
  }

  void Ask() {
    for (const agent::FlowSample& flow : server_->Flows()) {
      if (const std::optional<wire::PathSet> paths = rule_(flow)) {
        EXPECT_TRUE(server_->Apply(*paths).has_value());
      }
    }
    timer_ = loop_.After(std::chrono::milliseconds(1), [this] { Ask(); });
  }

  Rule rule_;
  io::AsioEventLoop loop_;
  Metrics metrics_;
  std::unique_ptr<agent::LocalServer> server_;
  TimerPtr timer_;
  std::thread thread_;
};

inline wire::PathSet OnePath(const agent::FlowSample& flow, std::uint16_t port,
                             wire::PathReason reason) {
  return {.flow = flow.id, .paths = {{.source_port = port}}, .reason = reason};
}

}  // namespace espalier::traffic
