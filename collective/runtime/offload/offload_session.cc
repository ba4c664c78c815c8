#include "collective/runtime/offload/offload_session.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <exception>
#include <new>
#include <utility>

#include "collective/runtime/calls/operands.h"
#include "collective/runtime/offload/plan_file.h"
#include "collective/transport/base/wait_limit.h"
#include "collective/transport/stores/tcp_store.h"
#include "common/base/address/ip_address.h"
#include "common/os/message_socket.h"

namespace espalier::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// The most memory that a plan takes, as a multiple of its bytes: a step of 5 bytes becomes a
// structure of 70.
constexpr std::size_t kPlanGrowth = 16;
// The verifier uses at most 24 bytes for each unit of its budget (ranges, clocks, sets of chunks).
// The budget suffices for allreduce plans of a thousand ranks.
constexpr std::int64_t kVerificationBudget = std::int64_t{1} << 24;
constexpr std::size_t kVerificationBytes = std::size_t{24} << 24;
constexpr std::uint32_t kLongestTimeoutMs = 600'000;
// The most connections of a session to all peers; they cost descriptors, and slots when used.
constexpr std::int64_t kMaxConnections = 1'024;
constexpr std::int32_t kMaxRanks = 1'024;
constexpr milliseconds kLongestSearch{10'000};  // to ask the agent for a rank of a job
// From the notice of a plan to the program until that to its session.
constexpr milliseconds kPlanDelay{5'000};
constexpr milliseconds kPortDelay{2'000};  // until a session that ends has left its port
constexpr milliseconds kPortPause{10};
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

std::optional<IpAddress> AddressOf(std::string_view text) {
  const auto address = IpAddress::Parse(text);
  return address ? std::optional(*address) : std::nullopt;
}

// The address in "tcp://ADDRESS:PORT"; none for another form or a privileged port.
std::optional<IpAddress> AddressOfStore(std::string_view place) {
  constexpr std::string_view kScheme = "tcp://";
  const std::size_t colon = place.rfind(':');
  if (!place.starts_with(kScheme) || colon < kScheme.size()) return std::nullopt;
  const std::string_view digits = place.substr(colon + 1);
  std::uint32_t port = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (read.ec != std::errc() || read.ptr != digits.data() + digits.size() || !IsOpenPort(port)) {
    return std::nullopt;
  }
  place = place.substr(kScheme.size(), colon - kScheme.size());
  if (place.starts_with('[') && place.ends_with(']')) place = place.substr(1, place.size() - 2);
  return AddressOf(place);
}

// When a join must have ended.
transport::Deadline JoinBy(const OffloadRequest& request, std::uint64_t timeout_ms) {
  const std::uint64_t limit = request.value == 0 ? timeout_ms : std::min(request.value, timeout_ms);
  return steady_clock::now() + milliseconds(limit);
}

// A store whose waits end when the session does.
class SessionStore : public transport::RendezvousStore {
 public:
  SessionStore(std::unique_ptr<transport::RendezvousStore> store, const std::atomic<bool>& is_over)
      : store_(std::move(store)), is_over_(is_over) {}
  Result<void> Set(const std::string& key, const std::string& value,
                   transport::Deadline deadline) override {
    return store_->Set(key, value, deadline);
  }
  Result<std::string> Get(const std::string& key, transport::Deadline deadline) override {
    std::string value;
    auto got = transport::WaitInterruptibly({deadline, &is_over_}, [&](transport::Deadline nap) {
      auto found = store_->Get(key, nap);
      if (!found) return Result<void>(Propagate(found));
      value = std::move(*found);
      return Result<void>();
    });
    if (!got) return Propagate(got);
    return value;
  }

 private:
  std::unique_ptr<transport::RendezvousStore> store_;
  const std::atomic<bool>& is_over_;
};

}  // namespace

OffloadReply RefusalOf(const Error& error) {
  OffloadReply reply;
  reply.code = CodeOf(error);
  SetText(reply.words, error.message);
  return reply;
}

OffloadSession::OffloadSession(UniqueFd socket, const JobProgram& program,
                               std::shared_ptr<OffloadUser> user, const OffloadOptions& options)
    : socket_(std::move(socket)),
      program_(program),
      user_(std::move(user)),
      options_(options),
      memory_(options.max_memory_per_session, &user_->memory),
      shared_(options.max_shared_bytes_per_session, &user_->shared),
      thread_([this] { Work(); }) {}

void OffloadSession::End(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (why_.empty()) why_ = why;
  is_over_ = true;
  ::shutdown(socket_.get(), SHUT_RD);
  if (ring_) ring().bell.Add();  // the session's ports must be free at once for the next one
  if (communicator_ != nullptr) {
    communicator_->Interrupt(
        {ErrorCode::kUnavailable, fmt::format("rank {}: {}", communicator_->rank(), why_)});
  }
}

// Any exception that a program causes ends its session only.
void OffloadSession::Work() {
  try {
    Serve();
  } catch (const std::exception&) {
    ++user_->all.failed;
  }
  is_over_ = true;
  {
    const std::lock_guard lock(mutex_);
    communicator_.reset();
  }
  store_.reset();  // its port may be needed by the next session
  ::shutdown(socket_.get(), SHUT_RDWR);
  has_ended_ = true;
}

void OffloadSession::Serve() {
  bool is_well = HandleRequest(true);
  while (is_well && !is_over_) {
    if (!ring_ && !WaitForRequest()) return;
    const std::uint32_t seen = ring_ ? ring().bell.value.load(std::memory_order_acquire) : 0;
    is_well = HandleRequest(!ring_);
    while (is_well && !is_over_ && ring_ && DoNextCall()) {
    }
    if (ring_) transport::SleepOn(ring().bell, seen, steady_clock::now() + kNap);
  }
}

bool OffloadSession::WaitForRequest() const {
  pollfd readable = {socket_.get(), POLLIN, 0};
  while (true) {
    const auto left = std::chrono::ceil<milliseconds>(since_ + options_.identification_timeout -
                                                      steady_clock::now());
    if (left <= milliseconds(0)) return false;
    const int ready = ::poll(&readable, 1, static_cast<int>(left.count()));
    if (ready >= 0 || errno != EINTR) return ready > 0;
  }
}

// Answers all pending requests. Returns false if the session must end.
bool OffloadSession::HandleRequest(bool wait) {
  while (true) {
    OffloadRequest request = {.magic = 0, .version = 0};
    auto received = ReceiveMessage(socket_.get(), &request, sizeof(request), wait);
    if (!received) return true;
    if (received->bytes < 2 * sizeof(std::uint32_t) || request.magic != kOffloadMagic) return false;
    OffloadReply reply;
    if (request.version != kOffloadVersion) {
      reply = RefusalOf({ErrorCode::kUnsupported,
                         fmt::format("the offload service has protocol version {}, the program {} "
                                     "(install the same release of both)",
                                     kOffloadVersion, request.version)});
    } else if (received->bytes != sizeof(request)) {
      return false;
    } else if (auto done = AnswerWithinMemory(request, std::move(received->file))) {
      reply.value = *done;
    } else {
      reply = RefusalOf(done.error());
    }
    if (!SendMessage(socket_.get(), &reply, sizeof(reply))) return false;
    wait = false;
  }
}

Result<std::uint64_t> OffloadSession::AnswerWithinMemory(const OffloadRequest& request,
                                                         UniqueFd file) {
  try {
    return Answer(request, std::move(file));
  } catch (const std::bad_alloc&) {
    ++user_->all.failed;
    return Fail(
        ErrorCode::kResourceExhausted,
        fmt::format("the request exceeds a limit of the offload service: {} bytes of shared "
                    "memory and {} of its own for a session, {} and {} for a user (use "
                    "less, or ask the operator to raise the limits)",
                    shared_.limit(), memory_.limit(), user_->shared.limit(),
                    user_->memory.limit()));
  }
}

Result<std::uint64_t> OffloadSession::Answer(const OffloadRequest& request, UniqueFd file) {
  if (request.kind == OffloadRequestKind::kJoin) return JoinNamed(request, std::move(file));
  if (request.kind == OffloadRequestKind::kJoinJob) return JoinJob(request, std::move(file));
  if (communicator_ == nullptr) return Refuse("the first request must be to join a group");
  switch (request.kind) {
    case OffloadRequestKind::kRegister:
      return Register(std::move(file));
    case OffloadRequestKind::kRelease:
      if (buffers_.erase(request.value) == 0) return Fail(ErrorCode::kNotFound, "unknown buffer");
      return 0;
    case OffloadRequestKind::kUse:
      return Use(std::move(file));
    default:
      return Refuse("unknown request");
  }
}

// Everything but the rank's name comes from the job directory.
Result<std::uint64_t> OffloadSession::JoinJob(const OffloadRequest& request, UniqueFd ring) {
  const OffloadJob& job = request.job;
  if (options_.authority == nullptr) {
    return Fail(ErrorCode::kUnsupported, "this offload service does not serve jobs");
  }
  if (job.timeout_ms == 0 || job.timeout_ms > kLongestTimeoutMs || job.rank < 0) {
    return Refuse("the rank or the timeout of the job is out of range");
  }
  const milliseconds timeout(job.timeout_ms);
  const transport::Deadline join_by = JoinBy(request, job.timeout_ms);
  auto place = options_.authority->Find({TextOf(job.name), job.rank, job.number}, program_,
                                        std::min(timeout, kLongestSearch));
  if (!place) return Propagate(place);
  place->join.options.timeout = timeout;
  place->join.options.join_by = join_by;
  auto joined = Join(job.rank, std::move(place->join), std::move(ring));
  if (joined) directory_ = std::move(place->plans);
  return joined;
}

// Joins a group that the program names, in a network where that is allowed.
Result<std::uint64_t> OffloadSession::JoinNamed(const OffloadRequest& request, UniqueFd ring) {
  const OffloadGroup& group = request.group;
  GroupJoinInfo place = {.store = TextOf(group.store), .name = TextOf(group.name)};
  const std::string address = TextOf(group.address);
  for (const auto& [text, found] : {std::pair(place.store, AddressOfStore(place.store)),
                                    std::pair(address, AddressOf(address))}) {
    const auto holds = [&at = found](const IpPrefix& network) {
      return at && network.Contains(*at);
    };
    if (std::ranges::any_of(options_.networks, holds)) continue;
    return Fail(ErrorCode::kPermissionDenied,
                fmt::format("\"{}\": the offload service joins groups that a program names only at "
                            "tcp://ADDRESS:PORT with PORT from {} on, in the networks of its "
                            "configuration (join a job, or ask the operator to allow the network)",
                            text, kFirstOpenPort));
  }
  if (group.timeout_ms == 0 || group.timeout_ms > kLongestTimeoutMs || group.connections == 0 ||
      group.size < 1 || group.rank < 0 || group.rank >= group.size ||
      (group.plan_port != 0 && !IsOpenPort(group.plan_port)) ||
      group.connections > kMaxConnections / group.size) {
    return Refuse("the group's options are out of range");
  }
  place.size = group.size;
  place.options.medium = static_cast<Medium>(group.medium);
  place.options.timeout = milliseconds(group.timeout_ms);
  place.options.join_by = JoinBy(request, group.timeout_ms);
  place.options.address = address;
  place.options.connections = static_cast<int>(group.connections);
  place.options.plan_port = static_cast<std::uint16_t>(group.plan_port);
  // Without a key the group may use loopback addresses only, unless the program trusts the network.
  if (group.has_key != 0) place.options.members.key = JobKey(std::to_array(group.key));
  place.options.members.trusts_network = group.trusts_network != 0;
  // The program controls the store, which tells where ranks are, so these networks bound them.
  place.options.members.networks = options_.networks;
  return Join(group.rank, std::move(place), std::move(ring));
}

Result<std::uint64_t> OffloadSession::Join(int rank, GroupJoinInfo place, UniqueFd ring) {
  if (ring_) return Refuse("the session has joined a group already (open another connection)");
  CommunicatorOptions& options = place.options;
  // In shared memory a rank can make the other ranks read and write at addresses of its choice.
  if (options.medium != Medium::kTcp && options.medium != Medium::kVerbs) {
    return Refuse(
        "the offload service connects ranks over TCP or verbs (shared memory is for ranks "
        "that trust each other)");
  }
  if (place.size > kMaxRanks || rank >= place.size) {
    return Refuse(fmt::format("rank {} of {}: the offload service joins groups of 1 to {} ranks",
                              rank, place.size, kMaxRanks));
  }
  auto mapped = MappedFile::Adopt(std::move(ring), sizeof(OffloadRing));
  if (!mapped) return Propagate(mapped);
  if (mapped->size() != sizeof(OffloadRing)) return Refuse("the ring has another version's size");
  options.costs_file = options_.costs_file;
  options.memory = &memory_;
  options.verification_budget = kVerificationBudget;
  // Ranks that are ahead of rank 0 find the store of its last group, and must wait for the next.
  const auto open = [&] {
    return transport::OpenStore(place.store, rank, options.members,
                                {.prefix = place.name + "/", .memory = &memory_});
  };
  auto store = open();
  // The session of a program that has just left may still have the port.
  const auto end = steady_clock::now() + std::min(options.timeout, kPortDelay);
  while (!store && store.error().code == ErrorCode::kAlreadyExists && steady_clock::now() < end) {
    std::this_thread::sleep_for(kPortPause);
    store = open();
  }
  if (!store) return Propagate(store);
  store_ = std::make_unique<SessionStore>(std::move(*store), is_over_);
  auto joined = Communicator::Join(*store_, place.name, rank, place.size, options);
  if (!joined) return Propagate(joined);
  const std::lock_guard lock(mutex_);
  communicator_ = std::move(*joined);
  ring_.emplace(std::move(*mapped));
  has_joined_ = true;
  return 0;
}

Result<std::uint64_t> OffloadSession::Register(UniqueFd file) {
  if (buffers_.size() >= options_.max_buffers_per_session) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("the session has {} buffers, its limit", buffers_.size()));
  }
  auto mapped = MappedFile::Adopt(std::move(file), shared_.limit() - shared_.used());
  if (!mapped) return Propagate(mapped);
  buffers_.try_emplace(last_buffer_ + 1, std::move(*mapped), shared_);
  return ++last_buffer_;
}

