#include "collective/program/program_bytes.h"

#include <fmt/format.h>

#include <cstring>
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
  void Raw(std::string_view bytes) { bytes_ += bytes; }
  std::size_t size() const { return bytes_.size(); }
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
  ProgramDigest Digest() {
    ProgramDigest digest = {};
    if (bytes_.size() < digest.size()) {
      Break();
      return digest;
    }
    std::memcpy(digest.data(), bytes_.data(), digest.size());
    bytes_.remove_prefix(digest.size());
    return digest;
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

// What comes before the ranks, but the version.
void WriteHead(Writer& writer, const Program& program) {
  writer.Text(program.name);
  WriteCollective(writer, program.collective);
  writer.Number((program.placement.in_place ? 1U : 0U) |
                (program.placement.out_of_place ? 2U : 0U));
  writer.Number(static_cast<std::uint64_t>(program.protocol));
  writer.Count(program.min_bytes);
  writer.Count(program.max_bytes);
  writer.Number(program.ranks.size());
}

std::string HeadOf(const Program& program) {
  Writer writer;
  WriteHead(writer, program);
  return writer.Take();
}

void ReadHead(Reader& reader, Program& program) {
  constexpr auto kMaxBytes = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  program.name = reader.Text();
  program.collective = ReadCollective(reader);
  const std::uint64_t placement = reader.Number(3);
  program.placement = {(placement & 1U) != 0, (placement & 2U) != 0};
  program.protocol = reader.OneOf(Protocol::kLl128);
  program.min_bytes = static_cast<std::int64_t>(reader.Number(kMaxBytes));
  program.max_bytes = static_cast<std::int64_t>(reader.Number(kMaxBytes));
}

void WriteRank(Writer& writer, const RankProgram& rank) {
  writer.Count(rank.input_chunks);
  writer.Count(rank.output_chunks);
  writer.Count(rank.scratch_chunks);
  writer.Number(rank.blocks.size());
  for (const ThreadBlock& block : rank.blocks) WriteBlock(writer, block);
}

std::string BytesOf(const RankProgram& rank) {
  Writer writer;
  WriteRank(writer, rank);
  return writer.Take();
}

void ReadRank(Reader& reader, RankProgram& rank) {
  rank.input_chunks = reader.Count();
  rank.output_chunks = reader.Count();
  rank.scratch_chunks = reader.Count();
  const std::size_t blocks = reader.Length();
  for (std::size_t i = 0; i < blocks; ++i) rank.blocks.push_back(ReadBlock(reader));
}

std::string CountsOf(std::int32_t channels, const MessageCounts& messages) {
  Writer writer;
  writer.Count(channels);
  writer.Count(messages.largest);
  writer.Count(messages.messages);
  writer.Count(messages.chunks);
  return writer.Take();
}

std::string_view TextOf(const ProgramDigest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

std::string PartBytes(std::string_view head, std::size_t rank, std::string_view counts,
                      const ProgramDigest& digest, const std::vector<ProgramDigest>& path,
                      std::string_view blocks) {
  Writer writer;
  writer.Number(kProgramPartVersion);
  writer.Raw(head);
  writer.Number(rank);
  writer.Raw(counts);
  writer.Raw(TextOf(digest));
  for (const ProgramDigest& one : path) writer.Raw(TextOf(one));
  writer.Raw(blocks);
  return writer.Take();
}

// Whether the digest of the whole covers this part and what all ranks share.
bool IsCovered(const Program& program) {
  const ProgramPart& part = *program.part;
  const auto rank = static_cast<std::size_t>(part.rank);
  const ProgramDigest root = DigestTree::Climb(DigestOfPart(rank, BytesOf(program.ranks[rank])),
                                               rank, program.ranks.size(), part.path);
  return DigestOfWhole(HeadOf(program) + CountsOf(part.channels, part.messages), root) ==
         part.digest;
}

tl::unexpected<Error> FailAsDamaged() {
  return Fail(ErrorCode::kInvalidArgument, "the encoded program is damaged");
}

Result<Program> ReadPart(Reader& reader) {
  // Their blocks are not here, so that the bytes do not bound their number.
  constexpr std::uint64_t kMaxRanks = 1 << 16;
  constexpr auto kMaxCount = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  Program program;
  ReadHead(reader, program);
  const auto ranks = static_cast<std::size_t>(reader.Number(kMaxRanks));
  ProgramPart& part = program.part.emplace();
  part.rank = reader.Count();
  part.channels = reader.Count();
  part.messages.largest = reader.Count();
  part.messages.messages = static_cast<std::int64_t>(reader.Number(kMaxCount));
  part.messages.chunks = static_cast<std::int64_t>(reader.Number(kMaxCount));
  part.digest = reader.Digest();
  const auto rank = static_cast<std::size_t>(part.rank);
  if (rank >= ranks) return FailAsDamaged();
  for (std::size_t i = DigestTree::LengthOfPath(rank, ranks); i > 0; --i) {
    part.path.push_back(reader.Digest());
  }
  program.ranks.resize(ranks);
  ReadRank(reader, program.ranks[rank]);
  if (!reader.IsWhole()) return FailAsDamaged();
  if (!IsCovered(program)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("the part of rank {} does not belong to the program whose digest it "
                            "names (get the plan again)",
                            rank));
  }
  return program;
}

}  // namespace

