#pragma once

#include <string>

#include "common/base/result.h"
#include "common/bus/zmq_router_bus.h"
#include "common/http/http.h"
#include "common/http/http_thread.h"
#include "controller/controller.h"
#include "controller/daemon/configuration.h"

namespace espalier::controller {

// Reads the configuration file, keys and certificates again and applies all that may change while
// the controller runs. If anything is wrong, nothing is applied; only a bad certificate is logged
// and leaves the earlier one in use. Records an event in either case.
// Thread safety: the controller's loop thread. The references must outlive it.
class Reloader {
 public:
  Reloader(std::string config_file, const Configuration& running, Keys& keys, io::ZmqRouterBus& bus,
           io::HttpThread& http, Controller& controller)
      : config_file_(std::move(config_file)),
        running_(running),
        keys_(keys),
        bus_(bus),
        http_(http),
        controller_(controller) {}

  // Errors: those of ReadConfiguration and ReadKeys.
  Result<void> Reload();
  // Reloads for a request over HTTP. The response is 200, or 409 with the error.
  io::HttpResponse Answer();

 private:
  const std::string config_file_;
  const Configuration& running_;
  Keys& keys_;
  io::ZmqRouterBus& bus_;
  io::HttpThread& http_;
  Controller& controller_;
};

}  // namespace espalier::controller
