#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "collective/runtime/offload/offload_protocol.h"
#include "common/os/message_socket.h"
#include "tests/collective/runtime/offload/offload_fixture.h"

namespace espalier::runtime {
namespace {

using program::CollectiveKind;
using std::chrono::seconds;

// A program that breaks the protocol, message by message.
class BadProgram {
 public:
  explicit BadProgram(const std::string& path) : socket_(std::move(*ConnectToPath(path))) {}

  static int MakeFile(std::size_t bytes, bool seal) {
    const int file = ::memfd_create("bad", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    EXPECT_EQ(::ftruncate(file, static_cast<off_t>(bytes)), 0);
    EXPECT_EQ(::fcntl(file, F_ADD_SEALS, seal ? F_SEAL_SHRINK | F_SEAL_GROW : 0), 0);
    for (std::size_t at = 0; at < bytes; at += 4096)
      EXPECT_EQ(::pwrite(file, "", 1, static_cast<off_t>(at)), 1);
    return file;
  }
  void Send(const std::string& bytes) {
    EXPECT_TRUE(SendMessage(socket_.get(), bytes.data(), bytes.size(), -1));
  }
  // The reply's code; -1 if the service has closed the connection.
  int Ask(const OffloadRequest& request, int file) {
    SendMessage(socket_.get(), &request, sizeof(request), file);
    if (ring_ != nullptr) ring_->bell.Add();
    OffloadReply reply;
    const auto received = ReceiveMessage(socket_.get(), &reply, sizeof(reply), true);
    return received->bytes == sizeof(reply) ? reply.code : -1;
  }
  static OffloadRequest JoinAlone(const std::string& store) {
    OffloadRequest request;
    std::memcpy(request.group.store, store.data(), store.size());
    std::memcpy(request.group.name, "bad", 4);
    std::memcpy(request.group.address, "127.0.0.1", 10);
    request.group.medium = static_cast<std::uint32_t>(Medium::kTcp);
    request.group.size = 1;
    request.group.timeout_ms = 5000;
    request.group.connections = 1;
    return request;
  }
  int Join(const std::string& store) {
    const UniqueFd file(MakeFile(sizeof(OffloadRing), true));
    void* memory =
        ::mmap(nullptr, sizeof(OffloadRing), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    const int code = Ask(JoinAlone(store), file.get());
    ring_ = static_cast<OffloadRing*>(memory);
    return code;
  }
  // Posts a call and returns its result.
  int Call(const OffloadCall& call) {
    ring_->calls[posted_ % kRingCalls] = call;
    Post(++posted_);
    while (ring_->done.value != posted_) {
      transport::SleepOn(ring_->done, posted_ - 1, std::chrono::steady_clock::now() + seconds(1));
    }
    return ring_->results[(posted_ - 1) % kRingCalls].code;
  }
  void Post(std::uint32_t count) {
    ring_->posted = count;
    ring_->bell.Add();
  }

 private:
  UniqueFd socket_;
  OffloadRing* ring_ = nullptr;
  std::uint32_t posted_ = 0;
};

constexpr int kRefused = 1 + static_cast<int>(ErrorCode::kInvalidArgument);

TEST_F(OffloadTest, OutlivesProgramsThatSendNonsense) {
  StartEngine();
  for (const std::size_t bytes :
       {1UL, 8UL, sizeof(OffloadRequest) - 1, sizeof(OffloadRequest), 60'000UL}) {
    BadProgram(path_).Send(std::string(bytes, '\x5a'));
  }
  EXPECT_EQ(BadProgram(path_).Ask({.version = 7}, -1),
            1 + static_cast<int>(ErrorCode::kUnsupported));
  EXPECT_EQ(BadProgram(path_).Ask({.kind = OffloadRequestKind::kRegister}, -1), kRefused);
  const OffloadRequest join = BadProgram::JoinAlone(FreeStore());
  for (const UniqueFd& ring :
       {UniqueFd(), UniqueFd(::open("/dev/null", O_RDWR)),
        UniqueFd(BadProgram::MakeFile(sizeof(OffloadRing), false)),
        UniqueFd(BadProgram::MakeFile(64, true)), UniqueFd(BadProgram::MakeFile(1 << 20, true))}) {
    EXPECT_EQ(BadProgram(path_).Ask(join, ring.get()), kRefused);
  }
  OffloadRequest wrong = join;
  wrong.group.rank = 5;
  const UniqueFd ring(BadProgram::MakeFile(sizeof(OffloadRing), true));
  EXPECT_EQ(BadProgram(path_).Ask(wrong, ring.get()), kRefused);
  std::memset(wrong.group.store, 'x', sizeof(wrong.group.store));
  EXPECT_EQ(BadProgram(path_).Ask(wrong, ring.get()),
            1 + static_cast<int>(ErrorCode::kPermissionDenied));
  ExpectWorks();
}

TEST_F(OffloadTest, ChecksEveryCallAgainstTheBuffers) {
  StartEngine();
  BadProgram program(path_);
  ASSERT_EQ(program.Join(FreeStore()), 0);
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  const UniqueFd shrinks(BadProgram::MakeFile(4096, false));
  EXPECT_EQ(program.Ask({.kind = OffloadRequestKind::kRegister}, shrinks.get()), kRefused);
  const UniqueFd file(BadProgram::MakeFile(4096, true));
  ASSERT_EQ(program.Ask({.kind = OffloadRequestKind::kRegister}, file.get()), 0);
  EXPECT_NE(program.Ask({.kind = OffloadRequestKind::kRelease, .value = 9}, -1), 0);
  EXPECT_NE(program.Ask({.kind = OffloadRequestKind::kUse}, file.get()), 0);
  EXPECT_NE(program.Ask({.kind = static_cast<OffloadRequestKind>(77)}, -1), 0);
  const OffloadCall good = {
      .count = 512, .input_buffer = 1, .output_buffer = 1, .output_offset = 2048};
  EXPECT_EQ(program.Call(good), 0);
  const auto gather = [](OffloadCall& call) -> OffloadCall& {
    call.collective = static_cast<std::uint32_t>(CollectiveKind::kAllGather);
    call.counts_buffer = 2;
    call.counts_offset = 4088;
    return call;
  };
  const std::uint64_t counts[] = {kMost, 512};
  const UniqueFd other(BadProgram::MakeFile(4096, true));
  ASSERT_EQ(::pwrite(other.get(), counts, sizeof(counts), 4080), 16);
  ASSERT_EQ(program.Ask({.kind = OffloadRequestKind::kRegister}, other.get()), 0);
  OffloadCall gathering = good;
  EXPECT_EQ(program.Call(gather(gathering)), 0);
  const std::vector<std::function<void(OffloadCall&)>> slips = {
      [&](OffloadCall& call) { call.count = 513; }, [&](OffloadCall& call) { call.count = kMost; },
      [&](OffloadCall& call) { call.count = kMost / 4 + 1; },
      [&](OffloadCall& call) { call.input_buffer = 3; },
      [&](OffloadCall& call) { call.input_buffer = 0; },
      [&](OffloadCall& call) { call.output_offset = 4096; },
      [&](OffloadCall& call) { call.output_offset = kMost; },
      [&](OffloadCall& call) { call.input_offset = kMost - 100; },
      [&](OffloadCall& call) { call.input_offset = 1024; },
      [&](OffloadCall& call) { call.collective = 200; },
      [&](OffloadCall& call) { call.collective = 8; }, [&](OffloadCall& call) { call.type = 99; },
      [&](OffloadCall& call) { call.op = 99; },
      // Counts outside of the buffer, for a collective without counts, and with too large a sum.
      [&](OffloadCall& call) { gather(call).counts_buffer = 3; },
      [&](OffloadCall& call) { gather(call).counts_offset = 4089; },
      [&](OffloadCall& call) { gather(call).counts_offset = kMost; },
      [&](OffloadCall& call) { gather(call).collective = 0; },
      [&](OffloadCall& call) { gather(call).counts_offset = 4080; },
      [&](OffloadCall& call) {
        call.collective = static_cast<std::uint32_t>(CollectiveKind::kReduce);
        call.root = -5;
      }};
  for (std::size_t i = 0; i < slips.size(); ++i) {
    OffloadCall call = good;
    slips[i](call);
    EXPECT_EQ(program.Call(call), kRefused) << "slip " << i;
  }
  EXPECT_EQ(program.Call(good), 0);
  // Wrong counters in the ring harm only the program itself.
  program.Post(std::numeric_limits<std::uint32_t>::max() / 2);
  ExpectWorks();
}

}  // namespace
}  // namespace espalier::runtime
