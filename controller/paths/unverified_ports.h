#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/fabric/paths.h"

namespace espalier::controller {

// The ports of one key that are in use but only predicted: no probe has confirmed their path. If
// the model does not know which next hops a leaf still uses, such a port may lead into a dead
// switch, and its probes are never answered.
//
// Silence means unknown, never down, as networks may limit answers or give none. It counts only if
// in the same order another port of the same path was answered, which shows that switch, probe rate
// and agent work. A port with enough such silences is quarantined.
//
// Thread safety: one thread. At most 64 ports, each call O(ports); further ports are ignored.
class UnverifiedPorts {
 public:
  // Adds a predicted port that is in use for this path and is about to be probed.
  void Add(std::uint16_t port, fabric::PathIndex path);
  // Allows as many probes again for a port that was added; else does nothing.
  void Renew(std::uint16_t port);
  // Removes the port, as a probe of it was answered.
  void HandleAnswer(std::uint16_t port);

  enum class Verdict {
    kUnknown,      // nothing follows
    kAskAgain,     // probe it again, together with others of its path
    kQuarantined,  // it must not be used
  };
  // Takes that probes of the port were not answered. kUnknown if the port was not added.
  Verdict HandleSilence(std::uint16_t port, bool others_answered);

  // The predicted path; none if the port was not added.
  std::optional<fabric::PathIndex> PathOf(std::uint16_t port) const;
  // Whether it was silent before, so that others must be probed together with it.
  bool NeedsControlProbes(std::uint16_t port) const;
  bool IsQuarantined(std::uint16_t port) const;
  // Releases quarantined ports and resets all counts, after the fabric has changed.
  void StartOver();

 private:
  struct UnverifiedPort {
    std::uint16_t port = 0;
    fabric::PathIndex path;
    int asked = 0;   // unanswered orders since Add or Renew
    int silent = 0;  // of these and earlier ones, those in which others were answered
    bool quarantined = false;
  };
  const UnverifiedPort* Find(std::uint16_t port) const;
  UnverifiedPort* Find(std::uint16_t port);

  std::vector<UnverifiedPort> ports_;
};

}  // namespace espalier::controller
