// Who has a place and an answer at a server that strangers crowd: by sockets, and by the rules.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/http/connection_places.h"
#include "common/http/http.h"
#include "common/http/http_client.h"
#include "common/http/http_server.h"
#include "tests/common/http/http_harness.h"
#include "tests/common/loop/asio_harness.h"

namespace espalier::io {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(Http, TheSixtyFifthConnectionTakesThePlaceOfTheOneThatWaitsLongest) {
  const Serving serving("127.0.0.1:0", Echo);
  std::vector<std::unique_ptr<RawConnection>> connections;
  for (int i = 0; i < 64; ++i) {
    const std::string source = "127.0.0." + std::to_string(2 + i / 8);
    connections.push_back(std::make_unique<RawConnection>(serving.address(), source));
    connections.back()->Send("GET / HT");
  }
  EXPECT_EQ(serving.Fetch("GET", "/one-more").body, "GET /one-more []");
  EXPECT_EQ(connections.front()->ReadAll(), "");
  connections.back()->Send("TP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(connections.back()->ReadAll(), HasSubstr("GET / []"));
}

TEST(Http, TheNinthConnectionOfAStrangerTakesThePlaceOfItsFirst) {
  const Serving serving("127.0.0.1:0", Echo);
  const auto ask = [](RawConnection& connection) {
    connection.Send("GET /x HTTP/1.1\r\nHost: x\r\n\r\n");
    return connection.ReadUntil("GET /x []");
  };
  RawConnection other(serving.address(), "127.0.0.2");
  EXPECT_THAT(ask(other), HasSubstr("GET /x []"));
  std::vector<std::unique_ptr<RawConnection>> connections;
  for (int i = 0; i < 20; ++i) {
    connections.push_back(std::make_unique<RawConnection>(serving.address()));
    EXPECT_THAT(ask(*connections.back()), HasSubstr("GET /x []"));
  }
  for (int i = 0; i < 12; ++i) EXPECT_EQ(connections[static_cast<std::size_t>(i)]->ReadAll(), "");
  EXPECT_THAT(ask(other), HasSubstr("GET /x []"));
  for (int i = 12; i < 20; ++i) {
    EXPECT_THAT(ask(*connections[static_cast<std::size_t>(i)]), HasSubstr("GET /x []")) << i;
  }
}

TEST(Http, CallersThatAreKnownHaveMorePlaces) {
  const Serving serving("127.0.0.1:0", [](const HttpRequest& request) {
    HttpResponse answer = Echo(request);
    answer.is_to_known_caller = true;
    return answer;
  });
  std::vector<std::unique_ptr<RawConnection>> connections;
  for (int round = 0; round < 2; ++round) {
    for (std::size_t i = 0; i < 20; ++i) {
      if (round == 0) connections.push_back(std::make_unique<RawConnection>(serving.address()));
      connections[i]->Send("GET /x HTTP/1.1\r\nHost: x\r\n\r\n");
      EXPECT_THAT(connections[i]->ReadUntil("GET /x []"), HasSubstr("GET /x []")) << i;
    }
  }
}

TEST(Http, StrangersWhoDoNotReadKeepNobodyOut) {
  const std::string large(8 << 20, 'x');
  const Serving serving("127.0.0.1:0", [&](const HttpRequest& request) {
    return request.path == "/large" ? HttpResponse{200, "text/plain", large} : Echo(request);
  });
  std::vector<std::unique_ptr<RawConnection>> silent;
  for (int i = 0; i < 100; ++i) {
    const std::string source = "127.0.0." + std::to_string(2 + i / 8);
    silent.push_back(std::make_unique<RawConnection>(serving.address(), source));
    silent.back()->Send("GET /large HTTP/1.1\r\nHost: x\r\n\r\n");
    const auto health = HttpFetch(serving.address(), "GET", "/healthz", "", kPatience);
    ASSERT_TRUE(health) << i << ": " << health.error().message;
    EXPECT_EQ(health->body, "GET /healthz []") << i;
  }
  // The slowest readers give way when they are behind. Until then a stranger may be sent away.
  const auto ask = [&] { return HttpFetch(serving.address(), "GET", "/other", "", kPatience); };
  auto answer = ask();
  for (int i = 0; (!answer || answer->status != 200) && i < 10'000; ++i) {
    std::this_thread::sleep_for(5ms);
    answer = ask();
  }
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->body, "GET /other []");
}

TEST(Http, AnAnswerThatIsReadTooSlowlyEnds) {
  AsioEventLoop loop;
  const std::string large(32 << 20, 'x');
  auto server =
      HttpServer::Listen(loop, "127.0.0.1:0", HttpServer::Handler([&](const HttpRequest& request) {
                           if (request.path != "/large") return Echo(request);
                           return HttpResponse{200, "text/plain", large};
                         }),
                         {.places = {.connections = 1, .allowance = 50ms}})
          .value();
  RawConnection slow(server->address());
  slow.Send("GET /large HTTP/1.1\r\nHost: x\r\n\r\n");
  std::size_t got = 0;
  std::thread reader([&] {
    slow.ReadUntil("HTTP/1.1 200");
    // Its place is free again when its connection has ended.
    for (int status = 0; status != 200;) {
      const auto answer = HttpFetch(server->address(), "GET", "/", "", kPatience);
      status = answer ? answer->status : 0;
    }
    got = slow.ReadAll().size();
    loop.Stop();
  });
  loop.Run();
  reader.join();
  EXPECT_LT(got, large.size());
}

TEST(Http, StrangersThatAskTooOftenWaitAndOthersDoNot) {
  AsioEventLoop loop;
  std::map<std::string, int> answered;
  auto server =
      HttpServer::Listen(loop, "127.0.0.1:0", HttpServer::Handler([&](const HttpRequest& request) {
                           ++answered[request.path];
                           HttpResponse answer;
                           answer.is_to_known_caller = request.path == "/known";
                           return answer;
                         }),
                         {.stranger_answers_per_second = 4})
          .value();
  const auto ask = [&](RawConnection& connection, const std::string& path, int times,
                       const std::string& header) {
    for (int i = 0; i < times; ++i) {
      connection.Send("GET " + path + " HTTP/1.1\r\nHost: x\r\n" + header + "\r\n");
    }
  };
  RawConnection stranger(server->address());
  ask(stranger, "/stranger", 500, "");
  ASSERT_TRUE(RunUntil(loop, [&] { return answered["/stranger"] >= 4; }));
  // Its source owes nothing yet that would keep those with credentials waiting.
  RawConnection known(server->address());
  RawConnection alive(server->address());
  ask(known, "/known", 1'000, "Authorization: Bearer x\r\n");
  ask(alive, "/healthz", 1'000, "");
  ASSERT_TRUE(
      RunUntil(loop, [&] { return answered["/known"] == 1'000 && answered["/healthz"] > 0; }));
  EXPECT_LT(answered["/stranger"], 450);
  EXPECT_LT(answered["/healthz"], 900) << "answers are shared";
}

TEST(Http, WhereAllAreBeingAnsweredOthersCanOnlyAskWhetherTheServerLives) {
  AsioEventLoop loop;
  std::vector<HttpServer::Respond> waiting;
  auto server = HttpServer::Listen(loop, "127.0.0.1:0",
                                   [&](const HttpRequest& request, HttpServer::Respond respond) {
                                     if (request.path == "/healthz") return respond({.body = "ok"});
                                     waiting.push_back(std::move(respond));
                                   },
                                   {.places = {.connections = 2}})
                    .value();
  RawConnection first(server->address());
  RawConnection second(server->address());
  first.Send("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  second.Send("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  ASSERT_TRUE(RunUntil(loop, [&] { return waiting.size() == 2; }));
  std::string healthy;
  std::string busy;
  std::thread others([&] {
    healthy = HttpFetch(server->address(), "GET", "/healthz", "", kPatience).value().body;
    RawConnection third(server->address());
    third.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    busy = third.ReadAll();
    loop.Stop();
  });
  loop.Run();
  others.join();
  EXPECT_EQ(healthy, "ok");
  EXPECT_THAT(busy, StartsWith("HTTP/1.1 503"));
  EXPECT_EQ(waiting.size(), 2U);
}

class FakeConnection : public Connection {
 public:
  void Close() override { is_closed = true; }
  bool is_closed = false;
};

TEST(ConnectionPlaces, TheSlowestReaderGivesWayOnceItIsBehind) {
  ConnectionPlaces places({.connections = 2, .reserve = 1});
  const TimePoint start{};
  FakeConnection slow;
  FakeConnection fast;
  for (FakeConnection* one : {&slow, &fast}) {
    places.Add(*one);
    places.BeginWrite(*one, start);
  }
  EXPECT_EQ(places.MakeRoom("a", start + 400ms), ConnectionPlaces::Place::kReserve);
  places.CountWritten(slow, 100, start + 1s);
  places.CountWritten(fast, 100'000, start + 1s);
  EXPECT_EQ(places.MakeRoom("a", start + 1s), ConnectionPlaces::Place::kNormal);
  EXPECT_TRUE(slow.is_closed);
  EXPECT_FALSE(fast.is_closed);
}

TEST(ConnectionPlaces, AReaderAtTheLeastRateIsNeverBehindAndOneBelowItRunsOutOfTime) {
  const ConnectionPlaces places({});
  const TimePoint start{};
  FakeConnection steady;
  FakeConnection late;
  places.BeginWrite(steady, start);
  places.BeginWrite(late, start);
  for (int second = 1; second <= 100; ++second) {
    const TimePoint now = start + second * 1s;
    places.CountWritten(steady, 8'192, now);
    places.CountWritten(late, 4'096, now);
    EXPECT_EQ(*steady.writes_until, now + 10s);
    EXPECT_EQ(*late.writes_until, start + 10s + second * 500ms);
  }
}

TEST(ConnectionPlaces, StrangersGiveWayBeforeThoseWhoAreKnown) {
  ConnectionPlaces places({.connections = 2});
  FakeConnection known;
  FakeConnection stranger;
  known.is_known = true;
  for (FakeConnection* one : {&known, &stranger}) {
    places.Add(*one);
    places.Wait(*one);
  }
  EXPECT_EQ(places.MakeRoom("a", {}), ConnectionPlaces::Place::kNormal);
  EXPECT_TRUE(stranger.is_closed);
  EXPECT_EQ(places.MakeRoom("a", {}), ConnectionPlaces::Place::kNormal);
  EXPECT_FALSE(known.is_closed);
}

TEST(ConnectionPlaces, WhoeverHasJustComeGivesWayToNobodyInTheReserve) {
  ConnectionPlaces places({.connections = 1, .reserve = 1});
  FakeConnection comer;
  FakeConnection spare;
  spare.is_reserve = true;
  for (FakeConnection* one : {&comer, &spare}) {
    places.Add(*one);
    places.Wait(*one);
  }
  EXPECT_FALSE(places.LeaveReserve(spare, {}));
  EXPECT_FALSE(comer.is_closed);
  comer.is_new = false;
  EXPECT_TRUE(places.LeaveReserve(spare, {}));
  EXPECT_TRUE(comer.is_closed);
}

TEST(ConnectionPlaces, ThoseInTheReserveGiveWayToOneAnotherOnly) {
  ConnectionPlaces places({.connections = 1, .reserve = 1});
  FakeConnection busy;  // is being answered
  FakeConnection spare;
  spare.is_reserve = true;
  places.Add(busy);
  places.Add(spare);
  places.Wait(spare);
  EXPECT_EQ(places.MakeRoom("a", {}), ConnectionPlaces::Place::kReserve);
  EXPECT_TRUE(spare.is_closed);
  EXPECT_FALSE(busy.is_closed);
  FakeConnection answered;
  answered.is_reserve = true;
  places.Add(answered);
  EXPECT_EQ(places.MakeRoom("a", {}), ConnectionPlaces::Place::kNone);
}

}  // namespace
}  // namespace espalier::io
