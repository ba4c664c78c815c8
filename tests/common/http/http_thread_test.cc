// HTTP on a separate thread, in front of a loop that the test blocks and releases.
#include "common/http/http_thread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/http/user_names.h"
#include "common/net/socket_address.h"
#include "tests/common/http/http_harness.h"
#include "tests/common/loop/asio_harness.h"

namespace espalier::io {
namespace {

using namespace std::chrono_literals;

// Clients on separate threads, as their requests block.
class Clients {
 public:
  ~Clients() { Join(); }
  void Fetch(const std::string& address, const std::string& target) {
    threads_.emplace_back([this, address, target] {
      const auto answer = HttpFetch(address, "GET", target, "", 60s);
      const std::lock_guard lock(mutex_);
      bodies_.push_back(answer ? answer->body : answer.error().message);
      ++done_;
    });
  }
  int done() const { return done_; }
  std::vector<std::string> Join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    return bodies_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> bodies_;  // guarded
  std::atomic<int> done_ = 0;
  std::vector<std::thread> threads_;
};

TEST(HttpThread, AnswersOnTheHomeLoopsThread) {
  AsioEventLoop home;
  const std::thread::id here = std::this_thread::get_id();
  bool was_here = false;
  HttpThread http(home, [&](const HttpRequest& request, const HttpServer::Respond& respond) {
    was_here = std::this_thread::get_id() == here;
    respond({.body = request.path});
  });
  const std::string address = http.Listen("127.0.0.1:0", {}).value();
  http.Start();
  Clients clients;
  clients.Fetch(address, "/a");
  ASSERT_TRUE(RunUntil(home, [&] { return clients.done() == 1; }));
  EXPECT_TRUE(was_here);
  EXPECT_EQ(clients.Join(), std::vector<std::string>{"/a"});
}

// With many concurrent requests, other posted work still runs between them.
TEST(HttpThread, HandlesOneRequestInATurnOfTheHomeLoop) {
  AsioEventLoop home;
  int handled = 0;
  int most_between = 0;
  int handled_at_turn = 0;
  std::function<void()> turn = [&] {  // the work of flows
    most_between = std::max(most_between, handled - handled_at_turn);
    handled_at_turn = handled;
    home.Post(turn);
  };
  HttpThread http(home, [&](const HttpRequest&, const HttpServer::Respond& respond) {
    ++handled;
    respond({.body = "x"});
  });
  const HttpServerOptions options{.places = {.strangers_of_source = 50}};
  const std::string address = http.Listen("127.0.0.1:0", options).value();
  http.Start();
  const SocketAddress to = ParseSocketAddress(address).value();
  const std::string request = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
  std::vector<int> clients;
  for (int i = 0; i < 50; ++i) {
    clients.push_back(socket(to.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(connect(clients.back(), to.get(), to.size), 0);
    send(clients.back(), request.data(), request.size(), MSG_NOSIGNAL);
  }
  home.Post(turn);
  ASSERT_TRUE(RunUntil(home, [&] { return handled == 50; }));
  EXPECT_LE(most_between, 2);
  for (const int client : clients) close(client);
}

// A stream that counts to three, with one piece each time that it is woken.
class Counting : public HttpStream {
 public:
  explicit Counting(bool& is_gone) : is_gone_(is_gone) {}
  ~Counting() override { is_gone_ = true; }
  std::shared_ptr<const std::string> Next() override {
    if (!may_) return nullptr;
    may_ = false;
    return std::make_shared<const std::string>(std::to_string(++pieces_));
  }
  void Allow() {
    may_ = true;
    wake();
  }
  int pieces() const { return pieces_; }

 private:
  bool& is_gone_;
  bool may_ = false;
  int pieces_ = 0;
};

TEST(HttpThread, CarriesAStreamThatStaysAtHomeUntilItsClientGoes) {
  AsioEventLoop home;
  bool is_gone = false;
  std::shared_ptr<Counting> stream = std::make_shared<Counting>(is_gone);
  HttpThread http(home, [&](const HttpRequest&, const HttpServer::Respond& respond) {
    respond({.content_type = "text/event-stream", .stream = stream});
  });
  const std::string address = http.Listen("127.0.0.1:0", {}).value();
  http.Start();
  std::atomic<bool> has_all = false;
  std::thread client([&] {
    RawConnection connection(address);
    connection.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_THAT(connection.ReadUntil("123"), testing::EndsWith("\r\n\r\n123"));
    has_all = true;
  });
  ASSERT_TRUE(RunUntil(home, [&] {
    if (stream->wake && stream->pieces() < 3) stream->Allow();
    return stream->pieces() == 3;
  }));
  stream.reset();
  ASSERT_TRUE(RunUntil(home, [&] { return is_gone && has_all; }));
  client.join();
}

TEST(HttpThread, MayEndWithRequestsUnanswered) {
  AsioEventLoop home;
  std::vector<HttpServer::Respond> held;
  Clients clients;
  {
    HttpThread http(home, [&](const HttpRequest&, HttpServer::Respond respond) {
      held.push_back(std::move(respond));
    });
    const std::string address = http.Listen("127.0.0.1:0", {}).value();
    http.Start();
    for (int i = 0; i < 3; ++i) clients.Fetch(address, "/");
    ASSERT_TRUE(RunUntil(home, [&] { return held.size() == 3; }));
  }
  for (const auto& respond : held) respond({.body = "too late"});
  for (const std::string& body : clients.Join()) EXPECT_NE(body, "too late");
}

// A look-up without an answer from the directory server.
TEST(UserNames, ALookUpThatHangsHoldsNobodyElseUp) {
  AsioEventLoop loop;
  std::mutex hang;
  std::unique_lock held(hang);
  std::atomic<int> ended = 0;
  const auto look_up = [&](uid_t uid) {
    if (uid == 7) const std::lock_guard wait(hang);
    ++ended;
    return uid == 8 ? std::string("eve") : std::string();
  };
  UserNames names(loop, look_up, 60s);
  UserNames impatient(loop, look_up, 1ms);
  std::vector<std::string> found;
  const auto take = [&](const std::string& name) { found.push_back(name); };
  loop.Post([&] {
    names.Find(7, take);
    names.Find(8, take);
  });
  ASSERT_TRUE(RunUntil(loop, [&] { return !found.empty(); }));
  EXPECT_EQ(found.front(), "eve");
  impatient.Find(7, take);
  ASSERT_TRUE(RunUntil(loop, [&] { return found.size() == 2; }));
  EXPECT_EQ(found.back(), "7");  // the id replaces the missing name
  names.Find(8, take);
  EXPECT_EQ(found.back(), "eve");  // at once
  held.unlock();
  ASSERT_TRUE(RunUntil(loop, [&] { return ended == 3; }));
}

}  // namespace
}  // namespace espalier::io
