// Programs that attack the offload service of their host, without the library's client.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/falloc.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "collective/program/program_bytes.h"
#include "collective/runtime/offload/offload_service.h"
#include "common/base/unique_fd.h"
#include "tests/attack/engine_program.h"
#include "tests/attack/raw_tcp.h"
#include "tests/temporary_folder.h"

namespace espalier::runtime {
namespace {

using attack::EngineProgram;
using attack::RawTcp;
using Request = EngineProgram::Request;

constexpr int kInvalid = 1 + static_cast<int>(ErrorCode::kInvalidArgument);
constexpr int kDenied = 1 + static_cast<int>(ErrorCode::kPermissionDenied);
constexpr int kExhausted = 1 + static_cast<int>(ErrorCode::kResourceExhausted);
constexpr int kUnsupported = 1 + static_cast<int>(ErrorCode::kUnsupported);
constexpr int kNotFound = 1 + static_cast<int>(ErrorCode::kNotFound);
constexpr uid_t kOther = 61'234;  // an unused user id

std::string FreeStore() {
  static int last = 7'000;
  return "tcp://127.0.0.1:" + std::to_string(++last);
}

class HostileProgram : public testing::Test {
 protected:
  void Start(OffloadOptions options = {}, const std::string& network = "127.0.0.0/8") {
    if (!network.empty()) options.networks = {*IpPrefix::Parse(network)};
    ASSERT_EQ(::chmod(folder_.path().c_str(), 0755), 0);
    auto engine = OffloadService::Listen(path_, options);
    ASSERT_TRUE(engine) << engine.error().message;
    engine_ = std::move(*engine);
  }
  // Whether a well-behaved program is served.
  void ExpectServes() {
    EngineProgram honest(path_);
    ASSERT_EQ(honest.Join(EngineProgram::GroupOfOne(FreeStore())).code, 0);
    const UniqueFd file(EngineProgram::MakeFile(4096));
    const auto registered = honest.Ask({.kind = EngineProgram::kRegister}, file.get());
    ASSERT_EQ(registered.code, 0) << registered.words;
    EXPECT_EQ(honest.Do({.count = 8, .input_buffer = 1, .output_buffer = 1, .output_offset = 2048}),
              0);
  }
  // Runs a function in a process of that user; returns its result.
  static bool AsUser(uid_t user, const std::function<bool()>& body) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(::setuid(user) == 0 && body() ? 0 : 1);
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

