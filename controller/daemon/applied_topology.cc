#include "controller/daemon/applied_topology.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

#include "common/files/file.h"
#include "common/files/topology_file.h"

namespace espalier::controller {
namespace {

constexpr std::string_view kMark = "espalier-applied-topology 1";

// FNV-1a.
std::uint64_t DigestOf(std::string_view text) {
  std::uint64_t digest = 0xcbf29ce484222325;
  for (const char c : text) digest = (digest ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return digest;
}

std::string HeadFor(std::string_view configured) {
  return fmt::format("{} {:016x}\n", kMark, DigestOf(configured));
}

}  // namespace

Result<AppliedTopology::Loaded> AppliedTopology::Load() const {
  const Result<std::string> configured = io::ReadFile(topology_file_);
  if (!configured) return tl::unexpected<Error>(configured.error());
  const Result<std::string> applied = io::ReadFile(file_);
  if (!applied && applied.error().code != ErrorCode::kNotFound) {
    return tl::unexpected<Error>(applied.error());
  }
  const std::string head = HeadFor(*configured);
  const bool is_applied = applied && applied->starts_with(head);
  Result<fabric::Topology> topology =
      is_applied ? io::ParseTopology(std::string_view(*applied).substr(head.size()), file_)
                 : io::ParseTopology(*configured, topology_file_);
  if (!topology) return Propagate(topology);
  return Loaded{.topology = std::move(*topology),
                .is_applied = is_applied,
                .is_stale = applied.has_value() && !is_applied};
}

void AppliedTopology::HandleStart(const Loaded& loaded, Controller& controller) const {
  if (loaded.is_applied) controller.actions().ForgetUnknown();
  if (!loaded.is_stale) return;
  ::unlink(file_.c_str());
  controller.RecordEvent("applied_topology_discarded",
                         "cause=\"the configured topology file has changed since\"");
}

Result<void> AppliedTopology::Prepare(std::string_view text) {
  const Result<std::string> configured = io::ReadFile(topology_file_);
  if (!configured) return tl::unexpected<Error>(configured.error());
  prepared_ = HeadFor(*configured) + std::string(text);
  // A full disk shows here, before anything is decided.
  Result<void> written = io::WriteFileDurably(NextFile(), prepared_, io::Readers::kOwner);
  if (!written) Abandon();
  return written;
}

Result<void> AppliedTopology::Commit() {
  if (Result<void> written = io::WriteFileDurably(file_, prepared_, io::Readers::kOwner);
      !written) {
    Abandon();
    return written;
  }
  ::unlink(NextFile().c_str());
  has_committed_ = true;
  on_commit_();
  return {};
}

}  // namespace espalier::controller
