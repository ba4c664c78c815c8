#pragma once

#include <cstdint>

namespace espalier::traffic {

// One host's part in the all-reduces of one ring, over all epochs. Each epoch has 2(R-1) rounds:
// the host sends the first at once, and each further one when it has received the one before. Bytes
// are counted over all epochs, as a neighbour may already be in the next one. Pure; thread safety:
// one thread.
class RingMember {
 public:
  RingMember(int rounds, std::int64_t chunk_bytes) : rounds_(rounds), chunk_bytes_(chunk_bytes) {}

  // Begins the next epoch's all-reduce. Returns how many chunks may be sent now.
  int BeginEpoch();
  // Takes the total bytes received from the previous neighbour. Returns how many more chunks may be
  // sent.
  int HandleReceived(std::int64_t total_bytes);
  // Takes the total bytes that the next neighbour has acknowledged.
  void HandleAcknowledged(std::int64_t total_bytes) { acknowledged_ = total_bytes / chunk_bytes_; }

  // True if all rounds of the epoch are sent, acknowledged and received.
  bool IsEpochDone() const;
  std::int64_t chunk_bytes() const { return chunk_bytes_; }

 private:
  int TakeSendable();

  const int rounds_;
  const std::int64_t chunk_bytes_;
  // In chunks, over all epochs.
  std::int64_t epoch_begin_ = 0;
  std::int64_t epoch_end_ = 0;
  std::int64_t sent_ = 0;
  std::int64_t received_ = 0;
  std::int64_t acknowledged_ = 0;
};

}  // namespace espalier::traffic
