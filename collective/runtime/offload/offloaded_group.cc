#include "collective/runtime/offload/offloaded_group.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>

#include "collective/program/program_bytes.h"
#include "collective/runtime/calls/call_signature.h"
#include "collective/runtime/calls/operands.h"
#include "common/os/message_socket.h"

namespace espalier::runtime {
namespace {

using program::CollectiveKind;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

// The interval at which a waiting program checks that the offload service is alive.
constexpr milliseconds kNap{100};
constexpr std::size_t kPage = 4096;

template <std::size_t kSize>
bool Put(const std::string& from, char (&to)[kSize]) {
  if (from.size() >= kSize) return false;
  std::memcpy(to, from.data(), from.size());
  return true;
}

std::uint32_t ToWire(milliseconds timeout) {
  return static_cast<std::uint32_t>(
      std::clamp<std::int64_t>(timeout.count(), 0, std::numeric_limits<int>::max()));
}

// Of a join, on the wire.
std::uint64_t LimitOf(transport::Deadline join_by) {
  const auto left = std::chrono::ceil<milliseconds>(join_by - steady_clock::now());
  return static_cast<std::uint64_t>(std::max<std::int64_t>(left.count(), 1));
}

// Restores an error of the offload service from its code and message.
Error ErrorOf(std::int32_t code, const char* words, std::size_t most_words) {
  constexpr auto kLast = static_cast<std::int32_t>(ErrorCode::kInternal);
  const auto known = static_cast<ErrorCode>(std::clamp(code - 1, 0, kLast));
  return {known, std::string(words, ::strnlen(words, most_words))};
}

bool EndsGroup(ErrorCode code) {
  return code == ErrorCode::kFailedPrecondition || code == ErrorCode::kUnavailable ||
         code == ErrorCode::kAlreadyExists;
}

std::string EncodePlan(const CollectivePlan& plan) {
  const std::string program = program::EncodeProgram(*plan.program);
  const OffloadPlanHeader header = {.generation = plan.generation,
                                    .port_count = plan.source_ports.size(),
                                    .program_bytes = program.size()};
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof(header));
  for (const auto& [endpoint, port] : plan.source_ports) {
    const OffloadPort one = {.peer = endpoint.peer, .channel = endpoint.channel, .port = port};
    bytes.append(reinterpret_cast<const char*>(&one), sizeof(one));
  }
  return bytes + program;
}

}  // namespace

Result<std::unique_ptr<OffloadedGroup>> OffloadedGroup::Begin(const std::string& engine,
                                                              const OffloadRequest& request,
                                                              int rank, int size,
                                                              std::chrono::milliseconds timeout) {
  auto socket = ConnectToPath(engine);
  if (!socket) return Propagate(socket);
  auto ring = MappedFile::Make(sizeof(OffloadRing));
  if (!ring) return Propagate(ring);
  new (ring->data()) OffloadRing;
  const int file = ring->file();
  std::unique_ptr<OffloadedGroup> made(
      new OffloadedGroup(std::move(*socket), std::move(*ring), rank, size, timeout));
  auto joined = made->Ask(request, file);
  if (!joined) return Propagate(joined);
  return made;
}

Result<std::unique_ptr<OffloadedGroup>> OffloadedGroup::JoinJob(const std::string& engine,
                                                                const JobRank& rank, int size,
                                                                milliseconds timeout,
                                                                transport::Deadline join_by) {
  OffloadRequest request = {.kind = OffloadRequestKind::kJoinJob, .value = LimitOf(join_by)};
  if (!Put(rank.job, request.job.name)) {
    return espalier::Fail(ErrorCode::kInvalidArgument, "the job's name is too long");
  }
  request.job.rank = rank.rank;
  request.job.number = rank.number;
  request.job.timeout_ms = ToWire(timeout);
  return Begin(engine, request, rank.rank, size, timeout);
}

Result<std::unique_ptr<OffloadedGroup>> OffloadedGroup::Join(const std::string& engine,
                                                             const std::string& store,
                                                             const std::string& name, int rank,
                                                             int size,
                                                             const CommunicatorOptions& options) {
  OffloadRequest request = {.kind = OffloadRequestKind::kJoin};
  OffloadGroup& group = request.group;
  const bool fits =
      Put(store, group.store) && Put(name, group.name) && Put(options.address, group.address);
  if (!fits) {
    return espalier::Fail(ErrorCode::kInvalidArgument,
                          "the store, the group's name or the address is too long");
  }
  group.rank = rank;
  group.size = size;
  group.medium = static_cast<std::uint32_t>(options.medium);
  group.timeout_ms = ToWire(options.timeout);
  group.connections = static_cast<std::uint32_t>(options.connections);
  group.plan_port = options.plan_port;
  if (options.members.key) {
    std::ranges::copy(options.members.key->bytes(), group.key);
    group.has_key = 1;
  }
  if (options.join_by) request.value = LimitOf(*options.join_by);
  group.trusts_network = options.members.trusts_network ? 1 : 0;
  return Begin(engine, request, rank, size, options.timeout);
}

