#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "common/base/metrics.h"
#include "common/http/http.h"
#include "controller/api/live/live_journal.h"
#include "controller/controller.h"

namespace espalier::controller {

// The live feed: the controller's state as server-sent events. A client first gets all of it
// (`event: snapshot`), then changes (`event: update`), up to five times a second.
// /api/v1/openapi.json describes both.
//
// All clients get the same pieces (LiveJournal), each when it has taken the piece before; no client
// has a queue of its own. A client that falls behind the pieces that are kept gets a snapshot
// instead.
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

  // Opens a stream of this caller. If kMaxClients are connected already, the oldest stream of the
  // caller with the most of them ends, unless this caller has as many or one less: then null.
  std::shared_ptr<io::HttpStream> Connect(const std::string& caller);

 private:
  class Client;
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace espalier::controller
