#include "collective/program/files/mscclpp_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>

namespace espalier::program {
namespace {

using io::JsonFields;
using io::JsonValue;

constexpr std::int64_t kMaxRanks = 1 << 14;
constexpr std::int64_t kMaxChunks = 1 << 22;
constexpr std::int64_t kMaxNumber = 1 << 20;

std::size_t At(std::int64_t i) { return static_cast<std::size_t>(i); }

struct CollectiveName {
  std::string_view name;
  CollectiveKind kind;
};
constexpr std::array<CollectiveName, 8> kCollectives{
    {{"allreduce", CollectiveKind::kAllReduce},
     {"allgather", CollectiveKind::kAllGather},
     {"reducescatter", CollectiveKind::kReduceScatter},
     {"reduce_scatter", CollectiveKind::kReduceScatter},
     {"reduce", CollectiveKind::kReduce},
     {"broadcast", CollectiveKind::kBroadcast},
     {"alltoall", CollectiveKind::kAllToAll},
     {"alltonext", CollectiveKind::kAllToNext}}};

class TableReader {
 public:
  TableReader(ExecutionPlan& plan, PlanErrors& errors) : plan_(plan), errors_(errors) {}

  std::vector<RankTables> Read(const std::vector<JsonValue>& gpus, const std::string& collective) {
    for (std::size_t i = 0; i < gpus.size() && !errors_.first(); ++i) ReadTables(gpus[i], i);
    if (!errors_.first()) ReadCollective(collective, gpus.front());
    if (!errors_.first()) ConnectChannels();
    for (std::size_t i = 0; i < gpus.size() && !errors_.first(); ++i) CheckPeers(gpus[i], i);
    return std::move(tables_);
  }

 private:
  void ReadTables(const JsonValue& json, std::size_t rank) {
    RankTables& tables = tables_.emplace_back();
    PlanRank& made = plan_.ranks.emplace_back();
    JsonFields fields(json, errors_.name());
    if (PlanErrors::Number(fields, "id", kMaxNumber) != static_cast<std::int32_t>(rank)) {
      fields.AddError("id", fmt::format("rank {} stands here, where rank {} belongs",
                                        fields.Integer("id", 0, 0, kMaxNumber), rank));
    }
    tables.chunks = {PlanErrors::Number(fields, "input_chunks", kMaxChunks),
                     PlanErrors::Number(fields, "output_chunks", kMaxChunks),
                     PlanErrors::Number(fields, "scratch_chunks", kMaxChunks)};
    made.scratch_chunks = tables.chunks[2];
    for (const JsonValue& one : fields.Array("channels")) ReadChannels(one, made, tables, rank);
    for (const JsonValue& one : fields.Array("remote_buffers")) {
      JsonFields parts(one, errors_.name());
      RemoteBuffer& buffer = tables.remote_buffers.emplace_back();
      buffer.rank = PlanErrors::Number(parts, "rank", kMaxRanks);
      buffer.buffer = ReadPlanBuffer(parts, "type");
      for (const JsonValue& type : parts.Array("access_channel_types")) {
        if (FindChannelType(type.text) == ChannelType::kMemory) buffer.by_memory = true;
        if (FindChannelType(type.text) == ChannelType::kPort) buffer.by_port = true;
      }
      errors_.Finish(parts);
    }
    for (const JsonValue& one : fields.Array("semaphores")) {
      JsonFields parts(one, errors_.name());
      made.semaphores.push_back(PlanErrors::Number(parts, "init_value", kMaxNumber));
      errors_.Finish(parts);
    }
    errors_.Finish(fields);
  }

  void ReadChannels(const JsonValue& json, PlanRank& rank, RankTables& tables, std::size_t self) {
    JsonFields fields(json, errors_.name());
    const auto type = FindChannelType(fields.RequiredString("channel_type"));
    if (!type) fields.AddError("channel_type", "unknown type of channel");
    if (type == ChannelType::kSwitch) {
      const Buffer buffer = ReadPlanBuffer(fields, "buffer_type");
      for (const JsonValue& group : fields.Array("rank_groups")) {
        JsonFields parts(group, errors_.name());
        tables.switch_channels.push_back({buffer, errors_.Numbers(parts, "ranks", kMaxRanks)});
        errors_.Finish(parts);
      }
    }
    for (const std::int32_t peer : errors_.Numbers(fields, "connected_to", kMaxRanks)) {
      if (At(peer) == self) fields.AddError("connected_to", "a channel leads to its own rank");
      auto& list = type == ChannelType::kPort ? tables.port_channels : tables.memory_channels;
      list.push_back(static_cast<std::int32_t>(rank.channels.size()));
      rank.channels.push_back({type == ChannelType::kPort, peer, -1});
    }
    errors_.Finish(fields);
  }