Result<std::uint64_t> OffloadSession::Use(UniqueFd file) {
  auto size = SizeOfPlanFile(file);
  if (!size) return Propagate(size);
  const MemoryCharge copy(memory_, *size);
  auto charge = std::make_unique<MemoryCharge>(memory_, kPlanGrowth * *size);
  auto bytes = ReadPlanFile(file, *size);
  if (!bytes) return Propagate(bytes);
  auto plan = ParsePlan(*bytes);
  if (!plan) return Propagate(plan);
  if (CountConnections(*plan->program, communicator_->rank()) > kMaxConnections) {
    return Refuse(
        fmt::format("the plan has more than {} connections for one rank", kMaxConnections));
  }
  const program::CollectiveKind kind = plan->program->collective.kind;
  if (directory_ != nullptr) {
    auto addresses = directory_->AddressesOf(plan->generation, kPlanDelay);
    if (!addresses) return Propagate(addresses);
    plan->addresses = std::move(*addresses);
  }
  const MemoryCharge verification(memory_, kVerificationBytes);
  auto used = communicator_->Use(std::move(*plan));
  if (!used) return Propagate(used);
  plans_[kind] = std::move(charge);
  return 0;
}

Result<std::byte*> OffloadSession::Find(std::uint64_t buffer, std::uint64_t offset,
                                        std::uint64_t bytes) const {
  if (buffer == 0) return nullptr;
  const auto found = buffers_.find(buffer);
  if (found == buffers_.end()) return Refuse(fmt::format("unknown buffer {}", buffer));
  const std::size_t size = found->second.file.size();
  if (offset > size || bytes > size - offset) {
    return Refuse(fmt::format("{} bytes at offset {} exceed buffer {}, which has {} bytes", bytes,
                              offset, buffer, size));
  }
  return found->second.file.data() + offset;
}

