#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "common/base/time/event_loop.h"
#include "common/fabric/topology.h"
#include "controller/link_tests/verdicts/loss_evidence.h"

namespace espalier::controller {

// Decides which directed links deserve more trains than the sweep sends over all links.
//
// Doubt comes from the sweep's own losses, and from hosts: a report that a flow repeated something
// is a vote, divided among the links of its path, and a host has one in a second.
// Doubt only directs trains and is never evidence, so who lies can waste trains, and a host can do
// so for one link in ten seconds. A link in focus leaves it when it is accused, or once its trains
// have acquitted it; then votes do not bring it back for a minute, and twice as long each time.
//
// Memory: O(links that are suspected). Thread safety: none.
class LinkDoubts {
 public:
  static constexpr std::size_t kMostInFocus = 4;
  // A logarithm of likelihoods, which one bad train in four seconds reaches.
  static constexpr double kLeastSuspicion = 2;
  static constexpr double kLeastVotes = 3;
  static constexpr Duration kVoteHalfLife = std::chrono::seconds(5);
  static constexpr Duration kHostPause = std::chrono::seconds(10);
  static constexpr Duration kRest = std::chrono::seconds(60);
  static constexpr Duration kLongest = std::chrono::minutes(2);  // in focus

  // A flow of this host, whose path has these links, repeated something.
  void HandleRepeats(AgentId host, const std::string& name,
                     std::span<const fabric::DirectedLink> links, TimePoint now);
  // The present doubt of a link by its trains since EvidenceSince.
  void SetSuspicion(fabric::DirectedLink link, double logarithm, TimePoint now);
  TimePoint EvidenceSince(fabric::DirectedLink link) const;
  // Its trains have acquitted the link, or it is accused.
  void Acquit(fabric::DirectedLink link, TimePoint now);
  void Accuse(fabric::DirectedLink link);
  // Fills the focus. To be called periodically.
  void Update(TimePoint now);

  struct Focus {
    fabric::DirectedLink link;
    TimePoint since;
    std::set<std::string> suspected_by;  // "sweep", or hosts
    double suspicion = 0;                // now
  };
  std::span<const Focus> focus() const { return focus_; }
  // The hosts whose flows repeat packets, which nothing explains yet; none: there are none.
  // `worst`: the link with most votes. `since`: as long there have been some, without a pause.
  struct Unexplained {
    std::set<std::string> hosts;
    TimePoint since{};
    fabric::DirectedLink worst;
  };
  const Unexplained& unexplained() const { return unexplained_; }

 private:
  struct Doubt {
    double votes = 0;
    TimePoint voted{};
    double suspicion = 0;
    TimePoint acquitted{};
    TimePoint rests_until{};
    Duration rest = kRest;
    std::map<std::string, AgentId> hosts;  // that voted
  };
  struct Host {
    std::string name;
    double votes = 0;  // in this second
    TimePoint second{};
    double repeats = 0;  // its latest votes, which fade
    TimePoint may_focus{};
  };
  // What is left of votes since then.
  static double Faded(double votes, TimePoint since, TimePoint now);
  static double VotesOf(const Doubt& doubt, TimePoint now);
  void UpdateUnexplained(TimePoint now);
  // The suspected link that is not in focus yet and deserves it most, and its score; 0: none.
  std::pair<std::size_t, double> Next(TimePoint now);

  std::map<std::size_t, Doubt> doubts_;  // by DirectedLink::Index
  std::map<AgentId, Host> hosts_;
  std::vector<Focus> focus_;
  Unexplained unexplained_;
};

}  // namespace espalier::controller
