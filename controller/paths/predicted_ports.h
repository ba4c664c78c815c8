#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "common/fabric/paths.h"

namespace espalier::controller {

// The ports of one key whose path a hash model has predicted while it was asked for a port of
// another path, so that the path of each port is predicted at most once, however many flows ask.
// Ports are tried in a fixed order, and each path has its own in that order.
// Memory: 2 bytes for each port that was tried and not taken. Thread safety: one thread.
class PredictedPorts {
 public:
  // Forgets all, unless it is about this version of the model.
  void StartOver(std::uint64_t model, std::size_t path_count) {
    if (std::exchange(model_, model) == model && spare_.size() == path_count) return;
    next_ = 0;
    knows_all_ = true;
    spare_.assign(path_count, {});
    has_port_.assign(path_count, false);
  }

  // The place of the next port to try in the order of ports.
  std::uint32_t next() const { return next_; }
  // The path of the port at that place; none: the model does not cover it.
  void Note(std::uint16_t port, std::optional<fabric::PathIndex> path) {
    ++next_;
    knows_all_ = knows_all_ && path;
    if (!path) return;
    has_port_[path->Index()] = true;
    spare_[path->Index()].ports.push_back(port);
  }
  // The next port of this path that was tried and not taken yet.
  std::optional<std::uint16_t> Take(fabric::PathIndex path) {
    Spare& spare = spare_[path.Index()];
    if (spare.taken < spare.ports.size()) return spare.ports[spare.taken++];
    spare = {};
    return std::nullopt;
  }
  bool HasPort(fabric::PathIndex path) const { return has_port_[path.Index()]; }
  // Whether the model covers all ports that were tried.
  bool knows_all() const { return knows_all_; }
  std::vector<fabric::PathIndex> PathsWithoutPorts() const {
    std::vector<fabric::PathIndex> without;
    for (std::size_t i = 0; i < has_port_.size(); ++i) {
      if (!has_port_[i]) without.emplace_back(static_cast<std::int32_t>(i));
    }
    return without;
  }

 private:
  struct Spare {
    std::vector<std::uint16_t> ports;
    std::size_t taken = 0;  // so many of the first ones
  };
  std::uint64_t model_ = 0;
  std::uint32_t next_ = 0;
  bool knows_all_ = true;
  std::vector<bool> has_port_;  // by path
  std::vector<Spare> spare_;    // by path
};

}  // namespace espalier::controller
