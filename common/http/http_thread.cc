#include "common/http/http_thread.h"

#include <cstdint>
#include <deque>
#include <unordered_map>
#include <utility>

#include "common/base/log.h"

namespace espalier::io {
namespace {

using Piece = std::shared_ptr<const std::string>;

}  // namespace

// The part on the home loop: the handler, and its streams that clients read.
class HttpThread::Home : public std::enable_shared_from_this<Home> {
 public:
  Home(EventLoop& loop, HttpServer::LateHandler handler)
      : loop_(loop), handler_(std::move(handler)) {}

  // Runs the call on the home loop, as long as this exists. Thread-safe.
  template <typename Call>
  void Post(Call call) {
    loop_.Post([weak = weak_from_this(), call = std::move(call)]() mutable {
      if (const auto self = weak.lock()) call(*self);
    });
  }

  void Answer(Front& front, std::uint64_t id, HttpRequest request);
  void PullPiece(Front& front, std::uint64_t id);
  void CloseStream(std::uint64_t id) { streams_.erase(id); }

 private:
  struct Stream {
    std::shared_ptr<HttpStream> source;
    bool is_asked = false;  // the client waits for a piece
  };
  struct Waiting {
    Front& front;
    std::uint64_t id;
    HttpRequest request;
  };

  void AnswerNext();
  void Respond(Front& front, std::uint64_t id, HttpResponse response);

  EventLoop& loop_;
  const HttpServer::LateHandler handler_;
  std::deque<Waiting> waiting_;
  std::unordered_map<std::uint64_t, Stream> streams_;  // by the request that the stream answers
};

// The part on the HTTP thread: connections that wait for their answers.
class HttpThread::Front {
 public:
  explicit Front(AsioEventLoop& loop) : loop_(loop) {}

  // Thread-safe.
  template <typename Call>
  void Post(Call call) {
    loop_.Post([this, call = std::move(call)]() mutable { call(*this); });
  }

  void Ask(const std::shared_ptr<Home>& home, const HttpRequest& request,
           HttpServer::Respond respond);
  void Answer(const std::shared_ptr<Home>& home, std::uint64_t id, HttpResponse response,
              bool has_stream);
  void TakePiece(std::uint64_t id, Piece piece);
  void EndStream(std::uint64_t id);
  // Call before the loop, which owns the connections, is destroyed.
  void ForgetAsked() { asked_.clear(); }

 private:
  class RelayedStream;

  AsioEventLoop& loop_;
  std::uint64_t next_id_ = 1;
  std::unordered_map<std::uint64_t, HttpServer::Respond> asked_;
  std::unordered_map<std::uint64_t, RelayedStream*> streams_;
};

// The connection's view of a stream on the home loop.
class HttpThread::Front::RelayedStream : public HttpStream {
 public:
  RelayedStream(Front& front, std::shared_ptr<Home> home, std::uint64_t id)
      : front_(front), home_(std::move(home)), id_(id) {
    front_.streams_[id_] = this;
  }
  ~RelayedStream() override {
    front_.streams_.erase(id_);
    home_->Post([id = id_](Home& home) { home.CloseStream(id); });
  }
  RelayedStream(const RelayedStream&) = delete;
  RelayedStream& operator=(const RelayedStream&) = delete;

  Piece Next() override {
    if (piece_) return std::exchange(piece_, nullptr);
    if (!is_asked_) {
      is_asked_ = true;
      home_->Post([&front = front_, id = id_](Home& home) { home.PullPiece(front, id); });
    }
    return nullptr;
  }

  void Take(Piece piece) {
    is_asked_ = false;
    piece_ = std::move(piece);
    if (wake) wake();
  }

