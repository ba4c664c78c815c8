#include "collective/runtime/offload/offload_session.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "collective/program/program_bytes.h"
#include "collective/runtime/check_operands.h"
#include "collective/transport/patience.h"
#include "collective/transport/tcp_store.h"
#include "common/base/message_socket.h"

namespace espalier::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::size_t kMostPlanBytes = 256 << 20;
constexpr std::uint32_t kLongestTimeoutMs = 600'000;
constexpr std::uint32_t kMostConnections = 64;
constexpr std::int32_t kMostRanks = 4'096;
constexpr std::uint32_t kFirstOpenPort = 1024;  // those below are the system's
constexpr milliseconds kNap{200};

tl::unexpected<Error> Refuse(std::string what) {
  return Fail(ErrorCode::kInvalidArgument, std::move(what));
}

template <std::size_t kSize>
std::string TextOf(const char (&text)[kSize]) {
  return {text, ::strnlen(text, kSize)};
}

template <std::size_t kSize>
void SetText(char (&text)[kSize], const std::string& words) {
  const std::size_t length = std::min(words.size(), kSize - 1);
  std::memcpy(text, words.data(), length);
  text[length] = '\0';
}

std::int32_t CodeOf(const Error& error) { return 1 + static_cast<std::int32_t>(error.code); }

// A store whose waits end when the session does.
class SessionStore : public transport::Store {
 public:
  SessionStore(std::unique_ptr<transport::Store> store, const std::atomic<bool>& is_over)
      : store_(std::move(store)), is_over_(is_over) {}
  Result<void> Set(const std::string& key, const std::string& value) override {
    return store_->Set(key, value);
  }
  Result<std::string> Get(const std::string& key, transport::Deadline deadline) override {
    std::string value;
    auto got = transport::WaitInNaps({deadline, &is_over_}, [&](transport::Deadline nap) {
      auto found = store_->Get(key, nap);
      if (!found) return Result<void>(Propagate(found));
      value = std::move(*found);
      return Result<void>();
    });
    if (!got) return Propagate(got);
    return value;
  }

 private:
  std::unique_ptr<transport::Store> store_;
  const std::atomic<bool>& is_over_;
};

// Of bytes that nobody else can change any more.
Result<Plan> ParsePlan(std::string_view bytes) {
  OffloadPlanHeader header;
  if (bytes.size() < sizeof(header)) return Refuse("a plan that is cut short");
  std::memcpy(&header, bytes.data(), sizeof(header));
  bytes.remove_prefix(sizeof(header));
  if (header.port_count > bytes.size() / sizeof(OffloadPort) ||
      header.program_bytes > bytes.size() - header.port_count * sizeof(OffloadPort)) {
    return Refuse("a plan that is cut short");
  }
  Plan plan = {.generation = header.generation};
  for (std::uint64_t i = 0; i < header.port_count; ++i) {
    OffloadPort one;
    std::memcpy(&one, bytes.data(), sizeof(one));
    bytes.remove_prefix(sizeof(one));
    if (one.port > UINT16_MAX || (one.port != 0 && one.port < kFirstOpenPort)) {
      return Refuse(fmt::format("source port {}: from {} on", one.port, kFirstOpenPort));
    }
    plan.source_ports[{one.peer, one.channel}] = static_cast<std::uint16_t>(one.port);
  }
  auto program = program::DecodeProgram(bytes.substr(0, header.program_bytes));
  if (!program) return Propagate(program);
  plan.program = std::make_shared<const program::Program>(std::move(*program));
  return plan;
}

}  // namespace

OffloadSession::OffloadSession(UniqueFd socket, const OffloadOptions& options)
    : socket_(std::move(socket)), options_(options), thread_([this] { Serve(); }) {}

void OffloadSession::End(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (why_.empty()) why_ = why;
  is_over_ = true;
  ::shutdown(socket_.get(), SHUT_RD);
  if (communicator_ != nullptr) {
    communicator_->Interrupt(
        {ErrorCode::kUnavailable, fmt::format("rank {}: {}", communicator_->rank(), why_)});
  }
}

void OffloadSession::Serve() {
  bool is_well = HandleRequest(true);
  while (is_well && !is_over_) {
    const std::uint32_t seen = ring_ ? ring().bell.value.load(std::memory_order_acquire) : 0;
    is_well = HandleRequest(!ring_);
    while (is_well && !is_over_ && ring_ && DoNextCall()) {
    }
    if (ring_) transport::SleepOn(ring().bell, seen, steady_clock::now() + kNap);
  }
  is_over_ = true;
  {
    const std::lock_guard lock(mutex_);
    communicator_.reset();
  }
  ::shutdown(socket_.get(), SHUT_RDWR);
  has_ended_ = true;
}

