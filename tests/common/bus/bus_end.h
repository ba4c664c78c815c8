#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/bus.h"

namespace espalier {

// One end of a bus, which records all events.
class BusEnd {
 public:
  struct Received {
    PeerId from;
    std::string bytes;
  };

  explicit BusEnd(std::unique_ptr<Bus> bus) : bus_(std::move(bus)) {
    bus_->SetHandlers({.on_message =
                           [this](PeerId from, std::string_view bytes) {
                             received.push_back({from, std::string(bytes)});
                             if (on_message) on_message(from, bytes);
                           },
                       .on_peer_gone = [this](PeerId peer) { gone.push_back(peer); }});
  }
  Bus* operator->() { return bus_.get(); }

  std::vector<Received> received;
  std::vector<PeerId> gone;
  std::function<void(PeerId, std::string_view)> on_message;

 private:
  std::unique_ptr<Bus> bus_;
};

}  // namespace espalier
