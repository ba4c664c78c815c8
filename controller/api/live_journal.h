#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/event_loop.h"
#include "common/base/metrics.h"
#include "controller/api/flow_statistics.h"
#include "controller/controller.h"

namespace espalier::controller {

// The controller's state as it was last told to viewers, and the changes since, as server-sent
// events. Each change is written down once, whoever reads it, and so is the whole state, which is
// told to those who are new and to those who are further behind than changes are kept.
//
// While there are viewers the state is looked through again and again, in slices of some hundred
// flows (and edges of forests) between which the loop does its other work, and with pauses: all
// slices together take at most a tenth of the time.
//
// Thread safety: the controller's loop thread. The controller may go before this (Close).
class LiveJournal {
 public:
  static constexpr std::size_t kFlowsPerSlice = 512;
  static constexpr std::size_t kMaxUpdates = 32;  // kept

  // on_news: there is something to Take.
  LiveJournal(Controller& controller, Metrics& metrics, std::function<void()> on_news);

  // Looks at the state from here on, until there is nobody to tell.
  void Follow();
  void Rest();
  // The controller goes: no news from here on.
  void Close();
  bool is_closed() const { return controller_ == nullptr; }

  // A piece of the feed, and the change that its reader has all of then.
  struct Piece {
    std::shared_ptr<const std::string> text;  // null: there is nothing newer
    std::uint64_t change = 0;
  };
  // What comes after a change; 0: from nothing.
  Piece Take(std::uint64_t after);

  TimePoint Now() const { return loop_.Now(); }

 private:
  // A flow, link or agent, or another part, as it was last told.
  struct Record {
    std::uint64_t digest = 0;  // 0: there is none
    std::string json;
  };
  struct FlowRecord {
    Record record;
    std::uint64_t coarse_bps = 0;
    AgentId agent;
    wire::LocalFlowId local;
    std::string name;  // "": none
  };
  // One look through the state, and what it has found so far: the parts of an update.
  struct Look {
    explicit Look(const State& state);
    std::vector<FlowSlot> slots;
    std::size_t next_slot = 0;  // of slots
    std::size_t next_flow = 0;  // of the records: those before it are done
    EdgeName last_edge;         // that was looked at
    bool has_all = false;       // flows and edges
    FlowStatistics statistics;
    Duration spent{};
    std::string ended;
    std::string flows;
    std::string rates;
    std::string links;
    std::string agents;
  };

  void Begin();
  // The next slice of the look, or its end.
  void Continue();
  // Both return how many more may be looked at in this slice.
  std::size_t ScanFlows(std::size_t most);
  std::size_t LookAtEdges(std::size_t most);
  void ScanFlow(FlowSlot slot);
  void Tell(FlowRecord& told, const ShownFlow& flow);
  void EndFlow(std::size_t slot);
  // Those after the last that was looked at, up to that one (null: all).
  void EndEdgesBefore(const EdgeName* next);
  void ScanLinks();
  void ScanAgents();
  void Finish();
  // True where the digest is another than before: the text is to be made anew.
  static bool IsNews(Record& record, std::uint64_t digest);
  static void AppendTo(std::string& list, std::string_view item);
  void AppendWhole(std::string& out, std::string_view key, Record& record, std::string json);
  // Those after `since`, up to `last`.
  void AppendEvents(std::string& out, std::uint64_t since, std::uint64_t last) const;
  void Keep(std::string parts);
  std::shared_ptr<const std::string> WriteSnapshot() const;

  Controller* controller_;
  EventLoop& loop_;
  const std::function<void()> on_news_;
  Counter& updates_written_;
  Counter& snapshots_written_;
  LatencyHistogram& slice_seconds_;

  bool following_ = false;
  bool is_current_ = false;  // a look has ended since Follow
  std::unique_ptr<Look> look_;
  TimerPtr timer_;  // of the next look, or its next slice

  std::uint64_t change_ = 0;      // the latest
  std::uint64_t last_event_ = 0;  // as EventHistory counts
  struct Update {
    std::uint64_t after = 0;
    std::shared_ptr<const std::string> text;
  };
  std::deque<Update> updates_;  // oldest first, each from one change to the next
  std::size_t kept_bytes_ = 0;
  Piece snapshot_;

  TimePoint summarized_;
  LoadSummary loads_;
  Record status_;
  Record jobs_;
  std::vector<FlowRecord> flows_;  // by slot
  std::map<EdgeName, FlowRecord> edges_;
  std::vector<Record> links_;   // by link
  std::vector<Record> agents_;  // by agent
};

}  // namespace espalier::controller
