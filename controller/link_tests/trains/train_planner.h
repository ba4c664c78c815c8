#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "common/base/random.h"
#include "common/base/time/event_loop.h"
#include "controller/link_tests/trains/test_routes.h"
#include "controller/link_tests/trains/train_book.h"
#include "controller/link_tests/trains/train_orders.h"
#include "controller/link_tests/trains/train_secrets.h"
#include "controller/state/state.h"

namespace espalier::controller {

struct LinkTestOptions {
  // Probes that each NIC sends in a second; 0: links are not tested.
  std::uint32_t probes_per_second = 30;
  // How long a packet waits in a full queue of a switch. Losses count only while no queue on the
  // path is longer than two fifths of this, as a queue that is not full drops nothing.
  Duration full_queue = std::chrono::microseconds(250);
  std::uint8_t udp_dscp = 26;  // of the traffic for which trains of UDP and of TCP stand
  std::uint8_t tcp_dscp = 0;
  // Makes simulations repeatable. Not set: keys and numbers of trains are drawn from the kernel.
  std::optional<std::uint64_t> seed;

  Duration ShortQueue() const { return 2 * full_queue / 5; }
};

// Decides who sends which probe trains when, and orders them.
//
// Problem: all links are to be tested for ever with few packets, doubtful ones at once and with
// many, and no host may be able to lead the tests.
// Idea: three kinds of orders. Once a second each NIC gets its part of the sweep, over routes drawn
// at random; links that are out of use and may return get an eighth of all trains. Twice a second
// the links in focus get trains over routes drawn at random, three quarters of all trains in a
// small fabric. If a path may be dead, a few hosts test each of its links at once: twice within a
// moment over the link, and once over another path between the same hosts.
// Cost: a train is drawn in O(1) expected.
// Thread safety: the controller's loop thread. The references must outlive it.
class TrainPlanner {
 public:
  static constexpr std::uint8_t kPackets = 8;  // of a train
  static constexpr Duration kPeriod = std::chrono::seconds(1);
  static constexpr Duration kFocusPeriod = std::chrono::milliseconds(500);

  struct Callbacks {
    std::function<std::optional<AgentId>(fabric::NodeId nic)> find_prober;
    std::function<void(AgentId, wire::TrainOrder)> send;
  };
  // Writes the trains that it orders into `book`.
  TrainPlanner(const State& state, EventLoop& loop, const TestRoutes& routes, TrainBook& book,
               const LinkTestOptions& options, Callbacks callbacks);

  // Whether an agent can send trains from this NIC and receive them there.
  bool IsReady(fabric::NodeId nic) const;
  // Whether trains can be sent over the link in both directions.
  bool CanTest(fabric::LinkId link) const;

  // Links that are out of use, and whether they may return once trains pass them.
  using Links = std::map<fabric::LinkId, bool>;
  // To be called every kPeriod; `in_focus`: the number of links in focus.
  void PlanPeriod(const Links& out_of_use, std::size_t in_focus);
  // A link in focus, the protocol of which most of its trains are to be (0: of both alike), and
  // what its part of the trains is in proportion to.
  struct Focus {
    fabric::DirectedLink link;
    std::uint8_t protocol = 0;
    double weight = 1;
  };
  // To be called every kFocusPeriod.
  void PlanFocus(std::span<const Focus> focus, const Links& out_of_use);
  // Has a few hosts test the link at once, over paths that avoid `rivals` (DirectedLink::Index) as
  // far as possible.
  void TestNow(fabric::DirectedLink link, const std::set<std::size_t>& rivals,
               const Links& out_of_use);
  std::uint64_t planned() const { return planned_; }  // trains in all

 private:
  // Lets each NIC send this many trains of the sweep, on average.
  void PlanSweep(TrainOrders& orders, double trains);
  // Over this link, started within this time. Every third one takes another path between the same
  // hosts, without which a fault of the link could not be told from one of these hosts.
  void PlanOver(TrainOrders& orders, const Focus& focus, double trains, Duration within,
                const Links& out_of_use);
  // Trains of the whole sweep in a second, and how many of these go to the links in focus.
  double SweepTrains() const;
  static double FocusTrains(double all, std::size_t in_focus);
  TrainOrders::Shape ShapeOf(Duration patience, bool urgent) const;
  Duration DrawStart(Duration within);
  std::uint32_t DrawRoute(fabric::NodeId source);
  // False: no train can take the route now.
  bool Plan(TrainOrders& orders, std::uint32_t route, std::uint8_t protocol, Duration start);
  std::vector<std::uint32_t> UrgentRoutes(fabric::DirectedLink link,
                                          const std::set<std::size_t>& rivals,
                                          const Links& out_of_use);
  // Another route of the same pair whose links are all in use.
  std::optional<std::uint32_t> OtherRoute(std::uint32_t route, const Links& out_of_use) const;
  void Send(TrainOrders& orders);

  const State& state_;
  EventLoop& loop_;
  const TestRoutes& routes_;
  TrainBook& book_;
  const LinkTestOptions options_;
  const Callbacks callbacks_;
  TrainSecrets secrets_;
  Random random_;
  std::vector<double> credit_;  // trains that each NIC may send, by node
  std::uint64_t planned_ = 0;
};

}  // namespace espalier::controller