  void ReadCollective(const std::string& name, const JsonValue& place) {
    const auto found = std::ranges::find(kCollectives, name, &CollectiveName::name);
    CollectiveSpec& spec = plan_.collective;
    spec.ranks = static_cast<int>(tables_.size());
    spec.kind = found == kCollectives.end() ? CollectiveKind::kCustom : found->kind;
    const auto& first = tables_.front().chunks;
    spec.chunks = spec.kind == CollectiveKind::kAllGather ? first[1] : first[0];
    if (spec.kind == CollectiveKind::kReduceScatter) {
      for (const RankTables& one : tables_) spec.counts.push_back(one.chunks[1]);
      if (std::ranges::adjacent_find(spec.counts, std::not_equal_to<>()) == spec.counts.end() &&
          spec.chunks % spec.ranks == 0) {
        spec.counts.clear();
      }
    }
    if (auto checked = spec.Check(); !checked) {
      errors_.Add(place, checked.error().message);
      return;
    }
    for (int rank = 0; rank < spec.ranks; ++rank) {
      const auto& chunks = tables_[At(rank)].chunks;
      if (chunks[0] == spec.InputChunks(rank) && chunks[1] == spec.OutputChunks(rank)) continue;
      errors_.Add(place, fmt::format("rank {} has {} input chunks and {} output chunks, where this "
                                     "{} has {} and {}",
                                     rank, chunks[0], chunks[1], name, spec.InputChunks(rank),
                                     spec.OutputChunks(rank)));
    }
  }

  // Pairs the k-th channel of a type from a to b with the k-th of this type from b to a.
  void ConnectChannels() {
    struct Key {
      bool is_port;
      std::int32_t from, to;
      auto operator<=>(const Key&) const = default;
    };
    std::map<Key, std::vector<std::int32_t>> ends;
    for (std::size_t rank = 0; rank < plan_.ranks.size(); ++rank) {
      const auto& channels = plan_.ranks[rank].channels;
      for (std::size_t i = 0; i < channels.size(); ++i) {
        ends[{channels[i].is_port, static_cast<std::int32_t>(rank), channels[i].peer}].push_back(
            static_cast<std::int32_t>(i));
      }
    }
    for (const auto& [key, own] : ends) {
      const auto other = ends.find({key.is_port, key.to, key.from});
      for (std::size_t i = 0; other != ends.end() && i < own.size(); ++i) {
        if (i >= other->second.size()) break;
        plan_.ranks[At(key.from)].channels[At(own[i])].other_end = other->second[i];
      }
    }
  }

  // Ranks could not be checked before all were known.
  void CheckPeers(const JsonValue& json, std::size_t self) {
    const auto exists = [&](std::int32_t rank) { return At(rank) < plan_.ranks.size(); };
    const PlanRank& own = plan_.ranks[self];
    const RankTables& tables = tables_[self];
    bool fits = std::ranges::all_of(own.channels, exists, &PlanChannel::peer);
    for (const auto& one : tables.switch_channels) fits &= std::ranges::all_of(one.ranks, exists);
    for (const RemoteBuffer& one : tables.remote_buffers) fits &= exists(one.rank);
    if (!fits) {
      errors_.Add(json, fmt::format("rank {} is connected to a rank that does not exist", self));
    }
    for (const RemoteBuffer& one : tables.remote_buffers) {
      for (const bool is_port : {false, true}) {
        const bool is_reached = std::ranges::any_of(own.channels, [&](const PlanChannel& channel) {
          return channel.is_port == is_port && channel.peer == one.rank;
        });
        if (!(is_port ? one.by_port : one.by_memory) || is_reached) continue;
        errors_.Add(json,
                    fmt::format("channel mismatch: rank {} accesses a buffer of rank {} through "
                                "{} channels, but has none to it",
                                self, one.rank, is_port ? "port" : "memory"));
      }
    }
  }

