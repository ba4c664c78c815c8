#include "controller/ledger/ledger.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "controller/ledger/ledger_text.h"

namespace espalier::controller {

// Bursts, and what they cost once that is computed.
struct Ledger::Work {
  std::vector<SeenBurst> bursts;
  std::vector<BurstCosts> costs;
  bool is_done = false;  // set on the loop's thread
};

void Ledger::Tick(TimePoint now) {
  const double passed = std::clamp(SecondsOf(now - last_tick_), 0.0, 1.0);
  last_tick_ = now;
  const auto earned = static_cast<std::int64_t>(passed * static_cast<double>(kStepsPerSecond));
  steps_ = std::min(steps_ + earned, kStepsPerSecond);
  if (work_ && !work_->is_done) return;
  if (const auto done = std::exchange(work_, nullptr)) {
    for (std::size_t i = 0; i < done->bursts.size(); ++i) {
      book_.Add(options_.wall_clock(), done->bursts[i], done->costs[i]);
    }
  }
  Begin(now);
  if (now - last_stored_ < kStoreInterval) return;
  last_stored_ = now;
  StoreChanged();
}

std::size_t Ledger::Restore(const std::vector<StoredBursts>& stored) {
  LedgerBook::Entries entries;
  std::size_t unreadable = 0;
  for (const StoredBursts& part : stored) {
    const auto placing = FindPlacing(part.placing);
    const Result<BurstSums> sums = ParseSums(part.sums);
    if (placing && sums) {
      entries.insert_or_assign({part.begin, part.job, *placing}, *sums);
    } else {
      ++unreadable;
    }
  }
  book_.Restore(std::move(entries), options_.wall_clock());
  return unreadable;
}

void Ledger::StoreChanged() {
  std::vector<StoredBursts> parts;
  for (const LedgerBook::Key& key : book_.TakeChanged()) {
    parts.push_back({key.begin, key.job, std::string(PlacingName(key.placing)),
                     FormatSums(book_.entries().at(key))});
  }
  if (parts.empty()) return;
  store_.KeepLedger(std::move(parts), book_.entries().begin()->first.begin);
}

void Ledger::Begin(TimePoint now) {
  auto work = std::make_shared<Work>();
  while (steps_ > 0 && work->bursts.size() < kMostAtOnce) {
    std::optional<SeenBurst> burst = watch_.TakeNext(now);
    if (!burst) break;
    steps_ -= BurstCostModel::StepsOf(burst->flows.size());
    work->bursts.push_back(std::move(*burst));
  }
  if (work->bursts.empty()) return;
  if (!fabric_) fabric_ = std::make_shared<FabricCopy>(state_.topology);
  fabric_->TakeStates(state_.topology);
  work_ = work;
  // Neither of these touches this object, which may be gone when they run.
  auto compute = [work, fabric = fabric_] {
    BurstCostModel model(fabric->View());
    for (const SeenBurst& burst : work->bursts) {
      work->costs.push_back(model.Compute(burst.flows, burst.own));
    }
  };
  auto done = [work] { work->is_done = true; };
  if (options_.background) return options_.background(std::move(compute), std::move(done));
  compute();
  done();
}

}  // namespace espalier::controller
