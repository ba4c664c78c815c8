#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "common/base/metrics.h"
#include "common/http/http.h"
#include "controller/api/live_journal.h"
#include "controller/controller.h"

namespace espalier::controller {

// The controller's state as server-sent events: first all of it (`event: snapshot`), then what has
// changed (`event: update`), up to five times a second. /api/v1/openapi.json describes both.
//
// All clients are given the same pieces (LiveJournal), each when it has taken what came before:
// there is no queue of any client's. One that is further behind than pieces are kept gets a
// snapshot in their place.
//
// Thread safety: the controller's loop thread. The controller must outlive this;
// streams may outlive it.
class LiveFeed {
 public:
  static constexpr std::size_t kMaxClients = 32;

  LiveFeed(Controller& controller, Metrics& metrics);
  ~LiveFeed();
  LiveFeed(const LiveFeed&) = delete;
  LiveFeed& operator=(const LiveFeed&) = delete;

  // Null where kMaxClients are connected already.
  std::shared_ptr<io::HttpStream> Connect();

 private:
  class Client;
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace espalier::controller
