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

#include "common/base/metrics.h"
#include "common/base/time/event_loop.h"
#include "controller/api/views/flow_statistics.h"
#include "controller/controller.h"

namespace espalier::controller {

// The state that clients of the live feed have seen last, and the latest changes, as server-sent
// events. Each change is written once for all clients. So is the whole state, which new clients
// get, and clients that fall behind the changes that are kept.
//
// While there are clients, the state is scanned repeatedly, in slices of some hundred flows and
// forest edges, between which the loop does its other work. Pauses between the scans limit the
// scans to a tenth of the time.
//
// Thread safety: the controller's loop thread. The controller may end before this (Close).
class LiveJournal {
 public:
  static constexpr std::size_t kFlowsPerSlice = 512;
  static constexpr std::size_t kMaxUpdates = 32;  // kept

  // `on_news` is called when there may be a new piece to Take.
  LiveJournal(Controller& controller, Metrics& metrics, std::function<void()> on_news);

  // Begins to scan the state, until Rest is called.
  void Follow();
  void Rest();
  // The controller ends: there are no further pieces.
  void Close();
  bool is_closed() const { return controller_ == nullptr; }

  // A piece of the feed, and the number of the latest change that its reader then has.
  struct Piece {
    std::shared_ptr<const std::string> text;  // null: there is no newer change
    std::uint64_t change = 0;
  };
  // The piece that follows a change; 0: the reader has nothing.
  Piece Take(std::uint64_t after);

  TimePoint Now() const { return loop_.Now(); }

 private:
  // A flow, link, agent or other part of the state as clients know it.
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
  // One scan of the state, and the parts of an update that it has found so far.
  struct Scan {
    explicit Scan(const State& state);
    std::vector<FlowSlot> slots;
    std::size_t next_slot = 0;  // of slots
    std::size_t next_flow = 0;  // index of the first flow record that is not scanned yet
    EdgeName last_edge;         // the last edge that was scanned
    bool has_all = false;       // all flows and edges are scanned
    FlowStatistics statistics;
    Duration spent{};
    std::string ended;
    std::string flows;
    std::string rates;
    std::string links;
    std::string agents;
  };

  void Begin();
  // Runs the next slice of the scan, or ends it.
  void Continue();
  // Both return how many more items this slice may scan.
  std::size_t ScanFlows(std::size_t most);
  std::size_t ScanEdges(std::size_t most);
  void ScanFlow(FlowSlot slot);
  void UpdateFlow(FlowRecord& known, const ShownFlow& flow);
  void EndFlow(std::size_t slot);
  // Ends the edges between the last one that was scanned and `next` (null: all that follow).
  void EndEdgesBefore(const EdgeName* next);
  void ScanLinks();
  void ScanAgents();
  void Finish();
  // Stores the digest; true if it has changed, so that the text must be written again.
  static bool IsNews(Record& record, std::uint64_t digest);
  static void AppendTo(std::string& list, std::string_view item);
  void AppendWhole(std::string& out, std::string_view key, Record& record, std::string json);
  // Appends the events after `since`, up to `last`.
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
  bool is_current_ = false;  // a scan has ended since Follow
  std::unique_ptr<Scan> scan_;
  TimerPtr timer_;  // starts the next scan or slice

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
