#include "collective/program/files/parse_mscclpp_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collective/program/files/mscclpp_tables.h"

namespace espalier::program {
namespace {

using io::JsonFields;
using io::JsonValue;

constexpr std::int64_t kMaxChunks = 1 << 22;
constexpr std::int64_t kMaxParts = 1024;
constexpr std::int64_t kMaxNumber = 1 << 20;
constexpr std::int64_t kMaxBytes = std::numeric_limits<std::int64_t>::max();

std::size_t At(std::int64_t i) { return static_cast<std::size_t>(i); }

// What memory an operation names at a position of its lists.
enum class Kind : std::uint8_t { kNone, kLocal, kPacket, kRemote, kRemotePacket, kSwitch };

// The operations that move data, as the executor performs them. In pairs, the k-th source goes to
// the k-th destination; otherwise the sources are added up and every destination gets the sum.
struct Shape {
  std::string_view name;
  bool is_paired = false;
  Kind first_source = Kind::kNone;
  Kind more_sources = Kind::kNone;
  Kind first_destination = Kind::kNone;
  Kind second_destination = Kind::kNone;
  Kind more_destinations = Kind::kNone;
};

constexpr Kind kN = Kind::kNone, kL = Kind::kLocal, kP = Kind::kPacket, kR = Kind::kRemote,
               kQ = Kind::kRemotePacket, kS = Kind::kSwitch;
constexpr std::array<Shape, 19> kShapes{{{"copy", false, kL, kN, kL, kN, kN},
                                         {"put", true, kL, kL, kR, kR, kR},
                                         {"pws", true, kL, kL, kR, kR, kR},
                                         {"pwsf", true, kL, kL, kR, kR, kR},
                                         {"get", true, kR, kR, kL, kL, kL},
                                         {"re", false, kL, kL, kL, kN, kN},
                                         {"res", false, kL, kL, kL, kR, kR},
                                         {"rre", false, kL, kR, kL, kN, kN},
                                         {"rres", false, kL, kR, kL, kR, kR},
                                         {"ppkt", true, kL, kL, kQ, kQ, kQ},
                                         {"rppkt", false, kP, kN, kQ, kQ, kQ},
                                         {"cpkt", false, kL, kN, kP, kN, kN},
                                         {"upkt", false, kP, kN, kL, kN, kN},
                                         {"repkt", false, kL, kP, kL, kN, kN},
                                         {"respkt", false, kL, kP, kL, kQ, kQ},
                                         {"recpkt", false, kL, kP, kL, kP, kN},
                                         {"recspkt", false, kL, kP, kL, kP, kQ},
                                         {"gstore", false, kL, kN, kS, kN, kN},
                                         {"glres", false, kS, kN, kS, kN, kN}}};

// Operations without data.
struct SyncShape {
  std::string_view name;
  PlanAction action;
  bool is_relaxed = false;
};
constexpr std::array<SyncShape, 9> kSyncShapes{{{"nop", PlanAction::kMeet},
                                                {"barrier", PlanAction::kBarrier},
                                                {"signal", PlanAction::kSignal},
                                                {"rlxsignal", PlanAction::kSignal, true},
                                                {"wait", PlanAction::kWait},
                                                {"rlxwait", PlanAction::kWait, true},
                                                {"flush", PlanAction::kFlush},
                                                {"sem_acquire", PlanAction::kAcquire},
                                                {"sem_release", PlanAction::kRelease}}};

class Reader {
 public:
  explicit Reader(std::string_view name) : errors_(name) {}

