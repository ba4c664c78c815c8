#include "collective/program/files/format_mscclpp_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/files/json_writer.h"

namespace espalier::program {
namespace {

constexpr std::size_t kMaxOperations = 64;  // per block
constexpr int kThreads = 1024;
constexpr int kAlignment = 16;

std::size_t At(std::int64_t i) { return static_cast<std::size_t>(i); }

std::string_view CollectiveOf(CollectiveKind kind) {
  return kind == CollectiveKind::kReduceScatter ? "reducescatter" : CollectiveKindName(kind);
}

struct Connection {
  int from = 0;
  int to = 0;
  int channel = 0;
  auto operator<=>(const Connection&) const = default;
};

// Memory of a rank, or of the peer to which its block sends.
struct Place {
  Location at;
  bool is_remote = false;
};

struct Operation {
  std::string_view name;
  // One of the block's channels: the sending one, then the receiving one.
  int channel = -1;
  int semaphore = -1;
  std::vector<Place> sources;
  std::vector<Place> destinations;
  int chunks = 0;
};

// The operations of one block. The threads of a block synchronise in a `nop`: after one of them has
// waited for a message or semaphore and before the others touch data, and where data must be
// complete.
class BlockWriter {
 public:
  void Touch(Operation operation) {
    if (has_waited_ || has_touched_) Meet();
    operations_.push_back(std::move(operation));
    has_touched_ = true;
  }
  void Wait(Operation operation) {
    operations_.push_back(std::move(operation));
    has_waited_ = true;
  }
  void Announce(Operation operation) {
    if (has_touched_) Meet();
    operations_.push_back(std::move(operation));
  }
  const std::vector<Operation>& operations() const { return operations_; }

 private:
  void Meet() {
    operations_.push_back({.name = "nop"});
    has_waited_ = has_touched_ = false;
  }

  std::vector<Operation> operations_;
  bool has_waited_ = false;
  bool has_touched_ = false;
};

// The layout on which the plans of all ranks agree.
class Layout {
 public:
  explicit Layout(const Program& program) {
    for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
      scratch_.push_back(program.ranks[rank].scratch_chunks);
      for (const ThreadBlock& block : program.ranks[rank].blocks) {
        if (block.send_peer != kNoPeer) {
          connections_.insert({static_cast<int>(rank), block.send_peer, block.channel});
        }
      }
    }
    // Assigns each message its place, in the order in which its receiver takes it.
    for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
      for (const ThreadBlock& block : program.ranks[rank].blocks) {
        for (const Step& step : block.steps) {
          if (!Receives(step.op)) continue;
          places_[{block.receive_peer, static_cast<int>(rank), block.channel}].push_back(
              scratch_[rank]);
          scratch_[rank] += step.count;
        }
      }
    }
  }

  const std::set<Connection>& connections() const { return connections_; }
  int scratch(int rank) const { return scratch_[At(rank)]; }
  int PlaceOf(const Connection& connection, std::size_t message) const {
    return places_.at(connection)[message];
  }
  // The connections of a rank in both directions, in the order in which both of their ends list
  // them.
  std::vector<Connection> ConnectionsOf(int rank) const {
    std::vector<Connection> own;
    std::copy_if(connections_.begin(), connections_.end(), std::back_inserter(own),
                 [&](const Connection& one) { return one.from == rank || one.to == rank; });
    return own;
  }

 private:
  std::set<Connection> connections_;
  std::map<Connection, std::vector<int>> places_;
  std::vector<int> scratch_;
};

// One semaphore for each pair of blocks of which one waits for the other. Among several waits for
// one block, those that an earlier wait implies are left out, so that counting suffices.
class Semaphores {
 public:
  explicit Semaphores(const RankProgram& rank) {
    for (std::size_t b = 0; b < rank.blocks.size(); ++b) {
      std::map<std::int32_t, std::int32_t> waited;  // block -> its steps that are known to be done
      for (std::size_t s = 0; s < rank.blocks[b].steps.size(); ++s) {
        for (const Dependency& on : rank.blocks[b].steps[s].after) {
          if (At(on.block) == b || waited[on.block] > on.step) continue;
          waited[on.block] = on.step + 1;
          const auto [found, is_new] = numbers_.try_emplace(
              {on.block, static_cast<std::int32_t>(b)}, static_cast<int>(numbers_.size()));
          const Dependency own{static_cast<std::int32_t>(b), static_cast<std::int32_t>(s)};
          acquired_[own].push_back(found->second);
          released_[on].push_back(found->second);
        }
      }
    }
  }
  std::size_t count() const { return numbers_.size(); }
  const std::vector<int>& Acquired(const Dependency& by) const { return Find(acquired_, by); }
  const std::vector<int>& Released(const Dependency& by) const { return Find(released_, by); }