// Answers the requests that are there. False where the session is to end.
bool OffloadSession::HandleRequest(bool wait) {
  OffloadRequest request;
  while (true) {
    auto received = ReceiveMessage(socket_.get(), &request, sizeof(request), wait);
    if (!received) return true;
    if (received->bytes != sizeof(request) || request.magic != kOffloadMagic) return false;
    OffloadReply reply;
    auto done = request.version == kOffloadVersion
                    ? Answer(request, std::move(received->file))
                    : Fail(ErrorCode::kUnsupported,
                           fmt::format("this engine speaks version {}, the program {}",
                                       kOffloadVersion, request.version));
    if (done) {
      reply.value = *done;
    } else {
      reply.code = CodeOf(done.error());
      SetText(reply.words, done.error().message);
    }
    if (!SendMessage(socket_.get(), &reply, sizeof(reply))) return false;
    wait = false;
  }
}

Result<std::uint64_t> OffloadSession::Answer(const OffloadRequest& request, UniqueFd file) {
  if (request.kind == OffloadRequestKind::kJoin) return Join(request.group, std::move(file));
  if (communicator_ == nullptr) return Refuse("the first request is to join a group");
  switch (request.kind) {
    case OffloadRequestKind::kRegister:
      return Register(std::move(file));
    case OffloadRequestKind::kRelease: {
      const auto found = buffers_.find(request.value);
      if (found == buffers_.end()) return Fail(ErrorCode::kNotFound, "no such buffer");
      bytes_ -= found->second.size();
      buffers_.erase(found);
      return 0;
    }
    case OffloadRequestKind::kUse:
      return Use(std::move(file));
    default:
      return Refuse("no such request");
  }
}

Result<std::uint64_t> OffloadSession::Join(const OffloadGroup& group, UniqueFd ring) {
  if (ring_) return Refuse("a session joins one group");
  const std::string place = TextOf(group.store);
  const std::size_t colon = place.rfind(':');
  if (!place.starts_with("tcp://") ||
      std::strtoul(place.c_str() + colon + 1, nullptr, 10) < kFirstOpenPort) {
    return Refuse(
        fmt::format("\"{}\": offloaded groups meet at tcp://ADDRESS:PORT, PORT from {} on", place,
                    kFirstOpenPort));
  }
  if (group.timeout_ms == 0 || group.timeout_ms > kLongestTimeoutMs || group.connections == 0 ||
      group.connections > kMostConnections || group.plan_port > UINT16_MAX ||
      group.medium > static_cast<std::uint32_t>(Medium::kVerbs) || group.size < 1 ||
      group.size > kMostRanks || group.rank < 0 || group.rank >= group.size ||
      (group.plan_port != 0 && group.plan_port < kFirstOpenPort)) {
    return Refuse("options of a group that are out of range");
  }
  auto mapped = MappedFile::Adopt(std::move(ring), sizeof(OffloadRing));
  if (!mapped) return Propagate(mapped);
  if (mapped->size() != sizeof(OffloadRing)) return Refuse("a ring of another version");
  const CommunicatorOptions options = {.medium = static_cast<Medium>(group.medium),
                                       .timeout = milliseconds(group.timeout_ms),
                                       .address = TextOf(group.address),
                                       .connections = static_cast<int>(group.connections),
                                       .plan_port = static_cast<std::uint16_t>(group.plan_port),
                                       .costs_file = options_.costs_file};
  auto store = transport::OpenStore(place, group.rank, options.timeout);
  if (!store) return Propagate(store);
  store_ = std::make_unique<SessionStore>(std::move(*store), is_over_);
  auto joined = Communicator::Join(*store_, TextOf(group.name), group.rank, group.size, options);
  if (!joined) return Propagate(joined);
  const std::lock_guard lock(mutex_);
  communicator_ = std::move(*joined);
  ring_.emplace(std::move(*mapped));
  return 0;
}

Result<std::uint64_t> OffloadSession::Register(UniqueFd file) {
  if (buffers_.size() >= options_.most_buffers) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("{} buffers are as many as there can be", buffers_.size()));
  }
  auto mapped = MappedFile::Adopt(std::move(file), options_.most_bytes - bytes_);
  if (!mapped) return Propagate(mapped);
  bytes_ += mapped->size();
  buffers_.emplace(++last_buffer_, std::move(*mapped));
  return last_buffer_;
}