  Result<ExecutionPlan> Read(const JsonValue& json) {
    JsonFields fields(json, errors_.name());
    plan_.name = fields.RequiredString("name");
    const std::string collective = fields.RequiredString("collective");
    const std::string protocol = fields.String("protocol", "Simple");
    if (protocol != "Simple" && protocol != "LL") {
      fields.AddError("protocol", "\"protocol\" must be Simple or LL");
    }
    plan_.protocol = protocol == "LL" ? Protocol::kLl : Protocol::kSimple;
    if (!fields.Has("inplace")) fields.AddError("", "field \"inplace\" is missing");
    plan_.in_place = fields.Bool("inplace", false);
    plan_.alternates_scratch = fields.Bool("use_double_scratch_buffer", false);
    plan_.min_bytes = ReadBytes(fields, "min_message_size", 0);
    plan_.max_bytes = ReadBytes(fields, "max_message_size", kMaxBytes);
    const auto& gpus = fields.RequiredArray("gpus");
    if (gpus.empty()) fields.AddError("gpus", "\"gpus\" has no rank");
    errors_.Finish(fields);
    if (!errors_.first()) tables_ = ReadPlanTables(gpus, collective, plan_, errors_);
    for (std::size_t i = 0; i < gpus.size() && !errors_.first(); ++i) ReadRank(gpus[i], i);
    if (errors_.first()) return tl::unexpected<Error>(*errors_.first());
    return std::move(plan_);
  }

 private:
  // MSCCL++ writes 2^64 - 1 for no limit.
  static std::int64_t ReadBytes(JsonFields& fields, std::string_view key, std::int64_t fallback) {
    const auto text = fields.Decimal(key);
    if (!text) return fallback;
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
    if (error != std::errc() || end != text->data() + text->size()) {
      fields.AddError(key, fmt::format("\"{}\" must be a whole number of bytes", key));
    }
    return static_cast<std::int64_t>(std::min(value, static_cast<std::uint64_t>(kMaxBytes)));
  }

  void ReadRank(const JsonValue& json, std::size_t rank) {
    self_ = static_cast<std::int32_t>(rank);
    JsonFields fields(json, errors_.name());
    const auto& blocks = fields.RequiredArray("threadblocks");
    plan_.ranks[rank].blocks.resize(blocks.size());
    for (std::size_t b = 0; b < blocks.size() && !errors_.first(); ++b) {
      JsonFields parts(blocks[b], errors_.name());
      if (PlanErrors::Number(parts, "id", kMaxNumber) != static_cast<std::int32_t>(b)) {
        parts.AddError("id", fmt::format("block {} belongs here", b));
      }
      const BlockTables tables = ReadBlockTables(parts, tables_[rank], errors_);
      operations_ = &plan_.ranks[rank].blocks[b];
      number_ = 0;
      for (const JsonValue& one : parts.RequiredArray("ops")) {
        if (errors_.first()) break;
        ReadOperation(one, tables);
        ++number_;
      }
      errors_.Finish(parts);
    }
    errors_.Finish(fields);
  }

  void ReadOperation(const JsonValue& json, const BlockTables& tables) {
    JsonFields fields(json, errors_.name());
    const std::string name = fields.RequiredString("name");
    if (name == "pipeline") return ReadPipeline(json, fields, tables);
    PlanOperation operation{.number = number_};
    if (const JsonValue* slice = fields.Object("tbg_info")) {
      JsonFields parts(*slice, errors_.name());
      operation.parts = std::max(1, PlanErrors::Number(parts, "tbg_size", kMaxParts));
      operation.part = PlanErrors::Number(parts, "tb_id", operation.parts - 1);
      errors_.Finish(parts);
    }
    const auto sync = std::ranges::find(kSyncShapes, name, &SyncShape::name);
    const auto shape = std::ranges::find(kShapes, name, &Shape::name);
    if (sync != kSyncShapes.end()) {
      ReadSync(fields, *sync, tables, operation);
    } else if (shape != kShapes.end()) {
      ReadTransfers(json, fields, *shape, tables, operation);
    } else {
      fields.AddError("name", fmt::format("unknown operation \"{}\"", name));
    }
    errors_.Finish(fields);
  }

  // Channels of the block, as channels of the rank.
  std::vector<std::int32_t> ReadChannelIds(JsonFields& fields, const BlockTables& tables) {
    const auto type = FindChannelType(fields.RequiredString("channel_type"));
    if (!type || type == ChannelType::kSwitch) {
      fields.AddError("channel_type", "\"channel_type\" must be memory or port");
      return {};
    }
    const auto& own = tables.channels[At(static_cast<int>(*type))];
    auto ids = errors_.Numbers(fields, "channel_ids", static_cast<std::int64_t>(own.size()));
    for (std::int32_t& id : ids) id = own[At(id)];
    return ids;
  }

