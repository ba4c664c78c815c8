#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/fabric/paths.h"

namespace espalier::controller {

// Ports of one key that are in use on a model's word alone: no probe has seen where they lead. One
// may lead into a switch that is dead where the model does not know what its leaf still hashes
// over, and then no probe is ever answered.
//
// Silence is unknown, never down: networks may limit answers, or give none. It counts only where
// in the same order another port of the same path was answered, so that switch, pace and agent are
// known to answer; a port that stays silent so often in a row is given up.
//
// Thread safety: one thread. At most 64 ports, each call O(ports); what comes beyond is not
// doubted.
class UnverifiedPorts {
 public:
  // This port, which no probe has seen, is in use for this path, and is to be asked about.
  void Add(std::uint16_t port, fabric::PathIndex path);
  // The same question again for a port that is doubted already; else nothing.
  void Renew(std::uint16_t port);
  // A probe of it was answered: it is a model's word no more.
  void HandleAnswer(std::uint16_t port);

  enum class Verdict {
    kUnknown,      // it stays as it is
    kAskAgain,     // along with others of its path
    kQuarantined,  // it must not be used
  };
  // It was asked about and stayed silent. Ports that are not doubted: kUnknown.
  Verdict HandleSilence(std::uint16_t port, bool others_answered);

  // Where the model put it; none where it is not doubted.
  std::optional<fabric::PathIndex> PathOf(std::uint16_t port) const;
  // It was silent before: others are to be asked along with it.
  bool NeedsControlProbes(std::uint16_t port) const;
  bool IsQuarantined(std::uint16_t port) const;
  // The fabric has changed: what was given up may be good again, silence is counted anew.
  void StartOver();

 private:
  struct UnverifiedPort {
    std::uint16_t port = 0;
    fabric::PathIndex path;
    int asked = 0;   // and not answered, since Add or Renew
    int silent = 0;  // in a row while others were answered
    bool quarantined = false;
  };
  const UnverifiedPort* Find(std::uint16_t port) const;
  UnverifiedPort* Find(std::uint16_t port);

  std::vector<UnverifiedPort> doubts_;
};

}  // namespace espalier::controller
