#include "collective/program/program.h"

#include <algorithm>

#include "common/base/enum_names.h"

namespace espalier::program {
namespace {

constexpr EnumNames<OpCode> kOpNames({
    {OpCode::kNop, "nop"},
    {OpCode::kSend, "s"},
    {OpCode::kReceive, "r"},
    {OpCode::kReceiveCopySend, "rcs"},
    {OpCode::kReceiveReduceSend, "rrs"},
    {OpCode::kReceiveReduceCopy, "rrc"},
    {OpCode::kReceiveReduceCopySend, "rrcs"},
    {OpCode::kCopy, "cpy"},
    {OpCode::kReduce, "re"},
});

constexpr EnumNames<Buffer> kBufferNames({
    {Buffer::kInput, "i"},
    {Buffer::kOutput, "o"},
    {Buffer::kScratch, "s"},
});

}  // namespace

std::string_view OpCodeName(OpCode op) { return kOpNames.NameOf(op); }
std::optional<OpCode> FindOpCode(std::string_view name) { return kOpNames.Find(name); }
std::string_view BufferName(Buffer buffer) { return kBufferNames.NameOf(buffer); }
std::optional<Buffer> FindBuffer(std::string_view name) { return kBufferNames.Find(name); }

bool Sends(OpCode op) {
  return op == OpCode::kSend || op == OpCode::kReceiveCopySend ||
         op == OpCode::kReceiveReduceSend || op == OpCode::kReceiveReduceCopySend;
}

bool Receives(OpCode op) {
  return op == OpCode::kReceive || op == OpCode::kReceiveCopySend ||
         op == OpCode::kReceiveReduceSend || op == OpCode::kReceiveReduceCopy ||
         op == OpCode::kReceiveReduceCopySend;
}

bool ReadsSource(OpCode op) {
  return op != OpCode::kNop && op != OpCode::kReceive && op != OpCode::kReceiveCopySend;
}

bool ReadsDestination(OpCode op) { return op == OpCode::kReduce; }

bool WritesDestination(OpCode op) {
  return op != OpCode::kNop && op != OpCode::kSend && op != OpCode::kReceiveReduceSend;
}

int CountChannels(const Program& program) {
  if (program.part) return program.part->channels;
  int channels = 0;
  for (const RankProgram& rank : program.ranks) {
    for (const ThreadBlock& block : rank.blocks) channels = std::max(channels, block.channel + 1);
  }
  return channels;
}

std::int64_t CountSteps(const Program& program) {
  std::int64_t steps = 0;
  for (const RankProgram& rank : program.ranks) {
    for (const ThreadBlock& block : rank.blocks) {
      steps += static_cast<std::int64_t>(block.steps.size());
    }
  }
  return steps;
}

MessageCounts CountMessages(const Program& program) {
  if (program.part) return program.part->messages;
  MessageCounts counts;
  for (const RankProgram& rank : program.ranks) {
    for (const ThreadBlock& block : rank.blocks) {
      for (const Step& step : block.steps) {
        if (!Sends(step.op)) continue;
        counts.largest = std::max(counts.largest, step.count);
        counts.chunks += step.count;
        ++counts.messages;
      }
    }
  }
  return counts;
}

}  // namespace espalier::program
