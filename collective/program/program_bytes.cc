#include "collective/program/program_bytes.h"

#include <limits>
#include <utility>
#include <vector>

namespace espalier::program {
namespace {

class Writer {
 public:
  void Number(std::uint64_t value) {
    while (value >= 0x80) {
      bytes_ += static_cast<char>(value | 0x80);
      value >>= 7U;
    }
    bytes_ += static_cast<char>(value);
  }
  // Writes a number from -1 (none) on.
  void Peer(std::int64_t value) { Number(static_cast<std::uint64_t>(value + 1)); }
  void Count(std::int64_t value) { Number(static_cast<std::uint64_t>(value)); }
  void Text(std::string_view text) {
    Number(text.size());
    bytes_ += text;
  }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// After the first error, every read returns zero.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  std::uint64_t Number(std::uint64_t most) {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (bytes_.empty()) break;
      const auto byte = static_cast<unsigned char>(bytes_.front());
      bytes_.remove_prefix(1);
      const std::uint64_t bits = byte & 0x7fU;
      if (shift == 63 && bits > 1) break;
      value |= bits << shift;
      if (byte < 0x80) return value <= most ? value : Break();
    }
    return Break();
  }
  std::int32_t Peer() {
    return static_cast<std::int32_t>(Number(std::numeric_limits<std::int32_t>::max())) - 1;
  }
  std::int32_t Count() {
    return static_cast<std::int32_t>(Number(std::numeric_limits<std::int32_t>::max()));
  }
  // Reads the number of items that take at least a byte each.
  std::size_t Length() { return static_cast<std::size_t>(Number(bytes_.size())); }
  std::string Text() {
    const std::size_t length = Length();
    std::string text(bytes_.substr(0, length));
    bytes_.remove_prefix(text.size());
    return text;
  }
  template <typename Enum>
  Enum OneOf(Enum last) {
    return static_cast<Enum>(Number(static_cast<std::uint64_t>(last)));
  }
  bool IsWhole() const { return !is_broken_ && bytes_.empty(); }

 private:
  std::uint64_t Break() {
    is_broken_ = true;
    bytes_ = {};
    return 0;
  }

  std::string_view bytes_;
  bool is_broken_ = false;
};

void WriteCollective(Writer& writer, const CollectiveSpec& spec) {
  writer.Number(static_cast<std::uint64_t>(spec.kind));
  writer.Count(spec.ranks);
  writer.Count(spec.chunks);
  writer.Peer(spec.root);
  writer.Number(spec.counts.size());
  for (const int count : spec.counts) writer.Count(count);
  writer.Number(spec.expected.size());
  for (const Expectation& expected : spec.expected) {
    writer.Count(expected.rank);
    writer.Count(expected.index);
    writer.Number(expected.sum_of.size());
    for (const InputChunk& chunk : expected.sum_of) {
      writer.Count(chunk.rank);
      writer.Count(chunk.index);
    }
  }
}

CollectiveSpec ReadCollective(Reader& reader) {
  CollectiveSpec spec;
  spec.kind = reader.OneOf(CollectiveKind::kCustom);
  spec.ranks = reader.Count();
  spec.chunks = reader.Count();
  spec.root = reader.Peer();
  spec.counts.resize(reader.Length());
  for (int& count : spec.counts) count = reader.Count();
  spec.expected.resize(reader.Length());
  for (Expectation& expected : spec.expected) {
    expected.rank = reader.Count();
    expected.index = reader.Count();
    expected.sum_of.resize(reader.Length());
    for (InputChunk& chunk : expected.sum_of) {
      chunk.rank = reader.Count();
      chunk.index = reader.Count();
    }
  }
  return spec;
}

void WriteLocation(Writer& writer, const Location& location) {
  writer.Number(static_cast<std::uint64_t>(location.buffer));
  writer.Count(location.index);
}

Location ReadLocation(Reader& reader) {
  const Buffer buffer = reader.OneOf(Buffer::kScratch);
  return {buffer, reader.Count()};
}

void WriteBlock(Writer& writer, const ThreadBlock& block) {
  writer.Peer(block.send_peer);
  writer.Peer(block.receive_peer);
  writer.Count(block.channel);
  writer.Number(block.steps.size());
  for (const Step& step : block.steps) {
    writer.Number(static_cast<std::uint64_t>(step.op));
    WriteLocation(writer, step.source);
    WriteLocation(writer, step.destination);
    writer.Count(step.count);
    writer.Number(step.after.size());
    for (const Dependency& dependency : step.after) {
      writer.Count(dependency.block);
      writer.Count(dependency.step);
    }
  }
}

ThreadBlock ReadBlock(Reader& reader) {
  ThreadBlock block;
  block.send_peer = reader.Peer();
  block.receive_peer = reader.Peer();
  block.channel = reader.Count();
  block.steps.resize(reader.Length());
  for (Step& step : block.steps) {
    step.op = reader.OneOf(OpCode::kReduce);
    step.source = ReadLocation(reader);
    step.destination = ReadLocation(reader);
    step.count = reader.Count();
    step.after.resize(reader.Length());
    for (Dependency& dependency : step.after) {
      dependency.block = reader.Count();
      dependency.step = reader.Count();
    }
  }
  return block;
}

}  // namespace

std::string EncodeProgram(const Program& program) {
  Writer writer;
  writer.Number(kProgramBytesVersion);
  writer.Text(program.name);
  WriteCollective(writer, program.collective);
  writer.Number((program.placement.in_place ? 1U : 0U) |
                (program.placement.out_of_place ? 2U : 0U));
  writer.Number(static_cast<std::uint64_t>(program.protocol));
  writer.Count(program.min_bytes);
  writer.Count(program.max_bytes);
  writer.Number(program.ranks.size());
  for (const RankProgram& rank : program.ranks) {
    writer.Count(rank.input_chunks);
    writer.Count(rank.output_chunks);
    writer.Count(rank.scratch_chunks);
    writer.Number(rank.blocks.size());
    for (const ThreadBlock& block : rank.blocks) WriteBlock(writer, block);
  }
  return writer.Take();
}

Result<Program> DecodeProgram(std::string_view bytes) {
  constexpr auto kMaxBytes = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  Reader reader(bytes);
  if (reader.Number(kMaxBytes) != kProgramBytesVersion) {
    return Fail(ErrorCode::kInvalidArgument, "not a program, or a program of another version");
  }
  Program program;
  program.name = reader.Text();
  program.collective = ReadCollective(reader);
  const std::uint64_t placement = reader.Number(3);
  program.placement = {(placement & 1U) != 0, (placement & 2U) != 0};
  program.protocol = reader.OneOf(Protocol::kLl128);
  program.min_bytes = static_cast<std::int64_t>(reader.Number(kMaxBytes));
  program.max_bytes = static_cast<std::int64_t>(reader.Number(kMaxBytes));
  program.ranks.resize(reader.Length());
  for (RankProgram& rank : program.ranks) {
    rank.input_chunks = reader.Count();
    rank.output_chunks = reader.Count();
    rank.scratch_chunks = reader.Count();
    const std::size_t blocks = reader.Length();
    for (std::size_t i = 0; i < blocks; ++i) rank.blocks.push_back(ReadBlock(reader));
  }
  if (!reader.IsWhole()) {
    return Fail(ErrorCode::kInvalidArgument, "the encoded program is damaged");
  }
  return program;
}

}  // namespace espalier::program
