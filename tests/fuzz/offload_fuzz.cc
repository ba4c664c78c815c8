// A hostile program that shares memory with the offload service. The input is a series of requests
// and of call descriptors, some of which change while the service reads them. Calls that the
// service accepts are checked with independent arithmetic.
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "collective/runtime/offload/mapped_file.h"
#include "collective/runtime/offload/offload_protocol.h"
#include "collective/runtime/offload/offload_service.h"
#include "common/base/check.h"
#include "common/os/message_socket.h"

namespace espalier::runtime {
namespace {

using std::chrono::steady_clock;

constexpr int kMaxActions = 64;
constexpr std::size_t kMaxFileBytes = 1 << 16;
constexpr std::size_t kMaxSessions = 64;

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size)
      : rest_(reinterpret_cast<const char*>(data), size) {}
  bool IsEmpty() const { return rest_.empty(); }
  // Returns zeros after the end of the input.
  template <typename T>
  T Take() {
    T value{};
    const std::size_t size = std::min(sizeof(value), rest_.size());
    std::memcpy(&value, rest_.data(), size);
    rest_.remove_prefix(size);
    return value;
  }
  std::string_view TakeBytes(std::size_t most) {
    const std::string_view bytes = rest_.substr(0, most);
    rest_.remove_prefix(bytes.size());
    return bytes;
  }

 private:
  std::string_view rest_;
};

// One session of a single rank.
class Program {
 public:
  explicit Program(const std::string& engine)
      : socket_(std::move(*ConnectToPath(engine))),
        ring_(std::move(*MappedFile::Make(sizeof(OffloadRing)))) {
    new (ring_.data()) OffloadRing;
  }

  // Returns false if another process listens at the group's rendezvous, or if the service has not
  // yet ended enough earlier sessions, whose programs are gone.
  bool Join(const std::string& store) {
    OffloadRequest join;
    std::memcpy(join.group.store, store.data(), store.size());
    std::memcpy(join.group.name, "g", 1);
    std::memcpy(join.group.address, "127.0.0.1", 10);
    join.group.medium = static_cast<std::uint32_t>(Medium::kTcp);
    join.group.size = 1;
    join.group.timeout_ms = 10'000;
    join.group.connections = 1;
    std::string words;
    const int code = Ask(join, ring_.file(), nullptr, &words);
    if (words.starts_with("cannot listen") || words.ends_with("the limit for one user"))
      return false;
    ESPALIER_CHECK(code == 0, "{}: {}", code, words);
    return true;
  }

  void Act(Input& input) {
    switch (input.Take<std::uint8_t>() % 5) {
      case 0:
        Register(input.Take<std::uint16_t>());
        break;
      case 1:
        Release(input.Take<std::uint8_t>());
        break;
      case 2:
        Use(input.TakeBytes(input.Take<std::uint16_t>()));
        break;
      case 3:
        Call(input.Take<OffloadCall>());
        break;
      default:
        CallAndScribble(input.Take<OffloadCall>(), input.Take<OffloadCall>());
    }
  }

 private:
  OffloadRing& ring() { return *reinterpret_cast<OffloadRing*>(ring_.data()); }

  // Returns the code of the reply.
  int Ask(const OffloadRequest& request, int file, std::uint64_t* value = nullptr,
          std::string* words = nullptr) {
    ESPALIER_CHECK(SendMessage(socket_.get(), &request, sizeof(request), file));
    ring().bell.Add();
    OffloadReply reply;
    const auto received = ReceiveMessage(socket_.get(), &reply, sizeof(reply), true);
    ESPALIER_CHECK(received->bytes == sizeof(reply));
    if (value != nullptr) *value = reply.value;
    if (words != nullptr) *words = reply.words;
    return reply.code;
  }
  void Register(std::size_t bytes) {
    auto file = MappedFile::Make(bytes % kMaxFileBytes + 1);
    ESPALIER_CHECK(file.has_value());
    std::uint64_t number = 0;
    const int code = Ask({.kind = OffloadRequestKind::kRegister}, file->file(), &number);
    if (code == 0) buffers_[number] = file->size();
  }
  void Release(std::uint64_t number) {
    const int code = Ask({.kind = OffloadRequestKind::kRelease, .value = number}, -1);
    ESPALIER_CHECK((code == 0) == (buffers_.erase(number) == 1));
  }
  void Use(std::string_view bytes) {
    if (bytes.empty()) return;
    auto file = MappedFile::Make(bytes.size());
    ESPALIER_CHECK(file.has_value());
    std::memcpy(file->data(), bytes.data(), bytes.size());
    Ask({.kind = OffloadRequestKind::kUse}, file->file());
  }