  ExecutionPlan& plan_;
  PlanErrors& errors_;
  std::vector<RankTables> tables_;
};

}  // namespace

void PlanErrors::Finish(const JsonFields& fields) {
  auto finished = fields.FinishKnown();
  if (!finished && !first_) first_ = std::move(finished.error());
}

void PlanErrors::Add(const JsonValue& at, std::string message, ErrorCode code) {
  if (first_) return;
  first_ = Error{code, fmt::format("{}:{}:{}: {}", name_, at.line, at.column, message)};
}

std::int32_t PlanErrors::Number(JsonFields& fields, std::string_view key, std::int64_t max) {
  if (!fields.Has(key)) fields.AddError("", fmt::format("field \"{}\" is missing", key));
  return static_cast<std::int32_t>(fields.Integer(key, 0, 0, max));
}

std::vector<std::int32_t> PlanErrors::Numbers(JsonFields& fields, std::string_view key,
                                              std::int64_t end) {
  std::vector<std::int32_t> numbers;
  for (const JsonValue& item : fields.Array(key)) {
    std::int32_t value = -1;
    const char* last = item.text.data() + item.text.size();
    const auto [stop, failure] = std::from_chars(item.text.data(), last, value);
    if (item.kind != JsonValue::Kind::kNumber || failure != std::errc() || stop != last ||
        value < 0 || value >= end) {
      Add(item, fmt::format("\"{}\" has {}, which is not a number from 0 to {}", key,
                            item.text.empty() ? "no number" : item.text, end - 1));
      return {};
    }
    numbers.push_back(value);
  }
  return numbers;
}

std::optional<ChannelType> FindChannelType(std::string_view text) {
  if (text == "memory") return ChannelType::kMemory;
  if (text == "port") return ChannelType::kPort;
  if (text == "switch") return ChannelType::kSwitch;
  return std::nullopt;
}

Buffer ReadPlanBuffer(JsonFields& fields, std::string_view key) {
  const auto buffer = FindBuffer(fields.RequiredString(key));
  if (!buffer) fields.AddError(key, fmt::format("\"{}\" must be i, o or s", key));
  return buffer.value_or(Buffer::kScratch);
}

std::vector<RankTables> ReadPlanTables(const std::vector<JsonValue>& gpus,
                                       const std::string& collective, ExecutionPlan& plan,
                                       PlanErrors& errors) {
  if (gpus.size() > At(kMaxRanks)) {
    errors.Add(gpus.front(), fmt::format("more than {} ranks", kMaxRanks));
    return {};
  }
  return TableReader(plan, errors).Read(gpus, collective);
}

BlockTables ReadBlockTables(JsonFields& block, const RankTables& rank, PlanErrors& errors) {
  BlockTables made;
  for (const JsonValue& one : block.Array("channels")) {
    JsonFields parts(one, errors.name());
    const auto type = FindChannelType(parts.RequiredString("channel_type"));
    if (!type) parts.AddError("channel_type", "unknown type of channel");
    const auto end = type == ChannelType::kMemory ? rank.memory_channels.size()
                     : type == ChannelType::kPort ? rank.port_channels.size()
                                                  : rank.switch_channels.size();
    for (const std::int32_t id :
         errors.Numbers(parts, "channel_ids", static_cast<std::int64_t>(end))) {
      const auto& list = type == ChannelType::kPort ? rank.port_channels : rank.memory_channels;
      made.channels[At(static_cast<int>(*type))].push_back(
          type == ChannelType::kSwitch ? id : list[At(id)]);
    }
    errors.Finish(parts);
  }
  for (const JsonValue& one : block.Array("remote_buffer_refs")) {
    JsonFields parts(one, errors.name());
    const auto type = FindChannelType(parts.RequiredString("access_channel_type"));
    if (!type) parts.AddError("access_channel_type", "unknown type of channel");
    const auto end = static_cast<std::int64_t>(rank.remote_buffers.size());
    for (const std::int32_t id : errors.Numbers(parts, "remote_buffer_ids", end)) {
      const RemoteBuffer& buffer = rank.remote_buffers[At(id)];
      if (type == ChannelType::kPort ? !buffer.by_port : !buffer.by_memory) {
        errors.Add(one, fmt::format("channel mismatch: remote buffer {} is not accessible through "
                                    "{} channels",
                                    id, type == ChannelType::kPort ? "port" : "memory"));
      }
      if (type) made.remote_buffers[At(static_cast<int>(*type))].push_back(id);
    }
    errors.Finish(parts);
  }
  return made;
}

}  // namespace espalier::program