// Runs the next call of the ring. Returns false if none is posted.
bool OffloadSession::DoNextCall() {
  const std::uint32_t posted = ring().posted.load(std::memory_order_acquire);
  if (posted == done_) return false;
  OffloadCall call;
  std::memcpy(&call, &ring().calls[done_ % kRingCalls], sizeof(call));
  auto done = posted - done_ <= kRingCalls
                  ? Do(call)
                  : Result<void>(Refuse("more calls are posted than the ring has places"));
  OffloadResult& result = ring().results[done_ % kRingCalls];
  if (!done && done.error().code == ErrorCode::kResourceExhausted) ++user_->all.failed;
  result.code = done ? 0 : CodeOf(done.error());
  SetText(result.words, done ? std::string() : done.error().message);
  ring().done.Set(++done_);
  return true;
}

Result<void> OffloadSession::Do(const OffloadCall& call) {
  if (call.collective > static_cast<std::uint32_t>(program::CollectiveKind::kCustom) ||
      call.type >= reduce::kDataTypes || call.op >= reduce::kReduceOps) {
    return Refuse("unknown collective, element type or operation");
  }
  const auto kind = static_cast<program::CollectiveKind>(call.collective);
  const auto type = static_cast<reduce::DataType>(call.type);
  const std::size_t most = shared_.limit() / reduce::SizeOf(type);
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
    return Refuse(fmt::format("{} elements exceed the session's shared memory", operands.elements));
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

// Copies the counts, because the program can change them during the call.
Result<std::vector<std::size_t>> OffloadSession::CopyCounts(const OffloadCall& call) const {
  std::vector<std::size_t> counts(static_cast<std::size_t>(communicator_->size()));
  const std::size_t bytes = counts.size() * sizeof(counts[0]);
  auto place = Find(call.counts_buffer, call.counts_offset, bytes);
  if (!place) return Propagate(place);
  std::memcpy(counts.data(), *place, bytes);
  return counts;
}

}  // namespace espalier::runtime