 private:
  using ByStep = std::map<Dependency, std::vector<int>>;
  static const std::vector<int>& Find(const ByStep& steps, const Dependency& step) {
    static const std::vector<int> none;
    const auto found = steps.find(step);
    return found == steps.end() ? none : found->second;
  }

  std::map<std::pair<std::int32_t, std::int32_t>, int> numbers_;
  ByStep acquired_;
  ByStep released_;
};

class Writer {
 public:
  Writer(const Program& program, const MscclppOptions& options)
      : program_(program), options_(options), layout_(program) {}

  Result<std::string> Write() {
    json_.BeginObject();
    json_.Key("name").String(program_.name);
    json_.Key("collective").String(CollectiveOf(program_.collective.kind));
    json_.Key("protocol").String("Simple");
    json_.Key("inplace").Bool(!program_.placement.out_of_place);
    json_.Key("reuse_resources").Bool(false);
    json_.Key("gpus").BeginArray();
    for (std::size_t rank = 0; rank < program_.ranks.size(); ++rank) {
      auto written = WriteRank(static_cast<int>(rank));
      if (!written) return Propagate(written);
    }
    json_.EndArray();
    json_.Key("num_threads_per_block").Integer(kThreads);
    json_.Key("use_double_scratch_buffer").Bool(false);
    json_.Key("buffer_alignment").Integer(kAlignment);
    json_.Key("min_message_size").Integer(program_.min_bytes);
    if (program_.max_bytes != std::numeric_limits<std::int64_t>::max()) {
      json_.Key("max_message_size").Integer(program_.max_bytes);
    }
    json_.EndObject();
    return json_.Text() + "\n";
  }

 private:
  std::string_view ChannelType(int a, int b) const {
    const int node = options_.ranks_per_node;
    return node == 0 || a / node == b / node ? "memory" : "port";
  }

  Result<void> WriteRank(int rank) {
    const RankProgram& code = program_.ranks[At(rank)];
    const Semaphores semaphores(code);
    json_.BeginObject();
    json_.Key("id").Integer(rank);
    json_.Key("input_chunks").Integer(program_.collective.InputChunks(rank));
    json_.Key("output_chunks").Integer(std::max(1, OutputChunks(rank)));
    json_.Key("scratch_chunks").Integer(layout_.scratch(rank));
    WriteConnections(rank);
    json_.Key("threadblocks").BeginArray();
    for (std::size_t b = 0; b < code.blocks.size(); ++b) {
      auto written = WriteBlock(rank, b, semaphores);
      if (!written) return written;
    }
    json_.EndArray();
    json_.Key("semaphores").BeginArray();
    for (std::size_t i = 0; i < semaphores.count(); ++i) {
      json_.BeginObject().Key("init_value").Integer(0).EndObject();
    }
    json_.EndArray().EndObject();
    return {};
  }

  // All ranks of a reduce have the buffer, also those without a result.
  int OutputChunks(int rank) const {
    const CollectiveSpec& spec = program_.collective;
    return spec.kind == CollectiveKind::kReduce ? spec.chunks : spec.OutputChunks(rank);
  }

  static int PeerOf(const Connection& one, int rank) {
    return one.from == rank ? one.to : one.from;
  }

  // Writes the channels by type, each with the list of peers that its numbers refer to.
  void WriteConnections(int rank) {
    const auto own = layout_.ConnectionsOf(rank);
    channel_numbers_.clear();
    remote_buffers_.clear();
    json_.Key("channels").BeginArray();
    for (const std::string_view type : {"memory", "port"}) {
      std::vector<int> peers;
      for (const Connection& one : own) {
        const int peer = PeerOf(one, rank);
        if (ChannelType(rank, peer) != type) continue;
        channel_numbers_[one] = static_cast<int>(peers.size());
        peers.push_back(peer);
      }
      if (peers.empty()) continue;
      json_.BeginObject().Key("channel_type").String(type).Key("connected_to").BeginArray();
      for (const int peer : peers) json_.Integer(peer);
      json_.EndArray().EndObject();
    }
    json_.EndArray();
    json_.Key("remote_buffers").BeginArray();
    for (const Connection& one : own) {
      if (one.from != rank || remote_buffers_.contains(one.to)) continue;
      remote_buffers_.emplace(one.to, static_cast<int>(remote_buffers_.size()));
      json_.BeginObject().Key("rank").Integer(one.to).Key("type").String("s");
      json_.Key("access_channel_types").BeginArray().String(ChannelType(rank, one.to));
      json_.EndArray().EndObject();
    }
    json_.EndArray();
  }

