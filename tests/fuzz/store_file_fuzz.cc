// A controller's store on a disk that has lost or changed parts of it: the input selects bytes of a
// valid store that change, and a controller starts with the result.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/files/file.h"
#include "controller/store/store_tools.h"
#include "tests/fuzz/own_folder.h"

namespace {

using espalier::WallTime;
using namespace espalier::controller;

const WallTime kNow{std::chrono::microseconds(1'795'253'938'907'654)};

// Makes the file of a store that a controller has used for some days.
std::string MakeStore(const std::string& path) {
  StoreFile file = OpenStore(path).value();
  file.Begin(kNow).value();
  for (int i = 0; i < 3; ++i) {
    Intents intents;
    intents.failed_links["leaf0--spine" + std::to_string(i)] = {"optics", "user ada", kNow, {}};
    const StartedJob job{{.name = "train", .ranks = {"h0", "h1"}}, {}};
    intents.jobs["train"] = {"", "user ada", kNow, {}, job};
    AuditEntry entry{.action = "fail link", .target = "leaf0--spine0"};
    StoreChange change{.intents = intents, .topology = {"fabric", 7}, .audit = entry};
    const Committed done = file.Commit(change, kNow).value();
    const std::vector<AuditMove> moves = {{"h0:1", "train", "spine0", "spine1"}};
    ESPALIER_CHECK(file.FinishAudit(done.audit_sequence, moves).has_value());
  }
  ESPALIER_CHECK(file.AppendEvents({{1, kNow, "link_failed", "link=leaf0--spine0"}}).has_value());
  ESPALIER_CHECK(file.database().Execute("PRAGMA wal_checkpoint(TRUNCATE)").has_value());
  return espalier::io::ReadFile(path).value();
}

}  // namespace

// Each change has three bytes of position and one of content; an odd first byte truncates the file
// there.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const espalier::fuzz::OwnFolder folder;
  static const std::string good = MakeStore(folder.path() + "/good.db");
  if (size < 1) return 0;
  std::string bytes = good;
  for (std::size_t at = 1; at + 4 <= size; at += 4) {
    const std::size_t place =
        data[at] + std::size_t{256} * (data[at + 1] + std::size_t{256} * data[at + 2]);
    bytes[place % good.size()] = static_cast<char>(data[at + 3]);
    if (at == 1 && data[0] % 2 == 1) bytes.resize(place % good.size());
    if (bytes.size() != good.size()) break;
  }
  const std::string path = folder.path() + "/store.db";
  for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(path + suffix);
  ESPALIER_CHECK(espalier::io::WriteFileDurably(path, bytes).has_value());
  auto file = OpenStore(path);
  if (!file) return 0;
  const auto state = file->Begin(kNow);
  if (!state) return 0;
  // The state that it starts with can be stored and read again, or is refused.
  const auto committed = file->Commit({.intents = state->intents}, kNow);
  if (committed) static_cast<void>(file->ReadIntents(committed->revision));
  static_cast<void>(file->ReadAudit(0, 100));
  static_cast<void>(file->PruneSome(kNow, {}));
  return 0;
}
