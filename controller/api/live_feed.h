#pragma once

#include <cstddef>
#include <memory>

#include "common/io/http.h"
#include "controller/controller.h"

namespace espalier::controller {

// The controller's state as server-sent events: first all of it (`event: snapshot`), then what has
// changed (`event: update`), at most twice a second. /api/v1/openapi.json describes both.
//
// There is no queue: every part of the state has the number of the change that it was last part of,
// and a client is given what is newer than what it has, when it has taken what came before. So a
// slow client skips what is past; one that has missed more ends of flows than are remembered gets a
// snapshot. Work is done only while there are clients, and at most for a tenth of the time.
//
// Thread safety: the controller's loop thread. The controller must outlive this;
// streams may outlive it.
class LiveFeed {
 public:
  static constexpr std::size_t kMostClients = 32;

  explicit LiveFeed(Controller& controller);
  ~LiveFeed();
  LiveFeed(const LiveFeed&) = delete;
  LiveFeed& operator=(const LiveFeed&) = delete;

  // Null where kMostClients are connected already.
  std::shared_ptr<io::HttpStream> Connect();

 private:
  class Journal;
  class Client;
  std::shared_ptr<Journal> journal_;
};

}  // namespace espalier::controller
