#pragma once

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/http/http.h"
#include "common/http/http_server.h"
#include "common/loop/asio_event_loop.h"
#include "controller/api/operator_api.h"
#include "deploy/cli/operator/operator_commands.h"
#include "deploy/cli/operator/report_commands.h"
#include "tests/controller/cluster.h"
#include "tests/temporary_folder.h"

namespace espalier::cli {

// The command line against a controller's API, over a real unix socket.
class OperatorCommandsTest : public testing::Test {
 protected:
  OperatorCommandsTest()
      : cluster_({.spines = 2, .leaves = 2, .hosts_per_leaf = 2}),
        api_(cluster_.controller(), metrics_, [] { return io::HttpResponse{}; }) {
    cluster_.ConnectAll();
    cluster_.Open(0, {{.id = 5, .to = 2, .job = "A"}});
    cluster_.Settle();
    auto server = io::HttpServer::Listen(
        loop_, address_, [this](const io::HttpRequest& request, io::HttpServer::Respond respond) {
          if (request.query.contains("limit")) ++pages_;
          api_.Handle(request, std::move(respond));
          cluster_.Settle();
        });
    EXPECT_TRUE(server.has_value()) << server.error().message;
    server_ = std::move(*server);
    thread_ = std::thread([this] { loop_.Run(); });
  }
  ~OperatorCommandsTest() override {
    loop_.Stop();
    thread_.join();
  }

  struct Outcome {
    int exit_code = -1;
    std::string out;
    std::string err;
  };
  Outcome Run(std::vector<std::string> arguments) {
    CLI::App app;
    Outcome outcome;
    AddOperatorCommands(app, outcome.exit_code);
    AddReportCommands(app, outcome.exit_code);
    arguments.insert(arguments.end(), {"--controller", address_});
    std::reverse(arguments.begin(), arguments.end());  // CLI11 reads them from the back
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    try {
      app.parse(arguments);
    } catch (const CLI::ParseError& error) {
      outcome.exit_code = 2;
    }
    AwaitServer();
    std::fflush(stdout);
    outcome.out = testing::internal::GetCapturedStdout();
    outcome.err = testing::internal::GetCapturedStderr();
    return outcome;
  }

  // Waits until the server has handled all that it was asked: it still uses the cluster for a
  // moment after its answer has been read.
  void AwaitServer() {
    std::promise<void> done;
    loop_.Post([&] { done.set_value(); });
    done.get_future().wait();
  }

  Metrics metrics_;
  controller::Cluster cluster_;
  controller::OperatorApi api_;
  TemporaryFolder folder_;
  std::string address_ = "unix:" + folder_.path() + "/api.sock";
  io::AsioEventLoop loop_;
  std::unique_ptr<io::HttpServer> server_;
  std::thread thread_;
  std::atomic<int> pages_ = 0;  // that were asked for
};

}  // namespace espalier::cli