Error OffloadedGroup::Fail(Error error) {
  {
    const std::lock_guard lock(interruption_mutex_);
    if (interruption_) error = *interruption_;
  }
  if (EndsGroup(error.code)) failure_ = error;
  return error;
}

void OffloadedGroup::Interrupt(const Error& cause) {
  {
    const std::lock_guard lock(interruption_mutex_);
    if (!interruption_) interruption_ = cause;
  }
  // The offload service handles this like the end of the program.
  ::shutdown(socket_.get(), SHUT_RDWR);
}

Result<std::uint64_t> OffloadedGroup::Ask(OffloadRequest request, int file) {
  if (failure_) return tl::unexpected(*failure_);
  const auto gone = [&] {
    return tl::unexpected(
        Fail({ErrorCode::kUnavailable, "the offload service of this host has stopped"}));
  };
  if (!SendMessage(socket_.get(), &request, sizeof(request), file)) return gone();
  ring().bell.Add();
  OffloadReply reply;
  const auto received = ReceiveMessage(socket_.get(), &reply, sizeof(reply), true);
  if (received->bytes != sizeof(reply) || reply.magic != kOffloadMagic) return gone();
  if (reply.code != 0) {
    return tl::unexpected(Fail(ErrorOf(reply.code, reply.words, sizeof(reply.words))));
  }
  return reply.value;
}

Result<OffloadedGroup::Buffer> OffloadedGroup::MakeBuffer(std::size_t bytes) {
  auto file = MappedFile::Make((bytes + kPage - 1) / kPage * kPage);
  if (!file) return Propagate(file);
  auto number = Ask({.kind = OffloadRequestKind::kRegister}, file->file());
  if (!number) return Propagate(number);
  return Buffer{std::move(*file), *number};
}

Result<void*> OffloadedGroup::Allocate(std::size_t bytes) {
  if (bytes == 0) return espalier::Fail(ErrorCode::kInvalidArgument, "bytes must be positive");
  auto buffer = MakeBuffer(bytes);
  if (!buffer) return Propagate(buffer);
  std::byte* const data = buffer->file.data();
  buffers_.emplace(data, std::move(*buffer));
  return data;
}

Result<void> OffloadedGroup::Release(void* memory) {
  const auto found = buffers_.find(static_cast<const std::byte*>(memory));
  if (found == buffers_.end()) {
    return espalier::Fail(ErrorCode::kNotFound,
                          "this memory is not a registered buffer of the group");
  }
  auto released = Ask({.kind = OffloadRequestKind::kRelease, .value = found->second.number}, -1);
  buffers_.erase(found);
  if (!released) return Propagate(released);
  return {};
}

Result<void> OffloadedGroup::Use(CollectivePlan plan) {
  auto checked = CheckCollectivePlan(std::move(plan), rank_, size_);
  if (!checked) return Propagate(checked);
  const std::string bytes = EncodePlan(*checked);
  auto file = MappedFile::Make(bytes.size());
  if (!file) return Propagate(file);
  std::memcpy(file->data(), bytes.data(), bytes.size());
  auto used = Ask({.kind = OffloadRequestKind::kUse}, file->file());
  if (!used) return Propagate(used);
  return {};
}

OffloadedGroup::Place OffloadedGroup::Find(const void* memory, std::size_t bytes) const {
  if (bytes == 0) return {.is_known = true};
  const auto* const begin = static_cast<const std::byte*>(memory);
  auto found = buffers_.upper_bound(begin);
  if (found == buffers_.begin()) return {};
  --found;
  const std::size_t size = found->second.file.size();
  const auto offset = static_cast<std::size_t>(begin - found->first);
  if (offset > size || bytes > size - offset) return {};
  return {.buffer = found->second.number, .offset = offset, .is_known = true};
}

// Provides a staging buffer of at least `bytes` bytes.
Result<void> OffloadedGroup::Stage(std::size_t bytes) {
  if (staging_ && staging_->file.size() >= bytes) return {};
  if (staging_) {
    auto released = Ask({.kind = OffloadRequestKind::kRelease, .value = staging_->number}, -1);
    if (!released) return Propagate(released);
    staging_.reset();
  }
  auto buffer = MakeBuffer(bytes);
  if (!buffer) return Propagate(buffer);
  staging_.emplace(std::move(*buffer));
  return {};
}

