#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "agent/flows/flow_source.h"
#include "agent/local/local_protocol.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "proto/messages.h"

namespace espalier::agent {

// The agent's view of the memory that it shares with one client. The client may write anything
// anywhere at any time: its part is copied before it is looked at, and the agent's part is never
// read back. The file is sealed, so that it cannot be truncated under our feet.
class SlotMemory {
 public:
  struct Progress {
    std::uint32_t owner = 0;
    std::uint16_t source_port = 0;
    std::uint64_t remaining_bytes = 0;
    std::uint64_t outstanding_bytes = 0;
    std::uint64_t sent_bytes = 0;
    std::uint32_t retries = 0;
    std::uint32_t rtt_us = 0;
  };

  // Errors: kResourceExhausted where the machine has no memory or descriptor left.
  static Result<SlotMemory> Make();

  // What the client maps.
  int fd() const { return file_.get(); }
  // Slots that may hold flows: [0, UsedSlots()).
  std::uint32_t UsedSlots() const;
  std::uint32_t Owner(std::uint32_t slot) const;
  Progress ReadProgress(std::uint32_t slot) const;
  // Of the connections of a split flow: those that the client tells of.
  std::vector<PortProgress> ReadPorts(std::uint32_t slot) const;
  espalier_flow_desc ReadDescription(std::uint32_t slot) const;
  // What the client says that an agent before this one wrote for the flow (see local_protocol.h);
  // no paths where that is nothing, or no path set. Of a slot that was not written yet.
  wire::PathSet ReadKept(std::uint32_t slot, std::uint32_t serial) const;
  // At most ESPALIER_MAX_PATHS paths. Nobody else may be writing path sets.
  void WritePaths(std::uint32_t slot, std::uint32_t serial, const wire::PathSet& paths);

 private:
  struct Unmap {
    void operator()(espalier_local_memory* memory) const;
  };

  SlotMemory(UniqueFd file, espalier_local_memory* memory);
  espalier_local_slot& Slot(std::uint32_t slot) const;

  UniqueFd file_;
  std::unique_ptr<espalier_local_memory, Unmap> memory_;
  std::vector<std::uint64_t> sequences_;  // ours, as the shared ones may be overwritten
};

}  // namespace espalier::agent
