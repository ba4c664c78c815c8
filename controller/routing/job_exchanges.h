#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "controller/routing/online_assigner.h"

namespace espalier::controller {

// A flow of one subflow that sends.
struct Sender {
  SubflowId subflow;
  std::uint32_t job = 0;
  double nic_bps = 0;  // the most that its NICs leave it
  bool may_move = true;
};

// Which jobs are slow because flows of a leaf cannot be spread evenly over its links, and exchanges
// of paths by which other jobs take their turn.
//
// Four flows on three uplinks put two on one of them. Those get half of what the others get, as
// long as all of them live. A sender is *slowed* if a link of its leaves gives it less than it
// could have: less than its NICs leave it, and less than other links of the same leaf with senders
// give to theirs, at both of its leaves. A job is slowed if one of its senders is, as it waits for
// the slowest.
//
// Some jobs have to be slowed as long as the flows are there. Choose says which ones are to be
// next: those of the least debt, which is the time for which a job has been slowed lately. It fills
// the places on the links that slow with their flows, on all leaves with the same jobs as far as
// possible: a job that is slowed at one leaf anyway loses nothing at another one. Flows that such a
// link does not slow, as their NICs leave them no more, come first. So the number of slowed jobs
// may fall, and else others are.
//
// Only on a 2-tier Clos. The view, the assigner and the spans must outlive it. Deterministic.
// Thread safety: one thread.
class JobExchanges {
 public:
  // `idle_loads`: of flows that do not send, or never while others do, by directed link in 1 /
  // kLoadUnit of a flow.
  JobExchanges(const FabricView& view, const OnlineAssigner& assigner,
               std::span<const Sender> senders, std::span<const std::int64_t> idle_loads);

  // Whether links of one side of a leaf have different loads, so that there may be slowed jobs.
  // `loads`: by directed link in 1 / kLoadUnit of a flow. O(links).
  static bool MayBeUneven(const FabricView& view, std::span<const std::int64_t> loads);

  // The slowed jobs. O(links + senders log jobs).
  std::set<std::uint32_t> SlowedJobs() const;

  struct Limits {
    double worth = 0;            // the least difference of debts for which jobs exchange paths
    std::size_t most_moves = 0;  // of all subflows
    OnlineAssigner::Options chain;
  };
  struct Choice {
    std::vector<OnlineAssigner::Move> moves;  // in order; none: nothing is to be done
    // Indices of senders: one that leaves a link that slows it, and the one that takes its place.
    std::vector<std::pair<std::uint32_t, std::uint32_t>> exchanged;
    bool is_refused = false;  // what would be worth it would harm others, or has no room
  };
  // Chooses exchanges after which jobs are slowed that have at least `worth` less debt than the one
  // of most debt that is not slowed any more; or fewer jobs, and no others. No exchange raises the
  // maximum load, the number of links that have it, or the sum of the squares of loads. `debts`: by
  // job. `assigner`: that of the constructor; its paths are afterwards as before.
  //
  // O(sides that slow x (links + senders)) and, for each exchange, O(links + senders of the leaf)
  // and OnlineAssigner::Rebalance; at most four are tried for each sender that is to leave its
  // link.
  Choice Choose(OnlineAssigner& assigner, std::span<const double> debts, const Limits& limits);

 private:
  struct Rates {
    std::vector<double> of_links;  // what a link gives a sender, in bits per second; 0: no sender
    std::vector<double> of_sides;  // the most of a link with a sender: leaves as senders, receivers
  };
  struct Spread;
  struct Search;  // one call of Choose

  std::uint32_t LeafOf(const Sender& sender, bool leaves_it) const;
  std::uint32_t LinkOf(const Sender& sender, bool leaves_it) const;
  Rates ComputeRates() const;
  // What the sender would get if no link of its leaves gave it less than others of the same leaf.
  double FairOf(const Rates& rates, const Sender& sender) const;
  bool IsSlowed(const Rates& rates, const Sender& sender) const;
  Spread ComputeSpread() const;

  void ChooseAt(Search& search, std::uint32_t leaf, bool leaves_it) const;
  void Exchange(Search& search, std::span<const std::uint32_t> leaving,
                std::span<const std::uint32_t> coming, std::span<const SubflowId> stay) const;
  bool TryExchange(Search& search, std::uint32_t leaving, std::uint32_t coming,
                   std::span<const SubflowId> stay) const;
  bool IsWorthIt(const Search& search) const;

  const FabricView& view_;
  const OnlineAssigner& assigner_;
  std::span<const Sender> senders_;
  std::span<const std::int64_t> idle_loads_;
};

}  // namespace espalier::controller