  TemporaryFolder folder_;
  std::string path_ = folder_.path() + "/engine.sock";
  std::unique_ptr<OffloadService> engine_;
};

// Regression: the service joined groups in memory that a program had forged, and then accessed
// other processes' memory at addresses that it found there.
TEST_F(HostileProgram, CannotHaveTheEngineShareAGroupsMemory) {
  Start();
  for (const std::uint32_t medium : {0U, 3U, 77U, std::numeric_limits<std::uint32_t>::max()}) {
    Request request = EngineProgram::GroupOfOne(FreeStore());
    request.medium = medium;
    const auto reply = EngineProgram(path_).Join(request);
    EXPECT_EQ(reply.code, kInvalid) << medium;
    EXPECT_TRUE(std::strstr(reply.words, "TCP or verbs") != nullptr) << reply.words;
  }
  EXPECT_EQ(engine_->counts().memory_bytes, 0U);
  ExpectServes();
}

// Regression: a program used the service to listen and connect where it could not itself.
TEST_F(HostileProgram, CannotChooseWhereTheEngineListensAndConnects) {
  Start({}, "");
  EXPECT_EQ(EngineProgram(path_).Join(EngineProgram::GroupOfOne("tcp://127.0.0.1:7800")).code,
            kDenied);
  engine_.reset();
  Start();
  for (const char* store :
       {"tcp://0.0.0.0:23460", "tcp://10.0.0.1:9000", "tcp://[::1]:9000", "tcp://127.0.0.1:80",
        "tcp://127.0.0.1:70000", "tcp://127.0.0.1", "tcp://127.0.0.1:", "tcp://127.0.0.1:9000x",
        "tcp://", "127.0.0.1", "/tmp", "", "tcp://localhost:9000"}) {
    Request request = EngineProgram::GroupOfOne("");
    std::memcpy(request.store, store, std::strlen(store));
    EXPECT_EQ(EngineProgram(path_).Join(request).code, kDenied) << store;
  }
  for (const char* address : {"0.0.0.0", "10.0.0.1", "::", "", "127.0.0.1.evil"}) {
    Request request = EngineProgram::GroupOfOne(FreeStore());
    std::memset(request.address, 0, sizeof(request.address));
    std::memcpy(request.address, address, std::strlen(address));
    EXPECT_EQ(EngineProgram(path_).Join(request).code, kDenied) << address;
  }
  Request endless = EngineProgram::GroupOfOne(FreeStore());
  std::memset(endless.store, '1', sizeof(endless.store));
  EXPECT_EQ(EngineProgram(path_).Join(endless).code, kDenied);
  ExpectServes();
}

// How a job's rank joins comes from the job directory only, for the user who asks.
TEST_F(HostileProgram, CannotTakePartInJobsOfOthers) {
  class OneJob : public JobDirectory {
   public:
    Result<JobPlace> Find(const JobRank& rank, const JobProgram& program,
                          std::chrono::milliseconds /*patience*/) override {
      if (rank.job != "mine") return Fail(ErrorCode::kNotFound, "no such job");
      if (program.user != ::getuid()) return Fail(ErrorCode::kPermissionDenied, "another user's");
      return JobPlace{.join = {.store = "tcp://127.0.0.1:7990",
                               .name = "mine/0",
                               .options = {.medium = Medium::kTcp, .address = "127.0.0.1"}},
                      .plans = nullptr};
    }
  } authority;
  Request job = {.kind = EngineProgram::kJoinJob};
  std::memcpy(job.job, "mine", 4);
  Start({}, "");
  EXPECT_EQ(EngineProgram(path_).Join(job).code, kUnsupported);
  engine_.reset();
  Start({.authority = &authority}, "");
  Request other = job;
  other.job[0] = 'M';
  EXPECT_EQ(EngineProgram(path_).Join(other).code, kNotFound);
  for (const std::int32_t rank : {-1, 1, std::numeric_limits<std::int32_t>::max()}) {
    other = job;
    other.job_rank = rank;
    EXPECT_EQ(EngineProgram(path_).Join(other).code, kInvalid) << rank;
  }
  other = job;
  other.job_timeout_ms = 0;
  EXPECT_EQ(EngineProgram(path_).Join(other).code, kInvalid);
  if (::getuid() == 0) {
    EXPECT_TRUE(AsUser(kOther, [&] { return EngineProgram(path_).Join(job).code == kDenied; }));
  }
  EXPECT_EQ(EngineProgram(path_).Join(job).code, 0);
}

// Regression: a program's sparse file was charged to the agent, and a file that shrank ended it.
TEST_F(HostileProgram, PaysForTheMemoryThatItSharesAndCannotTakeItBack) {
  Start();
  EngineProgram program(path_);
  ASSERT_EQ(program.Join(EngineProgram::GroupOfOne(FreeStore())).code, 0);
  constexpr std::size_t kBytes = 1 << 20;
  constexpr int kBoth = F_SEAL_SHRINK | F_SEAL_GROW;
  const auto offer = [&](int file) {
    const UniqueFd owned(file);
    return program.Ask({.kind = EngineProgram::kRegister}, owned.get()).code;
  };
  EXPECT_EQ(offer(EngineProgram::MakeFile(kBytes, kBoth, false)), kInvalid) << "sparse";
  EXPECT_EQ(offer(EngineProgram::MakeFile(kBytes, F_SEAL_GROW)), kInvalid) << "can shrink";
  EXPECT_EQ(offer(EngineProgram::MakeFile(kBytes, F_SEAL_SHRINK)), kInvalid) << "can grow";
  EXPECT_EQ(offer(EngineProgram::MakeFile(kBytes, kBoth | F_SEAL_SEAL)), kInvalid)
      << "cannot be sealed further";
  EXPECT_EQ(offer(EngineProgram::MakeFile(kBytes, kBoth | F_SEAL_WRITE)), kInvalid)
      << "cannot be written";
  EXPECT_EQ(offer(::open("/dev/zero", O_RDWR)), kInvalid);
  EXPECT_EQ(offer(-1), kInvalid);
  const UniqueFd hole(EngineProgram::MakeFile(kBytes));
  ASSERT_EQ(::fallocate(hole.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 8192, 4096), 0);
  EXPECT_EQ(offer(::dup(hole.get())), kInvalid) << "a hole of one page";

  const UniqueFd file(EngineProgram::MakeFile(kBytes));
  void* const own = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  ASSERT_NE(own, MAP_FAILED);
  ASSERT_EQ(offer(::dup(file.get())), 0);
  EXPECT_NE(::fallocate(file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0);
  EXPECT_NE(::madvise(own, 4096, MADV_REMOVE), 0);
  EXPECT_NE(::ftruncate(file.get(), 0), 0);
  EXPECT_EQ(::lseek(file.get(), 0, SEEK_HOLE), static_cast<off_t>(kBytes));
  EXPECT_EQ(engine_->counts().shared_bytes, kBytes);
  EXPECT_EQ(offer(::dup(file.get())), kInvalid) << "a second time";
  ::munmap(own, kBytes);
  ExpectServes();
}

// Regression: a plan with 800 GB of scratch ended the process that hosts the service.
TEST_F(HostileProgram, RunsOutOfItsOwnMemoryOnly) {
  Start();
  EngineProgram program(path_);
  ASSERT_EQ(program.Join(EngineProgram::GroupOfOne(FreeStore())).code, 0);
  program::Program plan;
  plan.name = "greedy";
  plan.collective.kind = program::CollectiveKind::kAllReduce;
  plan.collective.ranks = 1;
  plan.collective.chunks = 1;
  plan.ranks.resize(1);
  plan.ranks[0].scratch_chunks = 100'000;
  plan.ranks[0].blocks.resize(1);
  program::Step copy;
  copy.op = program::OpCode::kCopy;
  copy.source = {program::Buffer::kInput, 0};
  copy.destination = {program::Buffer::kOutput, 0};
  plan.ranks[0].blocks[0].steps = {copy};
  plan.max_bytes = std::numeric_limits<std::int64_t>::max();
  const std::string code = program::EncodeProgram(plan);
  const std::uint64_t header[3] = {1, 0, code.size()};
  const std::string bytes = std::string(reinterpret_cast<const char*>(header), 24) + code;
  const UniqueFd file(::memfd_create("plan", MFD_CLOEXEC));
  ASSERT_EQ(::pwrite(file.get(), bytes.data(), bytes.size(), 0),
            static_cast<ssize_t>(bytes.size()));
  const auto used = program.Ask({.kind = EngineProgram::kUse}, file.get());
  ASSERT_EQ(used.code, 0) << used.words;
  const UniqueFd data(EngineProgram::MakeFile(16 << 20));
  ASSERT_EQ(program.Ask({.kind = EngineProgram::kRegister}, data.get()).code, 0);
  EXPECT_EQ(
      program.Do(
          {.count = 2 << 20, .input_buffer = 1, .output_buffer = 1, .output_offset = 8 << 20}),
      kExhausted);
  EXPECT_GT(engine_->counts().failed, 0U);
  ExpectServes();
}

TEST_F(HostileProgram, CannotMapMoreThanItsShare) {
  Start({.max_shared_bytes_per_session = 64 << 10, .max_shared_bytes_per_user = 96 << 10});
  EngineProgram first(path_);
  EngineProgram second(path_);
  ASSERT_EQ(first.Join(EngineProgram::GroupOfOne(FreeStore())).code, 0);
  ASSERT_EQ(second.Join(EngineProgram::GroupOfOne(FreeStore())).code, 0);
  const auto offer = [](EngineProgram& program, std::size_t bytes) {
    const UniqueFd file(EngineProgram::MakeFile(bytes));
    return program.Ask({.kind = EngineProgram::kRegister}, file.get()).code;
  };
  EXPECT_EQ(offer(first, 68 << 10), kInvalid);
  EXPECT_EQ(offer(first, 64 << 10), 0);
  EXPECT_EQ(offer(first, 4 << 10), kInvalid);
  EXPECT_EQ(offer(second, 36 << 10), kExhausted) << "both are of one user";
  EXPECT_EQ(offer(second, 32 << 10), 0);
  EXPECT_EQ(first.Ask({.kind = EngineProgram::kRelease, .value = 1}).code, 0);
  EXPECT_EQ(offer(second, 32 << 10), 0);
}

// Regression: 64 silent connections kept all other programs of the host out.
TEST_F(HostileProgram, GivesWayWhereItStaysSilent) {
  Start({.max_unidentified = 16});
  std::vector<std::unique_ptr<EngineProgram>> silent;
  for (int i = 0; i < 200; ++i) silent.push_back(std::make_unique<EngineProgram>(path_));
  ExpectServes();
  const OffloadCounts counts = engine_->counts();
  EXPECT_LE(counts.silent, 16U);
  EXPECT_GE(counts.refused, 200U - 16U);
}

TEST_F(HostileProgram, CannotTakeTheRanksOfOtherUsers) {
  Start({.max_sessions = 8, .max_sessions_per_user = 3});
  std::vector<std::unique_ptr<EngineProgram>> ranks;
  for (int i = 0; i < 8; ++i) {
    ranks.push_back(std::make_unique<EngineProgram>(path_));
    const auto reply = ranks.back()->Join(EngineProgram::GroupOfOne(FreeStore()));
    EXPECT_EQ(reply.code, i < 3 ? 0 : kExhausted) << i;
    EXPECT_EQ(std::strstr(reply.words, "limit for one user") != nullptr, i >= 3);
  }
  if (::getuid() != 0) GTEST_SKIP() << "needs root to become another user";
  const std::string store = FreeStore();
  EXPECT_TRUE(AsUser(kOther, [&] {
    return EngineProgram(path_).Join(EngineProgram::GroupOfOne(store)).code == 0;
  }));
}

// Two user ids once took all ranks, and kept them without joining anything.
TEST_F(HostileProgram, CannotTakeTheRanksOfAThirdUserWithASecondId) {
  if (::getuid() != 0) GTEST_SKIP() << "needs root to become other users";
  Start({.max_sessions = 8, .max_sessions_per_user = 4});
  std::vector<std::unique_ptr<EngineProgram>> ranks;
  const auto add = [&](uid_t user, bool joins) {
    EXPECT_EQ(::seteuid(user), 0);
    ranks.push_back(std::make_unique<EngineProgram>(path_));
    EXPECT_EQ(::seteuid(0), 0);
    const auto reply = joins ? ranks.back()->Join(EngineProgram::GroupOfOne(FreeStore()))
                             : ranks.back()->Ask({.kind = EngineProgram::kRelease});
    return reply.code;
  };
  for (int i = 0; i < 4; ++i) EXPECT_EQ(add(kOther, i % 2 == 0), i % 2 == 0 ? 0 : kInvalid) << i;
  for (int i = 0; i < 4; ++i) EXPECT_EQ(add(kOther + 1, true), 0) << i;
  const std::string first = FreeStore();
  const std::string second = FreeStore();
  EXPECT_TRUE(AsUser(kOther + 2, [&] {
    EngineProgram one(path_);
    if (one.Join(EngineProgram::GroupOfOne(first)).code != 0) return false;
    return EngineProgram(path_).Join(EngineProgram::GroupOfOne(second)).code == 0;
  }));
  EXPECT_FALSE(ranks[1]->IsHungUp() && ranks[3]->IsHungUp())
      << "each user that had most gave way once";
  EXPECT_TRUE(ranks[1]->IsHungUp()) << "a rank that had not joined a group";
  for (const int kept : {0, 2, 4, 5, 6}) {
    EXPECT_FALSE(ranks[static_cast<std::size_t>(kept)]->IsHungUp()) << kept;
  }
  EXPECT_LE(engine_->counts().sessions, 8U);
}

// Regression: after one refused request a session waited for another one without limit.
TEST_F(HostileProgram, MustJoinAGroupInTime) {
  Start({.identification_timeout = std::chrono::milliseconds(300)});
  EngineProgram late(path_);
  EXPECT_EQ(late.Ask({.kind = EngineProgram::kRelease}).code, kInvalid);
  EngineProgram busy(path_);
  EngineProgram joined(path_);
  EXPECT_EQ(joined.Join(EngineProgram::GroupOfOne(FreeStore())).code, 0);
  // More requests gain no time.
  while (!busy.IsHungUp()) busy.Ask({.kind = EngineProgram::kRelease});
  while (!late.IsHungUp()) std::this_thread::yield();
  while (engine_->counts().sessions > 1) std::this_thread::yield();
  EXPECT_FALSE(joined.IsHungUp());
  ExpectServes();
}

// Regression: values and answers that a group's members do not read were nobody's, and each member
// had a copy of its own.
TEST_F(HostileProgram, PaysForWhatItsStoreKeepsAndOwes) {
  constexpr std::size_t kValue = 64 << 10;
  constexpr std::size_t kOwed = 4 << 20;
  constexpr std::size_t kMore = 1 << 20;  // of all members themselves
  Start();
  const std::string store = FreeStore();
  const auto port = static_cast<std::uint16_t>(std::stoi(store.substr(store.rfind(':') + 1)));
  EngineProgram rank(path_);
  ASSERT_EQ(rank.Join(EngineProgram::GroupOfOne(store)).code, 0);
  const std::size_t before = engine_->counts().memory_bytes;
  const auto ask = [&](RawTcp& member, const std::string& bytes) {
    ASSERT_TRUE(member.Receive(attack::kStoreGreetingBytes));
    ASSERT_TRUE(member.Send(bytes));
  };
  const auto set = [&] {
    RawTcp setter(port);
    ask(setter, attack::StoreRequest('s', "attack/value", std::string(kValue, 'v')));
    ASSERT_TRUE(setter.Receive(attack::kStoreAnswerBytes));
  };
  std::vector<std::unique_ptr<RawTcp>> members;
  const auto add = [&](int count) {
    for (int i = 0; i < count; ++i) {
      members.push_back(std::make_unique<RawTcp>(port, 2'048));
      ask(*members.back(), attack::StoreRequest('g', "attack/value"));
    }
  };
  set();
  EXPECT_GE(engine_->counts().memory_bytes, before + kValue) << "the value";
  add(300);
  EXPECT_LE(engine_->counts().memory_bytes, before + kValue + kMore) << "one value for all";
  EXPECT_TRUE(members[7]->Receive(attack::kStoreAnswerBytes + kValue)) << "who reads gets it";
  for (int i = 0; i < 200; ++i) {
    add(1);
    set();
    EXPECT_LE(engine_->counts().memory_bytes, before + kValue + kOwed + kMore) << i;
  }
  EXPECT_GE(engine_->counts().memory_bytes, before + kOwed / 2) << "the debts";
  std::size_t bytes = 0;
  EXPECT_TRUE(members[0]->IsHungUpOn(&bytes)) << "the one that has owed longest";
  EXPECT_LT(bytes, kValue);
  EXPECT_TRUE(members.back()->Receive(attack::kStoreAnswerBytes + kValue));
  RawTcp honest(port);
  ask(honest, attack::StoreRequest('g', "attack/value"));
  EXPECT_TRUE(honest.Receive(attack::kStoreAnswerBytes + kValue)) << "others are served";
  members.clear();
  ExpectServes();
}

TEST_F(HostileProgram, CannotStoreMoreThanItsMemory) {
  Start({.max_memory_per_session = 1 << 20});
  const std::string store = FreeStore();
  const auto port = static_cast<std::uint16_t>(std::stoi(store.substr(store.rfind(':') + 1)));
  EngineProgram rank(path_);
  ASSERT_EQ(rank.Join(EngineProgram::GroupOfOne(store)).code, 0);
  int stored = 0;
  for (int i = 0; i < 64; ++i) {
    RawTcp member(port);
    ASSERT_TRUE(member.Receive(attack::kStoreGreetingBytes));
    member.Send(
        attack::StoreRequest('s', "attack/" + std::to_string(i), std::string(64 << 10, 'v')));
    stored += member.Receive(attack::kStoreAnswerBytes) ? 1 : 0;
    EXPECT_LE(engine_->counts().memory_bytes, std::size_t{1} << 20);
  }
  EXPECT_GT(stored, 4);
  EXPECT_LT(stored, 16);
  ExpectServes();
}

// Regression: 16 MiB of a plan were copied before anybody paid; and a plan in a file of a file
// system whose reads never return kept its session for good.
TEST_F(HostileProgram, PaysForItsPlansAndKeepsThemInMemoryFiles) {
  constexpr std::size_t kPlan = 1 << 20;
  Start({.max_memory_per_session = 16 * kPlan + kPlan / 2});
  EngineProgram program(path_);
  ASSERT_EQ(program.Join(EngineProgram::GroupOfOne(FreeStore())).code, 0);
  const auto use = [&](int file) {
    const UniqueFd owned(file);
    return program.Ask({.kind = EngineProgram::kUse}, owned.get());
  };
  EXPECT_EQ(use(EngineProgram::MakeFile(kPlan)).code, kExhausted) << "the copy is not free";
  EXPECT_EQ(use(EngineProgram::MakeFile(kPlan / 2)).code, kInvalid) << "a plan of zeros";
  const std::string path = folder_.path() + "/plan";
  const UniqueFd on_disk(::open(path.c_str(), O_RDWR | O_CREAT, 0600));
  ASSERT_EQ(::ftruncate(on_disk.get(), 4096), 0);
  const auto refused = use(::dup(on_disk.get()));
  EXPECT_EQ(refused.code, kInvalid);
  if (::fcntl(on_disk.get(), F_GET_SEALS) < 0) {
    EXPECT_TRUE(std::strstr(refused.words, "memory file") != nullptr) << refused.words;
  }
  EXPECT_EQ(use(::open("/dev/zero", O_RDWR)).code, kInvalid);
  EXPECT_EQ(use(-1).code, kInvalid);
  EXPECT_TRUE(std::strstr(use(::eventfd(0, 0)).words, "memory file") != nullptr);
}

TEST_F(HostileProgram, IsWaitedForWhereTheEngineHasNoDescriptorsLeft) {
  Start();
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const EngineProgram waiting(path_);
  while (engine_->counts().silent < 1) std::this_thread::yield();
  const UniqueFd highest(::dup(0));
  const UniqueFd own(::socket(AF_UNIX, SOCK_SEQPACKET, 0));
  ASSERT_EQ(
      ::setrlimit(
          RLIMIT_NOFILE,
          std::array<rlimit, 1>{{{static_cast<rlim_t>(own.get()) + 1, before.rlim_max}}}.data()),
      0);
  sockaddr_un to = {};
  to.sun_family = AF_UNIX;
  std::memcpy(to.sun_path, path_.data(), path_.size());
  EXPECT_EQ(::connect(own.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  while (engine_->counts().silent < 2) std::this_thread::yield();
  ExpectServes();
}

}  // namespace
}  // namespace espalier::runtime