  static Operation Signal(int channel) { return {.name = "signal", .channel = channel}; }
  static Operation WaitFor(int channel) { return {.name = "wait", .channel = channel}; }

  BlockWriter Translate(int rank, std::size_t number, const Semaphores& semaphores) const {
    const ThreadBlock& block = program_.ranks[At(rank)].blocks[number];
    const int out = 0;
    const int in = block.send_peer == kNoPeer ? 0 : 1;
    const Connection to = {rank, block.send_peer, block.channel};
    const Connection from = {block.receive_peer, rank, block.channel};
    BlockWriter writer;
    if (block.receive_peer != kNoPeer) writer.Announce(Signal(in));
    if (block.send_peer != kNoPeer) writer.Wait(WaitFor(out));
    std::size_t sent = 0;
    std::size_t received = 0;
    for (std::size_t s = 0; s < block.steps.size(); ++s) {
      const Step& step = block.steps[s];
      const Dependency own{static_cast<std::int32_t>(number), static_cast<std::int32_t>(s)};
      for (const int semaphore : semaphores.Acquired(own)) {
        writer.Wait({.name = "sem_acquire", .semaphore = semaphore});
      }
      Location message;
      if (Receives(step.op)) {
        writer.Wait(WaitFor(in));
        message = {Buffer::kScratch, layout_.PlaceOf(from, received++)};
      }
      const Location result = Compute(step, message, writer);
      if (Sends(step.op)) {
        const Location remote = {Buffer::kScratch, layout_.PlaceOf(to, sent++)};
        writer.Touch({.name = "put",
                      .channel = out,
                      .sources = {{result}},
                      .destinations = {{remote, true}},
                      .chunks = step.count});
        writer.Announce(Signal(out));
        if (ChannelType(rank, block.send_peer) == "port") {
          writer.Wait({.name = "flush", .channel = out});
        }
      }
      for (const int semaphore : semaphores.Released(own)) {
        writer.Announce({.name = "sem_release", .semaphore = semaphore});
      }
    }
    return writer;
  }

  // Writes what a step does at its own rank; returns where the data to send is then.
  static Location Compute(const Step& step, Location message, BlockWriter& writer) {
    const auto copy = [&](Location source, Location destination) {
      writer.Touch({.name = "copy",
                    .sources = {{source}},
                    .destinations = {{destination}},
                    .chunks = step.count});
      return source;
    };
    const auto add = [&](Location source, Location more, Location destination) {
      writer.Touch({.name = "re",
                    .sources = {{source}, {more}},
                    .destinations = {{destination}},
                    .chunks = step.count});
      return destination;
    };
    switch (step.op) {
      case OpCode::kNop:
      case OpCode::kSend:
        return step.source;
      case OpCode::kReceive:
      case OpCode::kReceiveCopySend:
        return copy(message, step.destination);
      case OpCode::kReceiveReduceSend:
        return add(step.source, message, message);
      case OpCode::kReceiveReduceCopy:
      case OpCode::kReceiveReduceCopySend:
        return add(step.source, message, step.destination);
      case OpCode::kCopy:
        return copy(step.source, step.destination);
      case OpCode::kReduce:
        return add(step.destination, step.source, step.destination);
    }
    return step.source;
  }