  void ReadSync(JsonFields& fields, const SyncShape& shape, const BlockTables& tables,
                PlanOperation& operation) {
    operation.action = shape.action;
    operation.is_relaxed = shape.is_relaxed;
    const auto semaphores = static_cast<std::int64_t>(plan_.ranks[At(self_)].semaphores.size());
    switch (shape.action) {
      case PlanAction::kMeet:
      case PlanAction::kTransfer:
        break;
      case PlanAction::kBarrier:
        operation.barrier = PlanErrors::Number(fields, "barrier_id", kMaxNumber);
        operation.barrier_blocks = PlanErrors::Number(fields, "num_threadblocks", kMaxNumber);
        break;
      case PlanAction::kSignal:
      case PlanAction::kWait:
      case PlanAction::kFlush:
        operation.channels = ReadChannelIds(fields, tables);
        break;
      case PlanAction::kAcquire:
      case PlanAction::kRelease:
        operation.semaphores = errors_.Numbers(fields, "semaphore_ids", semaphores);
        break;
    }
    operations_->push_back(std::move(operation));
  }

  void ReadPipeline(const JsonValue& json, JsonFields& fields, const BlockTables& tables) {
    std::int32_t chunks = 0;
    if (const JsonValue* context = fields.Object("iter_context")) {
      JsonFields parts(*context, errors_.name());
      chunks = PlanErrors::Number(parts, "num_chunks", kMaxChunks);
      errors_.Finish(parts);
    } else {
      fields.AddError("", "a pipeline without \"iter_context\"");
    }
    std::vector<PlanOperation> inner;
    auto* outer = std::exchange(operations_, &inner);
    for (const JsonValue& one : fields.RequiredArray("ops")) {
      const std::size_t first = inner.size();
      const JsonValue* name = one.Find("name");
      if (name != nullptr && name->text == "pipeline") {
        errors_.Add(one, "a pipeline inside a pipeline");
      } else {
        ReadOperation(one, tables);
      }
      for (std::size_t i = first; i < inner.size(); ++i) CheckPiece(one, inner[i], chunks);
    }
    operations_ = outer;
    errors_.Finish(fields);
    for (int piece = 0; piece < kPipelinePieces && !errors_.first(); ++piece) {
      for (PlanOperation operation : inner) {
        if (operation.action == PlanAction::kTransfer) {
          operation.part = piece;
          operation.parts = kPipelinePieces;
        }
        operations_->push_back(std::move(operation));
      }
    }
    if (inner.empty()) errors_.Add(json, "a pipeline without operations");
  }

  void CheckPiece(const JsonValue& json, const PlanOperation& operation, std::int32_t chunks) {
    if (operation.parts != 1) {
      errors_.Add(json, "slices of thread blocks in a pipeline are not supported",
                  ErrorCode::kUnsupported);
    }
    for (const PlanTransfer& one : operation.transfers) {
      const auto is_packet = [](const PlanPlace& place) { return place.is_packet; };
      if (std::ranges::any_of(one.sources, is_packet) ||
          std::ranges::any_of(one.destinations, is_packet)) {
        errors_.Add(json, "packets in a pipeline are not supported", ErrorCode::kUnsupported);
      }
      if (one.count != chunks) {
        errors_.Add(json, fmt::format("{} chunks in a pipeline of {}", one.count, chunks));
      }
    }
  }