Result<std::uint64_t> OffloadSession::Use(UniqueFd file) {
  auto mapped = MappedFile::Adopt(std::move(file), kMostPlanBytes);
  if (!mapped) return Propagate(mapped);
  const std::string copy(reinterpret_cast<const char*>(mapped->data()), mapped->size());
  auto plan = ParsePlan(copy);
  if (!plan) return Propagate(plan);
  auto used = communicator_->Use(std::move(*plan));
  if (!used) return Propagate(used);
  return 0;
}

Result<std::byte*> OffloadSession::Find(std::uint64_t buffer, std::uint64_t offset,
                                        std::uint64_t bytes) const {
  if (buffer == 0) return nullptr;
  const auto found = buffers_.find(buffer);
  if (found == buffers_.end()) return Refuse(fmt::format("there is no buffer {}", buffer));
  const std::size_t size = found->second.size();
  if (offset > size || bytes > size - offset) {
    return Refuse(fmt::format("{} bytes from {} on are not all in buffer {}, which has {}", bytes,
                              offset, buffer, size));
  }
  return found->second.data() + offset;
}

// False where no call is posted.
bool OffloadSession::DoNextCall() {
  const std::uint32_t posted = ring().posted.load(std::memory_order_acquire);
  if (posted == done_) return false;
  OffloadCall call;
  std::memcpy(&call, &ring().calls[done_ % kRingCalls], sizeof(call));
  auto done = posted - done_ <= kRingCalls
                  ? Do(call)
                  : Result<void>(Refuse("more calls are posted than the ring has places for"));
  OffloadResult& result = ring().results[done_ % kRingCalls];
  result.code = done ? 0 : CodeOf(done.error());
  SetText(result.words, done ? std::string() : done.error().message);
  ring().done.Set(++done_);
  return true;
}

Result<void> OffloadSession::Do(const OffloadCall& call) {
  if (call.collective > static_cast<std::uint32_t>(program::CollectiveKind::kCustom) ||
      call.type >= reduce::kDataTypes || call.op >= reduce::kReduceOps) {
    return Refuse("no such collective, type or operation");
  }
  const auto kind = static_cast<program::CollectiveKind>(call.collective);
  const auto type = static_cast<reduce::DataType>(call.type);
  const std::size_t most = options_.most_bytes / reduce::SizeOf(type);
  Operands operands = {.elements = call.count, .type = type};
  std::vector<std::size_t> counts;
  std::vector<std::size_t> bounds;
  if (call.counts_buffer != 0) {
    auto copied = CopyCounts(call);
    if (!copied) return Propagate(copied);
    counts = std::move(*copied);
    auto added = BoundsOf(kind, counts, communicator_->size());
    if (!added) return Propagate(added);
    bounds = std::move(*added);
    operands.elements = bounds.back();
    operands.bounds = bounds;
  }
  const Shares shares = SharesOf(kind, communicator_->size());
  const std::size_t times = bounds.empty() ? std::max(shares.input, shares.output) : 1;
  if (operands.elements > most / times) {
    return Refuse(fmt::format("a call of {} elements", operands.elements));
  }
  const auto bytes =
      BytesOf(kind, operands, communicator_->rank(), communicator_->rank(), communicator_->size());
  auto input = Find(call.input_buffer, call.input_offset, bytes.input);
  if (!input) return Propagate(input);
  auto output = Find(call.output_buffer, call.output_offset, bytes.output);
  if (!output) return Propagate(output);
  const auto op = static_cast<reduce::ReduceOp>(call.op);
  if (!counts.empty()) {
    return communicator_->RunUnequal(kind, *input, *output, counts, type, op);
  }
  return communicator_->Run(kind, *input, *output, call.count, type, op, call.root);
}

// As the program may change them meanwhile.
Result<std::vector<std::size_t>> OffloadSession::CopyCounts(const OffloadCall& call) const {
  std::vector<std::size_t> counts(static_cast<std::size_t>(communicator_->size()));
  const std::size_t bytes = counts.size() * sizeof(counts[0]);
  auto place = Find(call.counts_buffer, call.counts_offset, bytes);
  if (!place) return Propagate(place);
  std::memcpy(counts.data(), *place, bytes);
  return counts;
}

}  // namespace espalier::runtime
