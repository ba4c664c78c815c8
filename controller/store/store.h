#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/time/wall_time.h"
#include "common/base/users/job_key.h"
#include "controller/intents/intent.h"

namespace espalier::controller {

// The fabric that a set of intents refers to.
struct TopologyStamp {
  std::string name;
  std::int64_t version = 0;
  bool operator==(const TopologyStamp&) const = default;
};

// A flow that an operator's action moved; the switches between the leaves, "" = ECMP.
struct AuditMove {
  std::string flow;
  std::string job;
  std::string from;
  std::string to;
  bool operator==(const AuditMove&) const = default;
};

enum class AuditResult {
  kRefused,     // nothing changed; `detail` has the reason
  kDone,        // `moves` has the flows that it moved
  kUnfinished,  // durable, but its moves are not known yet, or never will be after a crash
};

// One entry of the audit log: who did what, when and why, the result, and the flows that it moved.
struct AuditEntry {
  std::uint64_t sequence = 0;  // 1, 2, ...: given by the store
  WallTime time;
  std::string actor;
  std::string action;  // "drain link"
  std::string target;  // "leaf0--spine1"
  std::string reason;
  std::optional<WallTime> until;
  AuditResult result = AuditResult::kUnfinished;
  std::string detail;
  std::uint64_t revision = 0;  // of the intents that it created; 0: it changed none
  std::vector<AuditMove> moves;
  bool operator==(const AuditEntry&) const = default;
};

// An event as the store keeps it.
struct StoredEvent {
  std::uint64_t sequence = 0;
  WallTime time;
  std::string kind;
  std::string text;
  std::string source{};  // the host or module that caused it; "": operators or the controller
  bool operator==(const StoredEvent&) const = default;
};

// A link that a telemetry feed has reported as down and not as up since.
struct ReportedLink {
  std::string source;
  WallTime since;
  bool operator==(const ReportedLink&) const = default;
};
using ReportedLinks = std::map<std::string, ReportedLink>;  // by the topology's ids

// A part of the ledger as the store keeps it: what the bursts of a job cost in one step of time.
struct StoredBursts {
  WallTime begin;  // of the step
  std::string job;
  std::string placing;  // how the flows of the bursts were placed
  std::string sums;     // in the ledger's own form
  bool operator==(const StoredBursts&) const = default;
};

// The state that a controller begins with.
struct StoredState {
  std::uint64_t epoch = 0;     // this controller's: higher than that of every earlier one
  std::uint64_t revision = 0;  // of the intents; every change is a new one
  Intents intents;
  TopologyStamp topology;           // of the latest revision; no name: there is no revision
  std::vector<StoredEvent> events;  // the latest, oldest first
  ReportedLinks reported_down;
  std::vector<StoredBursts> ledger{};  // oldest first
  // The time of the latest change, if it is in the future: the clock was ahead then or is behind
  // now. Later changes get later times all the same.
  std::optional<WallTime> change_to_come{};
  // The secret from which the keys of jobs are derived. The first controller that uses the store
  // draws it; it never changes afterwards.
  JobKey job_secret = JobKey::Draw();
};

// Changes that become durable together or not at all.
struct StoreChange {
  std::optional<std::uint64_t> epoch;          // raises the epoch; a lower one changes nothing
  std::optional<Intents> intents;              // the whole set
  TopologyStamp topology;                      // with intents
  std::optional<ReportedLinks> reported_down;  // the whole set; creates no revision
  std::optional<AuditEntry> audit;  // kRefused or kUnfinished; the store sets its sequence and,
                                    // with intents, its revision
};

// The result of a commit.
struct Committed {
  std::uint64_t revision = 0;        // of the intents
  std::uint64_t audit_sequence = 0;  // of the audit entry; 0: none
};

// The controller's durable store of intents, epoch, audit log and events.
//
// A change that was reported as durable survives a crash of the process and the machine; a change
// that failed has changed nothing. Only one controller writes at a time: Begin or its first Commit
// refuses a second one, depending on what the store can detect.
//
// Thread safety: all calls on the controller's loop thread. Only Begin blocks. The other calls are
// carried out elsewhere in their order, and `done` is called once, on the loop's thread and never
// inside the call. A call beyond the limit of pending ones ends in kResourceExhausted.
class Store {
 public:
  template <typename T>
  using Done = std::function<void(Result<T>)>;

  virtual ~Store() = default;

  // A new controller takes over: raises the epoch durably and returns the stored state. Call it
  // once, before all else. Errors: the store cannot be read or written, is damaged, is newer than
  // this program, or is in use.
  virtual Result<StoredState> Begin() = 0;

  // Makes a change durable. Errors: kFailedPrecondition if another controller has written
  // meanwhile; kResourceExhausted for a full disk; others from the system.
  virtual void Commit(StoreChange change, Done<Committed> done) = 0;

  // Records the moves of an audited action: kUnfinished becomes kDone.
  virtual void FinishAudit(std::uint64_t sequence, std::vector<AuditMove> moves,
                           Done<void> done) = 0;

  // Stores events. The latest 50,000 without a source are kept, and the latest 50,000 with one, at
  // most 2,000 of each source. A crash may lose events: only decisions must survive, not
  // observations.
  virtual void AppendEvents(std::vector<StoredEvent> events) = 0;

  // Stores parts of the ledger, each instead of the one of its step, job and placing, and forgets
  // those that begin before `oldest`. A crash may lose the last ones.
  virtual void KeepLedger(std::vector<StoredBursts> parts, WallTime oldest) = 0;

  // Reads the latest `most` audit entries after `since`, oldest first.
  virtual void ReadAudit(std::uint64_t since, std::size_t most,
                         Done<std::vector<AuditEntry>> done) = 0;

  // Reads the intents of that revision. Errors: kNotFound.
  virtual void ReadIntents(std::uint64_t revision, Done<Intents> done) = 0;
};

}  // namespace espalier::controller