  int Await() {
    while (ring().done.value.load() != posted_) {
      transport::SleepOn(ring().done, posted_ - 1,
                         steady_clock::now() + std::chrono::milliseconds(100));
    }
    return ring().results[(posted_ - 1) % kRingCalls].code;
  }
  void Post(const OffloadCall& call) {
    ring().calls[posted_ % kRingCalls] = call;
    ring().posted.store(++posted_, std::memory_order_release);
    ring().bell.Add();
  }
  void Call(const OffloadCall& call) {
    Post(call);
    if (Await() == 0) CheckTaken(call);
  }
  void CallAndScribble(const OffloadCall& call, const OffloadCall& other) {
    Post(call);
    volatile auto* to = reinterpret_cast<unsigned char*>(&ring().calls[(posted_ - 1) % kRingCalls]);
    std::array<unsigned char, sizeof(OffloadCall)> bytes;
    std::memcpy(bytes.data(), &other, sizeof(other));
    while (ring().done.value.load() != posted_) {
      for (std::size_t i = 0; i < bytes.size(); ++i) to[i] = bytes[i];
      std::memcpy(bytes.data(), &call, sizeof(call));
      transport::SleepOn(ring().done, posted_ - 1,
                         steady_clock::now() + std::chrono::milliseconds(1));
    }
    Await();
  }

  // In a group of one, every collective has `count` elements of input and output.
  void CheckTaken(const OffloadCall& call) const {
    constexpr std::array<std::uint64_t, 8> kSizes = {4, 8, 2, 2, 1, 4, 8, 1};
    ESPALIER_CHECK(call.type < kSizes.size() && call.collective <= 8 && call.op < 5);
    constexpr std::uint32_t kBarrier = 7;
    if (call.count == 0 || call.collective == kBarrier) return;
    const auto fits = [&](std::uint64_t number, std::uint64_t offset) {
      const auto found = buffers_.find(number);
      if (found == buffers_.end()) return false;
      std::uint64_t bytes = 0;
      std::uint64_t end = 0;
      return !__builtin_mul_overflow(call.count, kSizes[call.type], &bytes) &&
             !__builtin_add_overflow(bytes, offset, &end) && end <= found->second;
    };
    ESPALIER_CHECK(fits(call.output_buffer, call.output_offset), "buffer={} offset={} count={}",
                   call.output_buffer, call.output_offset, call.count);
    ESPALIER_CHECK(fits(call.input_buffer, call.input_offset), "buffer={} offset={} count={}",
                   call.input_buffer, call.input_offset, call.count);
  }

  UniqueFd socket_;
  MappedFile ring_;
  std::uint32_t posted_ = 0;
  std::map<std::uint64_t, std::uint64_t> buffers_;  // sizes, by number
};

struct Fixture {
  Fixture() {
    std::string folder = std::filesystem::temp_directory_path() / "espalier-fuzz-XXXXXX";
    ESPALIER_CHECK(mkdtemp(folder.data()) != nullptr);
    path = folder + "/engine.sock";
    auto listening = OffloadService::Listen(path, {.max_sessions_per_user = kMaxSessions,
                                                   .max_buffers_per_session = 8,
                                                   .max_shared_bytes_per_session = 1 << 18,
                                                   .max_memory_per_session = std::size_t{512} << 20,
                                                   .networks = {*IpPrefix::Parse("127.0.0.0/8")}});
    ESPALIER_CHECK(listening.has_value());
    engine = std::move(*listening);
  }
  // Sessions of earlier inputs end by themselves, as their programs are gone.
  void AwaitRoomForASession() const {
    while (engine->counts().sessions >= kMaxSessions) std::this_thread::yield();
  }
  ~Fixture() {
    engine.reset();
    std::filesystem::remove_all(std::filesystem::path(path).parent_path());
  }
  std::string path;
  std::unique_ptr<OffloadService> engine;
  int tries = 0;
};

}  // namespace
}  // namespace espalier::runtime

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace runtime = espalier::runtime;
  static runtime::Fixture fixture;
  // Earlier sessions may still run, and other processes may listen on a port: then the next port is
  // tried.
  constexpr int kPorts = 10'000;
  std::optional<runtime::Program> program;
  for (int tries = 0; !program; ++tries) {
    ESPALIER_CHECK(tries < kPorts, "no port is free");
    const int port = 20'000 + (getpid() * 16 + fixture.tries++) % kPorts;
    fixture.AwaitRoomForASession();
    program.emplace(fixture.path);
    if (!program->Join("tcp://127.0.0.1:" + std::to_string(port))) program.reset();
  }
  runtime::Input input(data, size);
  for (int i = 0; i < runtime::kMaxActions && !input.IsEmpty(); ++i) program->Act(input);
  return 0;
}
