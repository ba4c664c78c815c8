#include "agent/local/slot_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include "common/base/check.h"

namespace espalier::agent {
namespace {

Error NoMemory(std::string_view what) {
  return {ErrorCode::kResourceExhausted, fmt::format("{}: {}", what, std::strerror(errno))};
}

template <typename T>
T LoadRelaxed(const T& value) {
  return __atomic_load_n(&value, __ATOMIC_RELAXED);
}

// Limits a byte count to what a FlowSample may have.
std::uint64_t LoadBytes(const std::uint64_t& value) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  return std::min(LoadRelaxed(value), kMost);
}

SourceEdges ReadEdges(const espalier_local_slot& from) {
  const std::uint32_t count = __atomic_load_n(&from.edges, __ATOMIC_ACQUIRE);
  const auto last_ns = static_cast<std::int64_t>(LoadBytes(from.last_edge_ns));
  return {.count = count,
          .last = TimePoint(Duration(last_ns)),
          .between = std::chrono::microseconds(LoadRelaxed(from.between_edges_us))};
}

}  // namespace

void SlotMemory::Unmap::operator()(espalier_local_memory* memory) const {
  munmap(memory, sizeof(*memory));
}

SlotMemory::SlotMemory(UniqueFd file, espalier_local_memory* memory)
    : file_(std::move(file)), memory_(memory), sequences_(ESPALIER_LOCAL_SLOTS, 0) {}

Result<SlotMemory> SlotMemory::Make() {
  UniqueFd file(memfd_create("espalier-flows", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) return tl::unexpected<Error>(NoMemory("memfd_create"));
  if (ftruncate(file.get(), sizeof(espalier_local_memory)) != 0) {
    return tl::unexpected<Error>(NoMemory("ftruncate"));
  }
  if (fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return tl::unexpected<Error>(NoMemory("sealing"));
  }
  void* const mapped = mmap(nullptr, sizeof(espalier_local_memory), PROT_READ | PROT_WRITE,
                            MAP_SHARED, file.get(), 0);
  if (mapped == MAP_FAILED) return tl::unexpected<Error>(NoMemory("mmap"));
  auto* const memory = static_cast<espalier_local_memory*>(mapped);
  memory->header.version = ESPALIER_LOCAL_VERSION;
  return SlotMemory(std::move(file), memory);
}

espalier_local_slot& SlotMemory::Slot(std::uint32_t slot) const {
  ESPALIER_CHECK(slot < ESPALIER_LOCAL_SLOTS, "slot={}", slot);
  return memory_->slots[slot];
}

std::uint32_t SlotMemory::UsedSlots() const {
  const std::uint32_t used = __atomic_load_n(&memory_->header.slots_used, __ATOMIC_ACQUIRE);
  return std::min(used, ESPALIER_LOCAL_SLOTS);
}

std::uint32_t SlotMemory::Owner(std::uint32_t slot) const {
  return __atomic_load_n(&Slot(slot).owner, __ATOMIC_ACQUIRE);
}

SlotMemory::Progress SlotMemory::ReadProgress(std::uint32_t slot) const {
  const espalier_local_slot& from = Slot(slot);
  return {.owner = Owner(slot),
          .source_port = static_cast<std::uint16_t>(LoadRelaxed(from.source_port)),
          .remaining_bytes = LoadBytes(from.remaining_bytes),
          .outstanding_bytes = LoadBytes(from.outstanding_bytes),
          .sent_bytes = LoadBytes(from.sent_bytes),
          .retries = LoadRelaxed(from.retries),
          .rtt_us = LoadRelaxed(from.rtt_us),
          .wait = {.timeout_us = LoadRelaxed(from.timeout_us),
                   .repetitions = LoadRelaxed(from.repetitions)},
          .edges = ReadEdges(from)};
}

std::vector<PortProgress> SlotMemory::ReadPorts(std::uint32_t slot) const {
  ESPALIER_CHECK(slot < ESPALIER_LOCAL_SLOTS, "slot={}", slot);
  std::vector<PortProgress> ports;
  for (const espalier_local_path& from : memory_->paths[slot]) {
    const auto source_port = static_cast<std::uint16_t>(LoadRelaxed(from.source_port));
    if (source_port == 0) continue;
    ports.push_back({.source_port = source_port,
                     .outstanding_bytes = LoadBytes(from.outstanding_bytes),
                     .sent_bytes = LoadBytes(from.sent_bytes),
                     .retries = LoadRelaxed(from.retries)});
  }
  return ports;
}

espalier_flow_desc SlotMemory::ReadDescription(std::uint32_t slot) const {
  espalier_flow_desc copy;
  std::memcpy(&copy, &Slot(slot).flow, sizeof(copy));
  return copy;
}

wire::PathSet SlotMemory::ReadKept(std::uint32_t slot, std::uint32_t serial) const {
  const espalier_local_slot& from = Slot(slot);
  espalier_local_paths copy{};
  for (int i = 0; i < ESPALIER_LOCAL_PATH_WORDS; ++i) {
    copy.words[i] = LoadRelaxed(from.paths.words[i]);
  }
  wire::PathSet kept;
  if (copy.set.serial != serial || copy.set.path_count > ESPALIER_MAX_PATHS) return kept;
  kept.max_rate_bps = copy.set.max_rate_bps;
  for (std::uint32_t i = 0; i < copy.set.path_count; ++i) {
    if (copy.set.source_port[i] == 0) return {};
    kept.paths.push_back(
        {.source_port = copy.set.source_port[i], .weight = copy.set.weight[i], .encoding = {}});
  }
  return kept;
}

void SlotMemory::WritePaths(std::uint32_t slot, std::uint32_t serial, const wire::PathSet& paths) {
  ESPALIER_CHECK(paths.paths.size() <= ESPALIER_MAX_PATHS, "paths={}", paths.paths.size());
  espalier_local_paths words{};
  words.set.serial = serial;
  words.set.path_count = static_cast<std::uint32_t>(paths.paths.size());
  words.set.reason = static_cast<std::uint32_t>(paths.reason);
  words.set.max_rate_bps = paths.max_rate_bps;
  for (std::size_t i = 0; i < paths.paths.size(); ++i) {
    words.set.source_port[i] = paths.paths[i].source_port;
    words.set.weight[i] = static_cast<std::uint16_t>(
        std::min<std::uint32_t>(paths.paths[i].weight, std::numeric_limits<std::uint16_t>::max()));
  }
  espalier_local_write_paths(&Slot(slot), sequences_[slot], &words);
  sequences_[slot] += 2;
}

}  // namespace espalier::agent