  Result<void> WriteBlock(int rank, std::size_t number, const Semaphores& semaphores) {
    const ThreadBlock& block = program_.ranks[At(rank)].blocks[number];
    const BlockWriter writer = Translate(rank, number, semaphores);
    if (writer.operations().size() > kMaxOperations) {
      return Fail(
          ErrorCode::kUnsupported,
          fmt::format("MSCCL++ cannot express the program: rank {} block {}: {} operations, more "
                      "than {} (make "
                      "it for fewer ranks, with an algorithm of fewer steps, or write msccl-xml)",
                      rank, number, writer.operations().size(), kMaxOperations));
    }
    json_.BeginObject().Key("id").Integer(static_cast<std::int64_t>(number));
    json_.Key("ops").BeginArray();
    std::vector<std::string_view> types;
    for (const int peer : {block.send_peer, block.receive_peer}) {
      if (peer != kNoPeer) types.push_back(ChannelType(rank, peer));
    }
    for (const Operation& one : writer.operations()) WriteOperation(one, types);
    json_.EndArray();
    WriteChannelsOf(rank, block, types);
    json_.Key("remote_buffer_refs").BeginArray();
    if (block.send_peer != kNoPeer) {
      json_.BeginObject().Key("access_channel_type").String(types.front());
      json_.Key("remote_buffer_ids").BeginArray().Integer(remote_buffers_.at(block.send_peer));
      json_.EndArray().EndObject();
    }
    json_.EndArray().EndObject();
    return {};
  }

  void WriteChannelsOf(int rank, const ThreadBlock& block,
                       const std::vector<std::string_view>& types) {
    std::vector<int> numbers;
    if (block.send_peer != kNoPeer) {
      numbers.push_back(channel_numbers_.at({rank, block.send_peer, block.channel}));
    }
    if (block.receive_peer != kNoPeer) {
      numbers.push_back(channel_numbers_.at({block.receive_peer, rank, block.channel}));
    }
    json_.Key("channels").BeginArray();
    const bool is_one_type = types.size() < 2 || types[0] == types[1];
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (i == 0 || !is_one_type) {
        json_.BeginObject().Key("channel_type").String(types[i]).Key("channel_ids").BeginArray();
      }
      json_.Integer(numbers[i]);
      if (!is_one_type || i + 1 == numbers.size()) json_.EndArray().EndObject();
    }
    json_.EndArray();
  }

  void WritePlaces(std::string_view key, const std::vector<Place>& places, int chunks) {
    if (places.empty()) return;
    json_.Key(key).BeginArray();
    for (const Place& place : places) {
      json_.BeginObject();
      if (place.is_remote) {
        json_.Key("buffer_id").Integer(0);  // a block has one peer to send to
      } else {
        json_.Key("type").String(BufferName(place.at.buffer));
      }
      json_.Key("index").Integer(place.at.index).Key("size").Integer(chunks).EndObject();
    }
    json_.EndArray();
  }

  // Channels are numbered within the block, separately for each type.
  void WriteOperation(const Operation& one, const std::vector<std::string_view>& types) {
    json_.BeginObject().Key("name").String(one.name);
    WritePlaces("src_buff", one.sources, one.chunks);
    WritePlaces("dst_buff", one.destinations, one.chunks);
    if (one.channel >= 0) {
      const bool is_second = one.channel == 1 && types[0] == types[1];
      json_.Key("channel_ids").BeginArray().Integer(is_second ? 1 : 0).EndArray();
      json_.Key("channel_type").String(types[At(one.channel)]);
    }
    if (one.semaphore >= 0) {
      json_.Key("semaphore_ids").BeginArray().Integer(one.semaphore).EndArray();
    }
    if (one.name == "re") json_.Key("reduce_op").String("sum");
    json_.EndObject();
  }

  const Program& program_;
  MscclppOptions options_;
  Layout layout_;
  io::JsonWriter json_{true};
  // Channel numbers of the rank that is being written.
  std::map<Connection, int> channel_numbers_;
  std::map<int, int> remote_buffers_;
};

}  // namespace

Result<std::string> FormatMscclppJson(const Program& program, const MscclppOptions& options) {
  if (program.collective.kind == CollectiveKind::kBarrier) {
    return Fail(ErrorCode::kUnsupported, "MSCCL++ cannot express a barrier");
  }
  constexpr std::int64_t kExact = std::int64_t{1} << 53;
  const bool is_open = program.max_bytes == std::numeric_limits<std::int64_t>::max();
  if (program.min_bytes > kExact || (!is_open && program.max_bytes > kExact)) {
    return Fail(ErrorCode::kUnsupported, "MSCCL++ supports sizes up to 2^53 bytes");
  }
  return Writer(program, options).Write();
}

}  // namespace espalier::program
