#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "common/files/json.h"
#include "controller/api/lists/list_writer.h"
#include "controller/api/operator_api.h"
#include "tests/controller/cluster.h"

namespace espalier::controller {

// Long lists of a fabric with some hundred nodes and links.
class LongLists : public testing::Test {
 protected:
  static constexpr int kHosts = 512;

  LongLists()
      : cluster_({.spines = 4, .leaves = 64, .hosts_per_leaf = 8}),
        api_(cluster_.controller(), metrics_, [] { return io::HttpResponse{}; }) {}

  // The list of `array`, and the number of other turns while it was written.
  struct Written {
    io::JsonValue list;
    std::size_t turns_of_others = 0;
  };
  Written Write(const std::string& path, std::map<std::string, std::string> query = {}) {
    std::optional<io::HttpResponse> answer;
    api_.Handle({.method = "GET",
                 .path = path,
                 .query = std::move(query),
                 .from_unix_socket = true,
                 .peer = "user ada"},
                [&](io::HttpResponse response) { answer = std::move(response); });
    Written written;
    const std::function<void()> turn = [&] {
      if (answer) return;
      ++written.turns_of_others;
      cluster_.controller().loop().Post(turn);
    };
    turn();
    cluster_.Settle();
    EXPECT_TRUE(answer.has_value()) << path;
    auto parsed = io::ParseJson(answer.value_or(io::HttpResponse{}).body, path);
    EXPECT_TRUE(parsed.has_value()) << path;
    written.list = parsed.value_or(io::JsonValue{});
    return written;
  }
  // Other work had a turn after every kListItemsPerTurn items.
  static void ExpectInPieces(const Written& written, std::size_t items) {
    EXPECT_GE(items, 2 * kListItemsPerTurn);
    EXPECT_GE(written.turns_of_others, items / kListItemsPerTurn);
  }

  Metrics metrics_;
  Cluster cluster_;
  OperatorApi api_;
};

}  // namespace espalier::controller
