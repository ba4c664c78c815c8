#pragma once

#include <optional>
#include <span>

namespace espalier::transport {

// What a rank knows of one of its peers in the present call.
struct PeerInCall {
  int peer = 0;
  bool is_awaited = false;   // this rank waits for it now
  bool has_entered = false;  // something of this call, or of a later one, has come from it
  std::optional<int> named;  // the rank for which it waits in the end, as it said in this call
};

// Finds the rank for which this one waits in the end.
//
// Problem: if a rank does not enter a call, most ranks wait for ranks that wait themselves. Idea:
// ranks that wait tell their peers for which rank they wait in the end: a peer that has not entered
// the call, or else the rank that an awaited peer has named. So the name travels against the waits
// to all ranks. Invariant: of several ranks it is the least, so that all name the same one in time.
// A name is dropped when this rank has heard from its bearer in this call. A rank that computes for
// long without waiting is named, too, until it says something.
std::optional<int> FindLateRank(int rank, int ranks, std::span<const PeerInCall> peers);

}  // namespace espalier::transport
