#include "collective/runtime/offload/plan_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <set>
#include <utility>

#include "collective/program/program_bytes.h"
#include "collective/runtime/offload/offload_protocol.h"

namespace espalier::runtime {
namespace {

// The limit that agents have, too.
constexpr std::size_t kMaxPlanBytes = 16 << 20;

tl::unexpected<Error> Malformed(std::string what) {
  return Fail(ErrorCode::kInvalidArgument, std::move(what));
}

}  // namespace

Result<std::size_t> SizeOfPlanFile(const UniqueFd& file) {
  struct stat status = {};
  if (!file || ::fcntl(file.get(), F_GET_SEALS) < 0 || ::fstat(file.get(), &status) != 0 ||
      status.st_size <= 0 || static_cast<std::size_t>(status.st_size) > kMaxPlanBytes) {
    return Malformed(
        fmt::format("a plan needs a memory file (memfd_create) of 1 to {} bytes", kMaxPlanBytes));
  }
  return static_cast<std::size_t>(status.st_size);
}

Result<std::string> ReadPlanFile(const UniqueFd& file, std::size_t size) {
  std::string bytes(size, '\0');
  const ssize_t got = ::pread(file.get(), bytes.data(), bytes.size(), 0);
  if (got < 0 || static_cast<std::size_t>(got) != size) {
    return Malformed("the plan's file cannot be read");
  }
  return bytes;
}

Result<CollectivePlan> ParsePlan(std::string_view bytes) {
  OffloadPlanHeader header;
  if (bytes.size() < sizeof(header)) return Malformed("the plan's file is truncated");
  std::memcpy(&header, bytes.data(), sizeof(header));
  bytes.remove_prefix(sizeof(header));
  if (header.port_count > bytes.size() / sizeof(OffloadPort) ||
      header.program_bytes > bytes.size() - header.port_count * sizeof(OffloadPort)) {
    return Malformed("the plan's file is truncated");
  }
  CollectivePlan plan = {.generation = header.generation};
  for (std::uint64_t i = 0; i < header.port_count; ++i) {
    OffloadPort one;
    std::memcpy(&one, bytes.data(), sizeof(one));
    bytes.remove_prefix(sizeof(one));
    if (one.port != 0 && !IsOpenPort(one.port)) {
      return Malformed(fmt::format("source port {} is out of range (use {} to 65535)", one.port,
                                   kFirstOpenPort));
    }
    plan.source_ports[{one.peer, one.channel}] = static_cast<std::uint16_t>(one.port);
  }
  auto program = program::DecodeProgram(bytes.substr(0, header.program_bytes));
  if (!program) return Propagate(program);
  plan.program = std::make_shared<const program::Program>(std::move(*program));
  return plan;
}

std::int64_t CountConnections(const program::Program& program, int rank) {
  const auto index = static_cast<std::size_t>(rank);
  if (index >= program.ranks.size()) return 0;
  std::set<std::pair<int, int>> ends;
  for (const program::ThreadBlock& block : program.ranks[index].blocks) {
    for (const int peer : {block.send_peer, block.receive_peer}) {
      if (peer != program::kNoPeer) ends.insert({peer, block.channel});
    }
  }
  return static_cast<std::int64_t>(ends.size());
}

}  // namespace espalier::runtime
