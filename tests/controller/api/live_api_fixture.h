#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/identity/access_tokens.h"
#include "controller/api/http/http_guard.h"
#include "controller/api/operator_api.h"
#include "tests/controller/api/json_schema.h"
#include "tests/controller/cluster.h"

namespace espalier::controller {

using io::JsonValue;

inline constexpr const char* kToken = "esp_token";
inline constexpr fabric::LeafSpineOptions kShape{.spines = 2, .leaves = 2, .hosts_per_leaf = 2};

class LiveApiTest : public testing::Test {
 protected:
  static ControllerOptions Options() {
    ControllerOptions options;
    options.fabric_hashes_protocol = false;  // what UDP probes learn holds for TCP
    return options;
  }
  LiveApiTest()
      : cluster_(kShape, Options()),
        api_(cluster_.controller(), metrics_,
             [] { return io::HttpResponse{.body = "{\"reloaded\": true}\n"}; }),
        guard_(
            tokens_, [] { return WallTime{}; }, [](const auto&, const auto&) {},
            [this](const io::HttpRequest& request, io::HttpServer::Respond respond) {
              api_.Handle(request, std::move(respond));
            }) {
    const Result<void> added = tokens_.Add(
        {.name = "ada", .role = identity::Role::kViewer, .sha256 = identity::HashToken(kToken)});
    EXPECT_TRUE(added.has_value());
    cluster_.ConnectAll();
    cluster_.Open(0, {{.id = 5, .to = 2, .job = "A"}});
    cluster_.Open(1, {{.id = 6, .to = 3, .job = "B"}});
    cluster_.Settle();
  }

  io::HttpResponse Call(const std::string& method, const std::string& path,
                        std::map<std::string, std::string> query = {},
                        std::map<std::string, std::string> headers = {},
                        const std::string& body = "") {
    std::optional<io::HttpResponse> answer;
    guard_.Handle({.method = method,
                   .path = path,
                   .query = std::move(query),
                   .body = body,
                   .headers = std::move(headers),
                   .from_unix_socket = true,
                   .peer = "user ada"},
                  [&](io::HttpResponse response) { answer = std::move(response); });
    cluster_.Settle();
    EXPECT_TRUE(answer.has_value()) << path;
    return answer.value_or(io::HttpResponse{});
  }
  static JsonValue Parse(const std::string& text) {
    auto parsed = io::ParseJson(text, "answer");
    EXPECT_TRUE(parsed.has_value()) << text;
    return parsed.value_or(JsonValue{});
  }
  JsonValue Description() { return Parse(Call("GET", "/api/v1/openapi.json").body); }

  // A server-sent event.
  struct Event {
    std::string name;
    JsonValue data;
  };
  Event Take(io::HttpStream& stream) {
    const auto next = stream.Next();
    if (!next) return {};
    const std::string& piece = *next;
    const std::size_t data = piece.find("\ndata: ");
    if (!piece.starts_with("event: ") || data == std::string::npos) return {};
    EXPECT_TRUE(piece.ends_with("}\n\n"));
    return {piece.substr(7, piece.find('\n') - 7), Parse(piece.substr(data + 7))};
  }
  int Count(const std::string& counter) {
    const std::string text = metrics_.Text();
    const std::size_t at = text.find("\n" + counter + " ");
    return at == std::string::npos ? -1 : std::stoi(text.substr(at + counter.size() + 2));
  }
  std::shared_ptr<io::HttpStream> Connect() { return Call("GET", "/api/v1/stream").stream; }
  void Refresh() { cluster_.Advance(std::chrono::milliseconds(600)); }

  Metrics metrics_;
  Cluster cluster_;
  OperatorApi api_;
  identity::AccessTokens tokens_;
  HttpGuard guard_;
};

inline std::set<std::string> Names(const JsonValue& data, const char* part, const char* key) {
  std::set<std::string> names;
  if (const JsonValue* records = data.Find(part)) {
    for (const JsonValue& record : records->items) names.insert(record.Find(key)->text);
  }
  return names;
}

}  // namespace espalier::controller
