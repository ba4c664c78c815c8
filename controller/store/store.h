#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/job_key.h"
#include "common/base/result.h"
#include "common/base/wall_time.h"
#include "controller/intents/intent.h"

namespace espalier::controller {

// The fabric that a set of intents was meant for.
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
  kRefused,     // nothing was changed; `detail` says why
  kDone,        // `moves` is what it moved
  kUnfinished,  // it was made durable, but what it moved is not (yet) known: a crash came between
};

// One line of the audit log: who did what, when, what it moved, how it ended.
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
  std::uint64_t revision = 0;  // of the intents that it made; 0: it changed none
  std::vector<AuditMove> moves;
  bool operator==(const AuditEntry&) const = default;
};

struct StoredEvent {
  std::uint64_t sequence = 0;
  WallTime time;
  std::string kind;
  std::string text;
  std::string source{};  // who caused it, where others than operators did
  bool operator==(const StoredEvent&) const = default;
};

// A link that a telemetry feed has said is down, and not yet that it is up.
struct ReportedLink {
  std::string source;
  WallTime since;
  bool operator==(const ReportedLink&) const = default;
};
using ReportedLinks = std::map<std::string, ReportedLink>;  // by the topology's ids

// What a controller begins with.
struct StoredState {
  std::uint64_t epoch = 0;     // this controller's: above that of every one before it
  std::uint64_t revision = 0;  // of the intents; every change is a new one
  Intents intents;
  TopologyStamp topology;           // of the latest revision; no name: there is none
  std::vector<StoredEvent> events;  // the latest, oldest first
  ReportedLinks reported_down;
  // The latest change, where the clock says that it is yet to come: it was ahead then, or is behind
  // now. Later changes are stamped after it.
  std::optional<WallTime> change_to_come{};
  // What the keys of jobs are derived from: drawn by the first controller that begins with this
  // store, and the same ever after.
  JobKey job_secret = JobKey::Draw();
};

// Changes that become durable together or not at all.
struct StoreChange {
  std::optional<std::uint64_t> epoch;          // to raise it to; a lower one changes nothing
  std::optional<Intents> intents;              // the whole set
  TopologyStamp topology;                      // with intents
  std::optional<ReportedLinks> reported_down;  // the whole set; makes no revision
  std::optional<AuditEntry> audit;  // kRefused or kUnfinished; the store sets its sequence and,
                                    // with intents, its revision
};

struct Committed {
  std::uint64_t revision = 0;        // of the intents from now on
  std::uint64_t audit_sequence = 0;  // of the entry; 0: there was none
};

// Where intents, epoch, audit log and events are kept: a file, a database, other machines.
//
// What was reported as durable survives a crash of process and machine; what failed has changed
// nothing. One controller writes at a time: a second one is refused by Begin or by its first
// Commit, whichever the store can tell.
//
// Thread safety: everything on the controller's loop thread. Only Begin waits; all else is done
// elsewhere in the order of the calls, and `done` is called once, on the loop's thread and never
// inside the call. Too many calls that wait end in kResourceExhausted.
class Store {
 public:
  template <typename T>
  using Done = std::function<void(Result<T>)>;

  virtual ~Store() = default;

  // A new controller takes over: raises the epoch durably and gives what there is. Once, first.
  // Errors: the store cannot be read or written, is damaged, newer than this program, or in use.
  virtual Result<StoredState> Begin() = 0;

  // Errors: kFailedPrecondition where another controller has written meanwhile; kResourceExhausted
  // for a full disk; others from the system.
  virtual void Commit(StoreChange change, Done<Committed> done) = 0;

  // What an audited action moved: kUnfinished becomes kDone.
  virtual void FinishAudit(std::uint64_t sequence, std::vector<AuditMove> moves,
                           Done<void> done) = 0;

  // Of events, the latest 50,000 without a source are kept and the latest 50,000 with one, of which
  // no source has more than 2,000. They may be lost in a crash: only what was decided has to
  // survive, not what was seen.
  virtual void AppendEvents(std::vector<StoredEvent> events) = 0;

  // The latest `most` entries after `since`, oldest first.
  virtual void ReadAudit(std::uint64_t since, std::size_t most,
                         Done<std::vector<AuditEntry>> done) = 0;

  // The intents as they were from that revision on. Errors: kNotFound.
  virtual void ReadIntents(std::uint64_t revision, Done<Intents> done) = 0;
};

}  // namespace espalier::controller
