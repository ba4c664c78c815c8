#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/base/time/event_loop.h"
#include "controller/store/store.h"

namespace espalier::controller {

// The stored data that survives a simulated controller.
struct MemoryDisk {
  std::uint64_t epoch = 0;
  std::uint64_t revision = 0;
  std::map<std::uint64_t, std::pair<Intents, TopologyStamp>> sets;
  std::vector<AuditEntry> audit;
  std::vector<StoredEvent> events;
  ReportedLinks reported_down;
  std::map<std::tuple<WallTime, std::string, std::string>, std::string> ledger;
  JobKey job_secret = JobKey::Draw();
  bool is_full = false;  // every change fails

  Intents intents() const { return revision == 0 ? Intents{} : sets.at(revision).first; }
};

// A store on such a disk, in the time of a (simulated) loop.
class MemoryStore : public Store {
 public:
  MemoryStore(MemoryDisk& disk, EventLoop& loop) : disk_(disk), loop_(loop) {}

  Result<StoredState> Begin() override {
    if (disk_.is_full) return Full();
    ++disk_.epoch;
    revision_ = disk_.revision;
    StoredState state{.epoch = disk_.epoch,
                      .revision = disk_.revision,
                      .intents = disk_.intents(),
                      .topology = {},
                      .events = disk_.events,
                      .reported_down = disk_.reported_down,
                      .ledger = Ledger(),
                      .job_secret = disk_.job_secret};
    if (revision_ > 0) state.topology = disk_.sets.at(revision_).second;
    return state;
  }

  void Commit(StoreChange change, Done<Committed> done) override {
    Answer(std::move(done), [&]() -> Result<Committed> {
      if (disk_.is_full) return Full();
      if (disk_.revision != revision_) {
        return Fail(ErrorCode::kFailedPrecondition, "another controller has written");
      }
      if (change.epoch) disk_.epoch = std::max(disk_.epoch, *change.epoch);
      if (change.reported_down) disk_.reported_down = *change.reported_down;
      if (change.intents) {
        disk_.sets[++disk_.revision] = {*change.intents, change.topology};
        revision_ = disk_.revision;
      }
      Committed committed{revision_, 0};
      if (change.audit) {
        AuditEntry& entry = disk_.audit.emplace_back(*change.audit);
        entry.sequence = committed.audit_sequence = disk_.audit.size();
        entry.revision = change.intents ? revision_ : 0;
      }
      return committed;
    }());
  }

  void FinishAudit(std::uint64_t sequence, std::vector<AuditMove> moves, Done<void> done) override {
    Answer(std::move(done), [&]() -> Result<void> {
      if (disk_.is_full) return Full();
      disk_.audit.at(sequence - 1).moves = std::move(moves);
      disk_.audit.at(sequence - 1).result = AuditResult::kDone;
      return {};
    }());
  }

  void AppendEvents(std::vector<StoredEvent> events) override {
    if (disk_.is_full) return;
    disk_.events.insert(disk_.events.end(), events.begin(), events.end());
  }

  void KeepLedger(std::vector<StoredBursts> parts, WallTime oldest) override {
    if (disk_.is_full) return;
    for (StoredBursts& part : parts) {
      disk_.ledger[{part.begin, part.job, part.placing}] = std::move(part.sums);
    }
    std::erase_if(disk_.ledger, [&](const auto& of) { return std::get<0>(of.first) < oldest; });
  }

  void ReadAudit(std::uint64_t since, std::size_t most,
                 Done<std::vector<AuditEntry>> done) override {
    const auto size = disk_.audit.size();
    const auto first =
        std::max<std::size_t>(std::min<std::size_t>(since, size), size - std::min(most, size));
    Answer(std::move(done),
           Result<std::vector<AuditEntry>>(std::vector<AuditEntry>(
               disk_.audit.begin() + static_cast<std::ptrdiff_t>(first), disk_.audit.end())));
  }

  void ReadIntents(std::uint64_t revision, Done<Intents> done) override {
    const auto found = disk_.sets.find(revision);
    if (found != disk_.sets.end())
      return Answer(std::move(done), Result<Intents>(found->second.first));
    Answer(std::move(done), Result<Intents>(Fail(ErrorCode::kNotFound, "no such revision")));
  }

 private:
  std::vector<StoredBursts> Ledger() const {
    std::vector<StoredBursts> parts;
    for (const auto& [key, sums] : disk_.ledger) {
      const auto& [begin, job, placing] = key;
      parts.push_back({begin, job, placing, sums});
    }
    return parts;
  }
  static tl::unexpected<Error> Full() {
    return Fail(ErrorCode::kResourceExhausted, "the disk is full");
  }
  template <typename T>
  void Answer(Done<T> done, Result<T> result) {
    loop_.Post([done = std::move(done), result = std::move(result)] { done(result); });
  }

  MemoryDisk& disk_;
  EventLoop& loop_;
  std::uint64_t revision_ = 0;
};

}  // namespace espalier::controller