 private:
  Front& front_;
  const std::shared_ptr<Home> home_;
  const std::uint64_t id_;
  bool is_asked_ = false;
  Piece piece_;
};

void HttpThread::Home::Answer(Front& front, std::uint64_t id, HttpRequest request) {
  waiting_.push_back({front, id, std::move(request)});
  if (waiting_.size() == 1) Post([](Home& home) { home.AnswerNext(); });
}

// Answers one request per turn: each is posted after everything that was posted before.
void HttpThread::Home::AnswerNext() {
  const auto& [front, id, request] = waiting_.front();
  handler_(request, [weak = weak_from_this(), &front = front, id = id](HttpResponse response) {
    if (const auto self = weak.lock()) self->Respond(front, id, std::move(response));
  });
  waiting_.pop_front();
  if (!waiting_.empty()) Post([](Home& home) { home.AnswerNext(); });
}

void HttpThread::Home::Respond(Front& front, std::uint64_t id, HttpResponse response) {
  const std::shared_ptr<HttpStream> source = std::exchange(response.stream, nullptr);
  if (source) {
    source->wake = [this, &front, id] {
      const auto found = streams_.find(id);
      if (found != streams_.end() && found->second.is_asked) PullPiece(front, id);
    };
    source->end = [&front, id] { front.Post([id](Front& there) { there.EndStream(id); }); };
    streams_[id] = {source};
  }
  front.Post([self = shared_from_this(), id, response = std::move(response),
              has_stream = source != nullptr](Front& there) mutable {
    there.Answer(self, id, std::move(response), has_stream);
  });
}

void HttpThread::Home::PullPiece(Front& front, std::uint64_t id) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return;
  Piece piece = found->second.source->Next();
  found->second.is_asked = piece == nullptr;
  if (!piece) return;
  front.Post([id, piece = std::move(piece)](Front& there) mutable {
    there.TakePiece(id, std::move(piece));
  });
}

void HttpThread::Front::Ask(const std::shared_ptr<Home>& home, const HttpRequest& request,
                            HttpServer::Respond respond) {
  const std::uint64_t id = next_id_++;
  asked_.emplace(id, std::move(respond));
  home->Post([this, id, request](Home& there) { there.Answer(*this, id, request); });
}

void HttpThread::Front::Answer(const std::shared_ptr<Home>& home, std::uint64_t id,
                               HttpResponse response, bool has_stream) {
  const auto asked = asked_.extract(id);
  if (asked.empty()) return;
  if (has_stream) response.stream = std::make_shared<RelayedStream>(*this, home, id);
  asked.mapped()(std::move(response));
}

void HttpThread::Front::TakePiece(std::uint64_t id, Piece piece) {
  const auto found = streams_.find(id);
  if (found != streams_.end()) found->second->Take(std::move(piece));
}

void HttpThread::Front::EndStream(std::uint64_t id) {
  const auto found = streams_.find(id);
  if (found != streams_.end() && found->second->end) found->second->end();
}

HttpThread::HttpThread(EventLoop& home, HttpServer::LateHandler handler)
    : home_(std::make_shared<Home>(home, std::move(handler))),
      front_(std::make_unique<Front>(loop_)) {}

HttpThread::~HttpThread() {
  loop_.Stop();
  if (thread_.joinable()) thread_.join();
  front_->ForgetAsked();
}

Result<std::string> HttpThread::Listen(const std::string& address,
                                       const HttpServerOptions& options) {
  auto server = HttpServer::Listen(
      loop_, address,
      [this](const HttpRequest& request, HttpServer::Respond respond) {
        front_->Ask(home_, request, std::move(respond));
      },
      options);
  if (!server) return Propagate(server);
  servers_.push_back(std::move(*server));
  return servers_.back()->address();
}

Result<std::vector<std::string>> HttpThread::Listen(const std::vector<std::string>& addresses,
                                                    const HttpServerOptions& options) {
  std::vector<std::string> actual;
  for (const std::string& address : addresses) {
    Result<std::string> listening = Listen(address, options);
    if (!listening) return Propagate(listening);
    actual.push_back(std::move(*listening));
  }
  return actual;
}

void HttpThread::Start() {
  thread_ = std::thread([this] { loop_.Run(); });
}

void HttpThread::ReloadCertificates() {
  loop_.Post([this] {
    for (const auto& server : servers_) {
      const Result<void> reloaded = server->ReloadCertificate();
      if (!reloaded) {
        Log(LogLevel::kError, "event=certificate_refused error=\"{}\"", reloaded.error().message);
      }
    }
  });
}

}  // namespace espalier::io
