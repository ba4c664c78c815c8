#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collective/program/mscclpp/plan.h"
#include "common/base/result.h"
#include "common/files/json.h"
#include "common/files/json_fields.h"

// What the operations of an execution plan refer to by number, read from its JSON: channels, remote
// buffers, semaphores. Used by parse_mscclpp_json.cc alone.

namespace espalier::program {

enum class ChannelType : std::uint8_t { kMemory, kPort, kSwitch };

struct RemoteBuffer {
  std::int32_t rank = 0;
  Buffer buffer = Buffer::kScratch;
  bool by_memory = false;
  bool by_port = false;
};

struct SwitchChannel {
  Buffer buffer = Buffer::kScratch;
  std::vector<std::int32_t> ranks;
};

// Of a rank.
struct RankTables {
  std::array<std::int32_t, 3> chunks{};  // by Buffer
  std::vector<std::int32_t> memory_channels;
  std::vector<std::int32_t> port_channels;
  std::vector<SwitchChannel> switch_channels;
  std::vector<RemoteBuffer> remote_buffers;
};

// Of a block: numbers of its rank, by ChannelType.
struct BlockTables {
  std::array<std::vector<std::int32_t>, 3> channels;
  std::array<std::vector<std::int32_t>, 3> remote_buffers;
};

// Keeps the first error of a file, with its place.
class PlanErrors {
 public:
  explicit PlanErrors(std::string_view name) : name_(name) {}

  std::string_view name() const { return name_; }
  const std::optional<Error>& first() const { return first_; }
  // Keeps the error of an object, if it has one.
  void Finish(const io::JsonFields& fields);
  void Add(const io::JsonValue& at, std::string message,
           ErrorCode code = ErrorCode::kInvalidArgument);
  // A required number of a member, from 0 to `max`.
  static std::int32_t Number(io::JsonFields& fields, std::string_view key, std::int64_t max);
  // The numbers of a list, which are below `end`.
  std::vector<std::int32_t> Numbers(io::JsonFields& fields, std::string_view key, std::int64_t end);

 private:
  std::string_view name_;
  std::optional<Error> first_;
};

std::optional<ChannelType> FindChannelType(std::string_view text);
Buffer ReadPlanBuffer(io::JsonFields& fields, std::string_view key);

// Reads the tables of all ranks. It adds ranks with channels, scratch sizes and semaphores, and the
// collective, to `plan`. Errors are added to `errors`.
std::vector<RankTables> ReadPlanTables(const std::vector<io::JsonValue>& gpus,
                                       const std::string& collective, ExecutionPlan& plan,
                                       PlanErrors& errors);
// Reads what a block uses of its rank's tables.
BlockTables ReadBlockTables(io::JsonFields& block, const RankTables& rank, PlanErrors& errors);

}  // namespace espalier::program
