#pragma once

#include <cstdint>
#include <optional>
#include <queue>
#include <span>
#include <utility>
#include <vector>

namespace espalier::offline {

// Simulates transfers over links as fluids whose rates are weighted max-min fair at every moment:
// no transfer can get a higher rate per weight unless another one with an equal or lower rate per
// weight gets less.
//
// Time is in whole nanoseconds; capacities and rates are in bits per nanosecond (Gbit/s). Changes
// (Add, Remove) take effect with Settle, which recomputes only the rates of transfers that share
// links, directly or through others, with a changed transfer: the others cannot differ.
// Rates are exact up to rounding (relative 1e-12); a transfer ends at the first whole nanosecond
// at which all its bits are sent.
// Complexity of Settle: O(links of the part x distinct rates in it).
// Thread safety: one thread.
class FluidNetwork {
 public:
  using Transfer = std::uint32_t;  // reused after Remove

  explicit FluidNetwork(std::vector<double> capacities);

  // Starts a transfer of `bits` > 0 with `weight` > 0 over links (indices into the capacities, at
  // least one, none twice).
  Transfer Add(std::span<const std::uint32_t> links, double weight, double bits);
  // The bits that remain at `now`.
  double Left(Transfer transfer, std::int64_t now) const;
  // Stops the transfer and returns its remaining bits.
  double Remove(Transfer transfer, std::int64_t now);
  // Computes the rates that apply from `now` on.
  void Settle(std::int64_t now);

  // When the next transfer ends, if nothing changes before. Needs settled rates.
  std::optional<std::int64_t> NextEnd();
  // Removes the transfers that end at `now` and returns them in the order of their numbers.
  std::vector<Transfer> TakeEnded(std::int64_t now);

  double Rate(Transfer transfer) const { return transfers_[transfer].rate; }

 private:
  struct Link {
    double capacity = 0;
    double weight = 0;                                          // of its transfers
    std::vector<std::pair<Transfer, std::uint32_t>> transfers;  // and the link's place in theirs
    // While rates are computed:
    double left = 0;
    double open_weight = 0;
    std::uint64_t seen = 0;
    bool is_changed = false;
  };
  struct Flow {
    std::vector<std::uint32_t> links;
    std::vector<std::uint32_t> places;  // in Link::transfers
    double weight = 0;
    double rate = 0;
    double left = 0;  // bits, at `since`
    std::int64_t since = 0;
    std::int64_t end = 0;
    std::uint32_t version = 0;  // of its entry in ends_
    std::uint64_t seen = 0;
    bool is_new = false;
    bool is_fixed = false;
    double new_rate = 0;
  };
  struct End {
    std::int64_t time;
    Transfer transfer;
    std::uint32_t version;
    bool operator>(const End& other) const {
      return std::pair(time, transfer) > std::pair(other.time, other.transfer);
    }
  };

  void MarkChanged(std::uint32_t link);
  void Unlink(Transfer transfer);
  void CollectPart();
  void FillPart();
  void Fix(Transfer transfer, double level);
  void SetRate(Transfer transfer, double rate, std::int64_t now);
  bool IsOutdated(const End& end) const;

  std::vector<Link> links_;
  std::vector<Flow> transfers_;
  std::vector<Transfer> unused_;
  std::vector<std::uint32_t> changed_links_;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
  // The part of the network that Settle computes.
  std::uint64_t part_ = 0;
  std::vector<std::uint32_t> part_links_;
  std::vector<Transfer> part_transfers_;
};

}  // namespace espalier::offline
