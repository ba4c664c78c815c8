#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/time/event_loop.h"
#include "common/http/http.h"
#include "common/http/http_server.h"

namespace espalier::io {

// An answer that is the same for all, and costs its handler the same however many ask: those who
// ask within a quarter of a second of the last one, or while it is made, get the same.
// Thread safety: none.
class SharedAnswer : public std::enable_shared_from_this<SharedAnswer> {
 public:
  using Ask = std::function<void(HttpServer::Respond)>;
  static constexpr Duration kFresh = std::chrono::milliseconds(250);

  explicit SharedAnswer(std::function<TimePoint()> clock) : clock_(std::move(clock)) {}

  // Responds now, or when the handler has answered, which `ask` calls if necessary.
  void Get(HttpServer::Respond respond, const Ask& ask) {
    if (latest_ && clock_() - since_ < kFresh) return respond(HttpResponse(*latest_));
    waiting_.push_back(std::move(respond));
    if (waiting_.size() > 1) return;
    ask([self = shared_from_this()](HttpResponse answer) {
      self->latest_ = std::move(answer);
      self->since_ = self->clock_();
      const std::vector<HttpServer::Respond> waiting = std::exchange(self->waiting_, {});
      for (const HttpServer::Respond& one : waiting) one(HttpResponse(*self->latest_));
    });
  }

 private:
  const std::function<TimePoint()> clock_;
  std::optional<HttpResponse> latest_;
  TimePoint since_;
  std::vector<HttpServer::Respond> waiting_;
};

}  // namespace espalier::io