Result<void> OffloadedGroup::Run(CollectiveKind kind, const void* input, void* output,
                                 std::size_t count, reduce::DataType type, reduce::ReduceOp op,
                                 int root) {
  const Operands operands = {.input = static_cast<const std::byte*>(input),
                             .output = static_cast<std::byte*>(output),
                             .elements = count,
                             .type = type,
                             .op = op};
  return Call(kind, operands, root, {.count = count});
}

Result<void> OffloadedGroup::RunUnequal(CollectiveKind kind, const void* input, void* output,
                                        std::span<const std::size_t> counts, reduce::DataType type,
                                        reduce::ReduceOp op) {
  if (failure_) return tl::unexpected(*failure_);
  auto bounds = BoundsOf(kind, counts, size_);
  if (!bounds) return Propagate(bounds);
  if (!counts_) {
    auto buffer = MakeBuffer(counts.size_bytes());
    if (!buffer) return Propagate(buffer);
    counts_.emplace(std::move(*buffer));
  }
  std::memcpy(counts_->file.data(), counts.data(), counts.size_bytes());
  const Operands operands = {.input = static_cast<const std::byte*>(input),
                             .output = static_cast<std::byte*>(output),
                             .elements = bounds->back(),
                             .type = type,
                             .op = op,
                             .bounds = *bounds};
  return Call(kind, operands, program::kNoRoot, {.counts_buffer = counts_->number});
}

// Completes `call` with the operands and runs it. Operands outside of registered buffers are copied
// through the staging buffer.
Result<void> OffloadedGroup::Call(CollectiveKind kind, const Operands& operands, int root,
                                  OffloadCall call) {
  if (failure_) return tl::unexpected(*failure_);
  auto checked = CheckOperands(kind, operands, root, rank_, size_);
  if (!checked) return checked;
  call.collective = static_cast<std::uint32_t>(kind);
  call.type = static_cast<std::uint32_t>(operands.type);
  call.op = static_cast<std::uint32_t>(operands.op);
  call.root = root;
  const auto [in_bytes, out_bytes] = BytesOf(kind, operands, root, rank_, size_);
  const Place in = Find(operands.input, in_bytes);
  const Place out = Find(operands.output, out_bytes);
  if (in.is_known && out.is_known) {
    call.input_buffer = in.buffer;
    call.input_offset = in.offset;
    call.output_buffer = out.buffer;
    call.output_offset = out.offset;
    return Do(call);
  }
  // The staging buffer holds the input, then the output; a broadcast's are one.
  const bool is_in_place = kind == CollectiveKind::kBroadcast;
  auto staged = Stage(in_bytes + (is_in_place ? 0 : out_bytes));
  if (!staged) return staged;
  std::byte* const memory = staging_->file.data();
  if (in_bytes > 0) std::memcpy(memory, operands.input, in_bytes);
  // Output elements that the collective does not write must keep their values.
  if (!is_in_place && out_bytes > 0) std::memcpy(memory + in_bytes, operands.output, out_bytes);
  call.input_buffer = in_bytes > 0 ? staging_->number : 0;
  call.output_buffer = out_bytes > 0 ? staging_->number : 0;
  call.output_offset = is_in_place || out_bytes == 0 ? 0 : in_bytes;
  auto done = Do(call);
  if (done && out_bytes > 0) {
    std::memcpy(operands.output, memory + call.output_offset, out_bytes);
  }
  return done;
}

Result<void> OffloadedGroup::Do(const OffloadCall& call) {
  ring().calls[posted_ % kRingCalls] = call;
  const std::uint32_t number = ++posted_;
  ring().posted.store(number, std::memory_order_release);
  ring().bell.Add();
  // The offload service enforces the timeout; twice that means that it hangs.
  const auto deadline = steady_clock::now() + 2 * timeout_;
  while (ring().done.value.load(std::memory_order_acquire) != number) {
    const std::uint32_t seen = number - 1;
    if (transport::SleepOn(ring().done, seen, steady_clock::now() + kNap)) continue;
    char byte = 0;
    const bool has_gone = ::recv(socket_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
    if (has_gone && ring().done.value.load(std::memory_order_acquire) != number) {
      return tl::unexpected(
          Fail({ErrorCode::kUnavailable, "the offload service of this host has stopped"}));
    }
    if (steady_clock::now() >= deadline) {
      return tl::unexpected(
          Fail({ErrorCode::kUnavailable, "the offload service of this host does not respond"}));
    }
  }
  const OffloadResult& result = ring().results[(number - 1) % kRingCalls];
  if (result.code == 0) return {};
  return tl::unexpected(Fail(ErrorOf(result.code, result.words, sizeof(result.words))));
}

}  // namespace espalier::runtime
