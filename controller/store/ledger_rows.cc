#include "controller/store/ledger_rows.h"

#include <chrono>
#include <cstdint>

namespace espalier::controller {
namespace {

std::int64_t StampOf(WallTime time) { return time.time_since_epoch().count(); }

}  // namespace

Result<std::vector<StoredBursts>> ReadLedger(Database& database) {
  Result<Statement> select = database.Prepare(
      "SELECT begin_us, job, placing, sums FROM ledger ORDER BY begin_us, job, placing");
  if (!select) return Propagate(select);
  std::vector<StoredBursts> parts;
  Result<bool> row = select->Step();
  for (; row && *row; row = select->Step()) {
    parts.push_back({WallTime(std::chrono::microseconds(select->Integer(0))), select->Text(1),
                     select->Text(2), select->Text(3)});
  }
  if (!row) return Propagate(row);
  return parts;
}

Result<void> WriteLedger(Database& database, const std::vector<StoredBursts>& parts,
                         WallTime oldest) {
  Result<Statement> replace = database.Prepare(
      "INSERT OR REPLACE INTO ledger(begin_us, job, placing, sums) VALUES "
      "(?, ?, ?, ?)");
  if (!replace) return Propagate(replace);
  for (const StoredBursts& part : parts) {
    auto written = replace->Bind(StampOf(part.begin), part.job, part.placing, part.sums).Run();
    if (!written) return written;
  }
  Result<Statement> forget = database.Prepare("DELETE FROM ledger WHERE begin_us < ?");
  if (!forget) return Propagate(forget);
  return forget->Bind(StampOf(oldest)).Run();
}

}  // namespace espalier::controller