std::string EncodeProgram(const Program& program) {
  if (program.part) {
    const ProgramPart& part = *program.part;
    const auto rank = static_cast<std::size_t>(part.rank);
    return PartBytes(HeadOf(program), rank, CountsOf(part.channels, part.messages), part.digest,
                     part.path, BytesOf(program.ranks[rank]));
  }
  Writer writer;
  writer.Number(kProgramBytesVersion);
  WriteHead(writer, program);
  for (const RankProgram& rank : program.ranks) WriteRank(writer, rank);
  return writer.Take();
}

Result<Program> DecodeProgram(std::string_view bytes) {
  Reader reader(bytes);
  const std::uint64_t version = reader.Number(std::numeric_limits<std::uint32_t>::max());
  if (version == kProgramPartVersion) return ReadPart(reader);
  if (version != kProgramBytesVersion) {
    return Fail(ErrorCode::kInvalidArgument, "not a program, or a program of another version");
  }
  Program program;
  ReadHead(reader, program);
  program.ranks.resize(reader.Length());
  for (RankProgram& rank : program.ranks) ReadRank(reader, rank);
  if (!reader.IsWhole()) return FailAsDamaged();
  return program;
}

namespace {

std::vector<ProgramDigest> DigestsOf(std::string_view blocks,
                                     const std::vector<std::size_t>& ends) {
  std::vector<ProgramDigest> digests;
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    digests.push_back(DigestOfPart(digests.size(), blocks.substr(begin, end - begin)));
    begin = end;
  }
  return digests;
}

std::string EncodeRanks(const Program& whole, std::vector<std::size_t>& ends) {
  Writer writer;
  for (const RankProgram& rank : whole.ranks) {
    WriteRank(writer, rank);
    ends.push_back(writer.size());
  }
  return writer.Take();
}

}  // namespace

EncodedProgram::EncodedProgram(const Program& whole)
    : head_(HeadOf(whole)),
      blocks_(EncodeRanks(whole, ends_)),
      counts_(CountsOf(CountChannels(whole), CountMessages(whole))),
      tree_(DigestsOf(blocks_, ends_)),
      digest_(DigestOfWhole(head_ + counts_, tree_.root())) {}

std::string EncodedProgram::Whole() const {
  Writer writer;
  writer.Number(kProgramBytesVersion);
  writer.Raw(head_);
  writer.Raw(blocks_);
  return writer.Take();
}

std::size_t EncodedProgram::WholeBytes() const { return 1 + head_.size() + blocks_.size(); }

std::string_view EncodedProgram::BytesOf(std::size_t rank) const {
  const std::size_t begin = rank == 0 ? 0 : ends_[rank - 1];
  return std::string_view(blocks_).substr(begin, ends_[rank] - begin);
}

std::string EncodedProgram::PartOf(std::size_t rank) const {
  return PartBytes(head_, rank, counts_, digest_, tree_.PathOf(rank), BytesOf(rank));
}

std::size_t EncodedProgram::MemoryBytes() const {
  return head_.size() + blocks_.size() +
         ends_.size() * (sizeof(std::size_t) + 2 * sizeof(ProgramDigest));
}

}  // namespace espalier::program
