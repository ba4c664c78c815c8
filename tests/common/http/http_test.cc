#include "common/http/http.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <optional>
#include <thread>
#include <vector>

#include "common/http/http_client.h"
#include "common/http/http_server.h"
#include "common/http/url.h"
#include "common/net/socket_address.h"
#include "tests/common/http/http_harness.h"
#include "tests/common/loop/asio_harness.h"

namespace espalier::io {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string TempSocketPath() {
  const testing::UnitTest& test = *testing::UnitTest::GetInstance();
  return testing::TempDir() + "/espalier_http_" + std::to_string(getpid()) + "_" +
         std::to_string(test.current_test_info()->line());
}

// A stream of numbers without end; counts the existing streams.
class Counting : public HttpStream {
 public:
  Counting(std::atomic<int>& living, std::size_t piece_bytes)
      : living_(living), piece_bytes_(piece_bytes) {
    ++living_;
  }
  ~Counting() override { --living_; }
  std::shared_ptr<const std::string> Next() override {
    std::string piece = std::to_string(next_++) + " ";
    piece.resize(std::max(piece.size(), piece_bytes_), '.');
    return std::make_shared<const std::string>(std::move(piece));
  }

 private:
  std::atomic<int>& living_;
  const std::size_t piece_bytes_;
  int next_ = 1;
};

TEST(Http, AnswersOverTcp) {
  for (const std::string address : {"127.0.0.1:0", "[::1]:0", "localhost:0"}) {
    const Serving serving(address, Echo);
    EXPECT_THAT(serving.address(), testing::Not(testing::EndsWith(":0")));
    const HttpResponse got = serving.Fetch("GET", "/api/v1/flows?job=a%20b&host=h0&x=1+2&flag");
    EXPECT_EQ(got.status, 200);
    EXPECT_EQ(got.content_type, "text/plain");
    EXPECT_EQ(got.body, "GET /api/v1/flows flag= host=h0 job=a b x=1 2 []");
    EXPECT_EQ(serving.Fetch("POST", "/%2fx", "body").body, "POST //x [body]");
  }
}

TEST(Http, AnswersOverAUnixSocketAndSaysSo) {
  const std::string path = TempSocketPath();
  {
    const Serving serving("unix:" + path, [](const HttpRequest& request) {
      return HttpResponse{request.from_unix_socket ? 200 : 500, "text/plain", ""};
    });
    EXPECT_EQ(serving.address(), "unix:" + path);
    struct stat status {};
    ASSERT_EQ(stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0660u);
    EXPECT_EQ(serving.Fetch("GET", "/").status, 200);
  }
  EXPECT_NE(access(path.c_str(), F_OK), 0);
}

TEST(Http, AStaleSocketFileIsReplacedButNothingElse) {
  const std::string path = TempSocketPath();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const int stale = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(bind(stale, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  close(stale);
  AsioEventLoop loop;
  {
    const Serving serving("unix:" + path, Echo);
    const auto second = HttpServer::Listen(loop, "unix:" + path, Echo);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, ErrorCode::kUnavailable);
    EXPECT_THAT(second.error().message, HasSubstr("another process"));
    EXPECT_EQ(serving.Fetch("GET", "/").status, 200);
  }
  std::ofstream(path) << "precious";
  const auto refused = HttpServer::Listen(loop, "unix:" + path, Echo);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(access(path.c_str(), F_OK), 0);
  unlink(path.c_str());
}

TEST(Http, AddressesThatAreNoneAreRefused) {
  AsioEventLoop loop;
  for (const std::string address : {"", "unix:", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x",
                                    "127.0.0.1:65536", ":80", "::1:80", "[::1]", "127.0.0.1:-1"}) {
    const auto server = HttpServer::Listen(loop, address, Echo);
    ASSERT_FALSE(server) << address;
    EXPECT_EQ(server.error().code, ErrorCode::kInvalidArgument) << server.error().message;
    EXPECT_FALSE(HttpFetch(address, "GET", "/", "", kPatience)) << address;
  }
  const std::string long_path = "unix:/" + std::string(200, 'x');
  EXPECT_EQ(HttpServer::Listen(loop, long_path, Echo).error().code, ErrorCode::kInvalidArgument);
  const Serving taken("127.0.0.1:0", Echo);
  EXPECT_EQ(HttpServer::Listen(loop, taken.address(), Echo).error().code, ErrorCode::kUnavailable);
}

TEST(Http, FetchSaysWhoDoesNotAnswer) {
  std::string address;
  {
    const Serving gone("127.0.0.1:0", Echo);
    address = gone.address();
  }
  const auto refused = HttpFetch(address, "GET", "/", "", kPatience);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(refused.error().message, StartsWith(address));

  AsioEventLoop never_runs;
  const auto silent = HttpServer::Listen(never_runs, "127.0.0.1:0", Echo).value()->address();
  const auto timed_out = HttpFetch(silent, "GET", "/", "", 10ms);
  ASSERT_FALSE(timed_out);
  EXPECT_EQ(timed_out.error().code, ErrorCode::kUnavailable);
}

TEST(Http, KeepsAConnectionForPipelinedRequests) {
  const Serving serving("127.0.0.1:0", Echo);
  RawConnection connection(serving.address());
  connection.Send("GET /1 HTTP/1.1\r\nHost: x\r\n\r\nGET /2 HTTP/1.1\r\nHost: x\r\n\r\n");
  connection.Send("GET /3 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  const std::string answers = connection.ReadAll();
  const std::size_t first = answers.find("GET /1 []");
  const std::size_t second = answers.find("GET /2 []");
  const std::size_t third = answers.find("GET /3 []");
  EXPECT_LT(first, second);
  EXPECT_LT(second, third);
  EXPECT_NE(third, std::string::npos);
}

struct BadRequest {
  std::string bytes;
  std::string status;
};

TEST(Http, BadRequestsAreAnsweredAndNeverReachTheHandler) {
  int calls = 0;
  std::optional<Serving> serving;
  serving.emplace("127.0.0.1:0", [&](const HttpRequest&) {
    ++calls;
    return HttpResponse{};
  });
  const std::vector<BadRequest> requests = {
      {"nonsense\r\n\r\n", "400"},
      {"\r\n\r\n", "400"},
      {std::string("\0\1\2\3\r\n\r\n", 8), "400"},
      {"GET / HTTP/9.9\r\n\r\n", "400"},
      {"GET nowhere HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "400"},
      {"GET /%zz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "400"},
      {"GET /%00 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "400"},
      {"GET /?a=%4 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "400"},
      {"POST / HTTP/1.1\r\nContent-Length: -5\r\n\r\n", "400"},
      {"POST / HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n", "400"},
      {"POST / HTTP/1.1\r\nContent-Length: 1048577\r\n\r\n", "413"},
      {"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "400"},
      {"GET / HTTP/1.1\r\nX: " + std::string(20'000, 'y') + "\r\n\r\n", "431"},
      {"BREW / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "501"},
      {"HEAD / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "501"},
  };
  for (const BadRequest& request : requests) {
    RawConnection connection(serving->address());
    connection.Send(request.bytes);
    EXPECT_THAT(connection.ReadAll(), StartsWith("HTTP/1.1 " + request.status)) << request.bytes;
  }
  {
    RawConnection half(serving->address());
    half.Send("POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\nhalf");
    half.EndInput();
    half.ReadAll();
  }
  serving.reset();
  EXPECT_EQ(calls, 0);
}

TEST(Http, ABodyOfTheLargestSizeIsTaken) {
  const Serving serving("127.0.0.1:0", [](const HttpRequest& request) {
    return HttpResponse{200, "text/plain", std::to_string(request.body.size())};
  });
  EXPECT_EQ(serving.Fetch("POST", "/", std::string(1 << 20, 'x')).body, "1048576");
}

TEST(Http, ARequestThatIsHeldBackEndsItsConnection) {
  AsioEventLoop loop;
  auto server =
      HttpServer::Listen(loop, "127.0.0.1:0", HttpServer::Handler(Echo), {.timeout = 20ms}).value();
  RawConnection slow(server->address());
  slow.Send("GET / HTTP/1.1\r\nHo");
  std::thread reader([&] {
    EXPECT_EQ(slow.ReadAll(), "");
    loop.Stop();
  });
  loop.Run();
  reader.join();
}

TEST(Http, AServerThatGoesClosesItsConnections) {
  AsioEventLoop loop;
  auto server = HttpServer::Listen(loop, "127.0.0.1:0", Echo).value();
  RawConnection connection(server->address());
  connection.Send("GET / HTTP/1.1\r\n");
  bool later = false;
  const TimerPtr timer = loop.After(2ms, [&] { later = true; });
  ASSERT_TRUE(RunUntil(loop, [&] { return later; }));
  server.reset();
  later = false;
  const TimerPtr again = loop.After(2ms, [&] { later = true; });
  ASSERT_TRUE(RunUntil(loop, [&] { return later; }));
  EXPECT_EQ(connection.ReadAll(), "");
}

TEST(Http, TheKeyOfTlsMustBeOfItsOwnerOnly) {
  AsioEventLoop loop;
  const std::string key = TempSocketPath();
  std::ofstream(key) << "no key";
  const auto listen = [&] {
    const HttpServerOptions options{.tls_certificate_file = "no-such-file", .tls_key_file = key};
    return HttpServer::Listen(loop, "127.0.0.1:0", HttpServer::Handler(Echo), options);
  };
  chmod(key.c_str(), 0644);
  const auto refused = listen();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kPermissionDenied);
  EXPECT_THAT(refused.error().message, HasSubstr("chmod 600 " + key));
  chmod(key.c_str(), 0600);
  EXPECT_THAT(listen().error().message, StartsWith("no-such-file"));
  unlink(key.c_str());
}

TEST(Url, TakesTargetsApart) {
  const auto url = ParseUrl("/a%2Fb/c+d?k%3d=v%26&empty=&&bare&twice=1&twice=2#fragment");
  ASSERT_TRUE(url);
  EXPECT_EQ(url->path, "/a/b/c+d");
  const std::map<std::string, std::string> want = {
      {"k=", "v&"}, {"empty", ""}, {"bare", ""}, {"twice", "2"}};
  EXPECT_EQ(url->query, want);
  for (const char* bad : {"", "x", "*", "/%", "/%1", "/%g0", "/%-1", "/?%", "http://host/"}) {
    EXPECT_FALSE(ParseUrl(bad)) << bad;
  }
}

TEST(Http, SendsHeadersOfTheAnswer) {
  const Serving serving("127.0.0.1:0", [](const HttpRequest&) {
    return HttpResponse{200, "text/plain", "x", {{"X-Content-Type-Options", "nosniff"}}, nullptr};
  });
  RawConnection connection(serving.address());
  connection.Send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(connection.ReadAll(), HasSubstr("X-Content-Type-Options: nosniff\r\n"));
}

TEST(Http, GivesTheHandlerTheHeaders) {
  const Serving serving("127.0.0.1:0", [](const HttpRequest& request) {
    return HttpResponse{200, "text/plain", request.headers.at("x-colour"), {}, nullptr};
  });
  RawConnection connection(serving.address());
  connection.Send("GET / HTTP/1.1\r\nHost: a\r\nX-COLOUR: Green\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(connection.ReadAll(), testing::EndsWith("\r\n\r\nGreen"));
}

TEST(Http, StreamsUntilTheClientLeaves) {
  std::atomic<int> living = 0;
  const Serving serving("127.0.0.1:0", [&](const HttpRequest&) {
    HttpResponse answer{200, "text/plain", "", {}, std::make_shared<Counting>(living, 0)};
    return answer;
  });
  {
    RawConnection connection(serving.address());
    connection.Send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    const std::string text = connection.ReadUntil("17 18 19 ");
    EXPECT_THAT(text, StartsWith("HTTP/1.1 200 OK\r\n"));
    EXPECT_THAT(text, HasSubstr("\r\n\r\n1 2 3 4 "));
    EXPECT_EQ(living, 1);
  }
  const auto patience = std::chrono::steady_clock::now() + kPatience;
  while (living > 0 && std::chrono::steady_clock::now() < patience) std::this_thread::yield();
  EXPECT_EQ(living, 0);
}

TEST(Http, AsksAStreamForNoMoreThanItsClientTakes) {
  std::atomic<int> living = 0;
  constexpr std::size_t kPieceBytes = 1 << 20;
  std::atomic<int> pieces = 0;
  class Watched : public Counting {
   public:
    Watched(std::atomic<int>& living, std::atomic<int>& pieces)
        : Counting(living, kPieceBytes), pieces_(pieces) {}
    std::shared_ptr<const std::string> Next() override {
      ++pieces_;
      return Counting::Next();
    }

   private:
    std::atomic<int>& pieces_;
  };
  const Serving serving("127.0.0.1:0", [&](const HttpRequest& request) {
    if (request.path != "/") return Echo(request);
    return HttpResponse{200, "text/plain", "", {}, std::make_shared<Watched>(living, pieces)};
  });
  RawConnection slow(serving.address());
  slow.Send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  // Others are served while it reads nothing, and only socket buffers hold data for it.
  for (int i = 0; i < 200; ++i) EXPECT_EQ(serving.Fetch("GET", "/other").status, 200);
  EXPECT_LT(pieces, 64);
}

TEST(HttpFetch, RefusesAnswersBeyondItsLimit) {
  constexpr std::uint64_t kMost = 1 << 20;
  std::atomic<int> streams = 0;
  const Serving serving("127.0.0.1:0", [&](const HttpRequest& request) -> HttpResponse {
    if (request.path == "/endless") {
      return {.body = "", .stream = std::make_shared<Counting>(streams, 10'000)};
    }
    return {.body = std::string(request.path == "/most" ? kMost : kMost + 1, 'x')};
  });
  const auto fetch = [&](const std::string& path) {
    return HttpFetch(serving.address(), "GET", path, "", kPatience, {.most_bytes = kMost});
  };
  ASSERT_TRUE(fetch("/most"));
  EXPECT_EQ(fetch("/most")->body.size(), kMost);
  for (const char* path : {"/more", "/endless"}) {
    const auto answer = fetch(path);
    ASSERT_FALSE(answer) << path;
    EXPECT_EQ(answer.error().code, ErrorCode::kUnavailable);
    EXPECT_NE(answer.error().message.find("body limit exceeded"), std::string::npos)
        << answer.error().message;
  }
}

}  // namespace
}  // namespace espalier::io