  void ReadTransfers(const JsonValue& json, JsonFields& fields, const Shape& shape,
                     const BlockTables& tables, PlanOperation& operation) {
    if (fields.String("reduce_op", "sum") != "sum") {
      errors_.Add(json, "only sums are supported", ErrorCode::kUnsupported);
    }
    type_ = ChannelType::kMemory;
    if (fields.Has("channel_type")) {
      const std::string type = fields.String("channel_type");
      if (!FindChannelType(type) && type != "none") {
        fields.AddError("channel_type", "unknown type of channel");
      }
      type_ = FindChannelType(type).value_or(ChannelType::kMemory);
    }
    const auto& sources = fields.RequiredArray("src_buff");
    const auto& destinations = fields.RequiredArray("dst_buff");
    if (sources.empty() || destinations.empty()) {
      fields.AddError("", "an operation without source or destination");
    }
    if (shape.is_paired && sources.size() != destinations.size()) {
      fields.AddError("src_buff", fmt::format("{} sources for {} destinations", sources.size(),
                                              destinations.size()));
    }
    errors_.Finish(fields);
    if (errors_.first()) return;
    operation.action = PlanAction::kTransfer;
    // A port channel puts packets that are packets already.
    const bool is_port = type_ == ChannelType::kPort;
    const bool is_put = shape.name == "ppkt";
    const Kind packed = is_put && is_port ? Kind::kPacket : Kind::kNone;
    for (std::size_t i = 0; i < sources.size(); ++i) {
      Kind kind = i == 0 ? shape.first_source : shape.more_sources;
      if (packed != Kind::kNone) kind = packed;
      if (i == 0 || shape.is_paired) operation.transfers.emplace_back();
      AddPlace(sources[i], kind, tables, operation.transfers.back(), true);
      operation.transfers.back().waits_for_packets |= kind == Kind::kPacket && !is_put;
    }
    for (std::size_t i = 0; i < destinations.size() && !errors_.first(); ++i) {
      const Kind kind = i == 0   ? shape.first_destination
                        : i == 1 ? shape.second_destination
                                 : shape.more_destinations;
      AddPlace(destinations[i], kind, tables, operation.transfers[shape.is_paired ? i : 0], false);
    }
    AssignChannels(fields, shape, tables, operation);
    if (!errors_.first()) operations_->push_back(operation);
    if (!errors_.first() && shape.name.starts_with("pws")) {
      PlanOperation signal{.action = PlanAction::kSignal, .number = number_};
      for (const PlanTransfer& one : operation.transfers) signal.channels.push_back(one.channel);
      operations_->push_back(signal);
      if (shape.name == "pws") return;
      signal.action = PlanAction::kFlush;
      operations_->push_back(std::move(signal));
    }
  }

  // The channels that perform transfers through the network: one for each destination.
  void AssignChannels(JsonFields& fields, const Shape& shape, const BlockTables& tables,
                      PlanOperation& operation) {
    if (errors_.first()) return;
    if (type_ != ChannelType::kPort) {
      if (shape.name.starts_with("pws")) {
        fields.AddError("name", fmt::format("\"{}\" needs port channels", shape.name));
      }
      return errors_.Finish(fields);
    }
    if (!shape.is_paired && shape.name != "rppkt") {
      fields.AddError("channel_type", fmt::format("\"{}\" cannot use port channels", shape.name));
      return errors_.Finish(fields);
    }
    // Each destination of a forwarded packet is a transfer of its own.
    if (!shape.is_paired) {
      const PlanTransfer all = operation.transfers.front();
      operation.transfers.clear();
      for (const PlanPlace& one : all.destinations) {
        operation.transfers.push_back({all.sources, {one}, all.count, -1, true});
      }
    }
    const auto channels = ReadChannelIds(fields, tables);
    if (channels.size() < operation.transfers.size()) {
      fields.AddError("channel_ids", fmt::format("{} channels for {} transfers", channels.size(),
                                                 operation.transfers.size()));
      return errors_.Finish(fields);
    }
    for (std::size_t i = 0; i < operation.transfers.size() && !errors_.first(); ++i) {
      PlanTransfer& one = operation.transfers[i];
      one.channel = channels[i];
      const auto peer = plan_.ranks[At(self_)].channels[At(one.channel)].peer;
      const auto rank = one.destinations.front().rank == self_ ? one.sources.front().rank
                                                               : one.destinations.front().rank;
      if (rank == peer) continue;
      fields.AddError("channel_ids", fmt::format("channel mismatch: the channel leads to rank {}, "
                                                 "the buffer is of rank {}",
                                                 peer, rank));
    }
    errors_.Finish(fields);
  }

