#pragma once

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "common/files/json.h"
#include "controller/api/operator_api.h"
#include "tests/controller/cluster.h"

namespace espalier::controller {

// The API of a controller with four hosts, two of which send to the other two.
class OperatorApiFixture : public testing::Test {
 protected:
  OperatorApiFixture()
      : cluster_({.spines = 2, .leaves = 2, .hosts_per_leaf = 2}),
        api_(cluster_.controller(), metrics_, [] { return io::HttpResponse{}; }) {
    cluster_.ConnectAll();
    cluster_.Open(0, {{.id = 5, .to = 2, .job = "A"}});
    cluster_.Open(1, {{.id = 6, .to = 3, .job = "A"}});
    cluster_.Settle();
  }

  io::HttpResponse Call(const std::string& method, const std::string& path,
                        std::map<std::string, std::string> query = {},
                        const std::string& body = {}) {
    std::optional<io::HttpResponse> answer;
    api_.Handle({.method = method,
                 .path = path,
                 .query = std::move(query),
                 .body = body,
                 .from_unix_socket = true,
                 .peer = "user ada"},
                [&](io::HttpResponse response) { answer = std::move(response); });
    cluster_.Settle();
    EXPECT_TRUE(answer.has_value()) << path;
    return answer.value_or(io::HttpResponse{});
  }
  io::JsonValue Json(const io::HttpResponse& response) {
    auto parsed = io::ParseJson(response.body, "answer");
    EXPECT_TRUE(parsed.has_value()) << response.body;
    return parsed.value_or(io::JsonValue{});
  }

  Metrics metrics_;
  Cluster cluster_;
  OperatorApi api_;
};

}  // namespace espalier::controller