  void AddPlace(const JsonValue& json, Kind kind, const BlockTables& tables, PlanTransfer& transfer,
                bool is_source) {
    if (errors_.first()) return;
    JsonFields fields(json, errors_.name());
    const std::int32_t index = PlanErrors::Number(fields, "index", kMaxChunks);
    const std::int32_t size = PlanErrors::Number(fields, "size", kMaxChunks);
    auto& places = is_source ? transfer.sources : transfer.destinations;
    const std::size_t first = places.size();
    const bool is_packet = kind == Kind::kPacket || kind == Kind::kRemotePacket;
    if (kind == Kind::kNone) {
      fields.AddError("", "one buffer too many for this operation");
    } else if (kind == Kind::kLocal || kind == Kind::kPacket) {
      places.push_back({self_, {ReadPlanBuffer(fields, "type"), index}, is_packet});
    } else if (kind == Kind::kSwitch) {
      AddSwitchPlaces(fields, index, tables, places);
    } else {
      const auto& own = tables.remote_buffers[At(static_cast<int>(type_))];
      const auto id = PlanErrors::Number(fields, "buffer_id", kMaxNumber);
      if (At(id) >= own.size()) {
        fields.AddError("buffer_id", fmt::format("the block has {} remote buffers of this type, "
                                                 "none with number {}",
                                                 own.size(), id));
      } else {
        const RemoteBuffer& buffer = tables_[At(self_)].remote_buffers[At(own[At(id)])];
        places.push_back({buffer.rank, {buffer.buffer, index}, is_packet});
      }
    }
    if (size == 0) fields.AddError("size", "an operation on no chunks");
    if (is_source && places.size() == 1) transfer.count = size;
    if (size != transfer.count) {
      fields.AddError("size",
                      fmt::format("{} chunks here, {} at the other place", size, transfer.count));
    }
    for (std::size_t i = first; i < places.size(); ++i) {
      const PlanPlace& place = places[i];
      const auto chunks = tables_[At(place.rank)].chunks[At(static_cast<int>(place.at.buffer))];
      if (is_packet && place.at.buffer != Buffer::kScratch) {
        fields.AddError("type", "packets are in scratch memory only");
      }
      if (index + size <= chunks) continue;
      fields.AddError("index", fmt::format("{} chunks from {}{} of rank {}, which has {}", size,
                                           BufferName(place.at.buffer), index, place.rank, chunks));
    }
    errors_.Finish(fields);
  }

  void AddSwitchPlaces(JsonFields& fields, std::int32_t index, const BlockTables& tables,
                       std::vector<PlanPlace>& places) {
    const auto& own = tables.channels[At(static_cast<int>(ChannelType::kSwitch))];
    const auto id = PlanErrors::Number(fields, "switch_channel_id", kMaxNumber);
    if (At(id) >= own.size()) {
      fields.AddError("switch_channel_id", "the block has no such switch channel");
      return;
    }
    const SwitchChannel& channel = tables_[At(self_)].switch_channels[At(own[At(id)])];
    for (const std::int32_t rank : channel.ranks) {
      places.push_back({rank, {channel.buffer, index}, false});
    }
    // The executing rank adds and stores first, so that its own memory can hold the sum.
    const auto self = std::ranges::find(places, self_, &PlanPlace::rank);
    if (self == places.end()) {
      fields.AddError("switch_channel_id", "the rank is not in the group of this switch channel");
      return;
    }
    std::rotate(places.begin(), self, self + 1);
  }

  PlanErrors errors_;
  ExecutionPlan plan_;
  std::vector<RankTables> tables_;
  // Of the block that is being read.
  std::int32_t self_ = 0;
  std::vector<PlanOperation>* operations_ = nullptr;
  std::int32_t number_ = 0;
  ChannelType type_ = ChannelType::kMemory;
};

}  // namespace

bool IsMscclppPlan(const JsonValue& json) {
  return json.kind == JsonValue::Kind::kObject && json.Find("gpus") != nullptr;
}

Result<ExecutionPlan> ParseMscclppJson(const JsonValue& json, std::string_view name) {
  return Reader(name).Read(json);
}

}  // namespace espalier::program
