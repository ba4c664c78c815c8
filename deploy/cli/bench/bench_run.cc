#include "deploy/cli/bench/bench_run.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>

#include "collective/transport/stores/file_store.h"
#include "common/os/scratch_folder.h"

namespace espalier::runtime {
namespace {

using program::CollectiveKind;
using reduce::DataType;
using reduce::ReduceOp;
using std::chrono::steady_clock;

constexpr int kMaxRepetitions = 101;
constexpr int kMaxRanks = 64;
constexpr std::size_t kMaxSizes = 64;
constexpr std::size_t kBatchBytes = 1 << 20;
constexpr std::size_t kLongestBatch = 200;

// The measurements of all ranks, in memory that they share with the process that started them.
struct Report {
  double seconds[kMaxSizes][kMaxRepetitions][kMaxRanks];
  double cpu_seconds[kMaxSizes][kMaxRanks];
  double extra_bytes[kMaxSizes][kMaxRanks];
  std::int64_t errors[kMaxSizes][kMaxRanks];
  char failure[kMaxRanks][512];
};

struct Unmap {
  void operator()(Report* report) const { ::munmap(report, sizeof(Report)); }
};

double CpuSeconds() {
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double PeakBytes() {
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024;
}

constexpr float kUntouched = -1;

float Given(int rank, std::size_t index) {
  return static_cast<float>((index * 7 + static_cast<std::size_t>(rank) * 3) % 16);
}

// One rank's buffers and calls for one size.
class Subject {
 public:
  Subject(const BenchRequest& request, Communicator& group, std::size_t bytes)
      : request_(request), group_(group), count_(bytes / sizeof(float)) {
    const auto ranks = static_cast<std::size_t>(request.ranks);
    if (IsShared()) count_ /= ranks;
    const std::size_t all = count_ * (IsShared() ? ranks : 1);
    input_count_ = request.kind == CollectiveKind::kAllGather ? count_ : all;
    output_count_ = request.kind == CollectiveKind::kReduceScatter ? count_ : all;
  }
  Subject(const Subject&) = delete;
  Subject& operator=(const Subject&) = delete;
  ~Subject() {
    if (!request_.registered) return;
    // Release refuses the null pointers of buffers that were not allocated.
    static_cast<void>(group_.Release(input_));
    static_cast<void>(group_.Release(output_));
  }

  Result<void> Prepare() {
    auto input = Allocate(input_count_, private_input_);
    if (!input) return Propagate(input);
    input_ = *input;
    auto output = Allocate(output_count_, private_output_);
    if (!output) return Propagate(output);
    output_ = *output;
    for (std::size_t e = 0; e < input_count_; ++e) input_[e] = Given(group_.rank(), e);
    std::fill_n(output_, output_count_, kUntouched);
    if (request_.kind == CollectiveKind::kBroadcast) std::copy_n(input_, output_count_, output_);
    return {};
  }

  Result<void> Call() {
    switch (request_.kind) {
      case CollectiveKind::kAllGather:
        return group_.AllGather(input_, output_, count_, DataType::kF32);
      case CollectiveKind::kReduceScatter:
        return group_.ReduceScatter(input_, output_, count_, DataType::kF32, ReduceOp::kSum);
      case CollectiveKind::kBroadcast:
        return group_.Broadcast(output_, count_, DataType::kF32, Root());
      case CollectiveKind::kReduce:
        return group_.Reduce(input_, output_, count_, DataType::kF32, ReduceOp::kSum, Root());
      case CollectiveKind::kAllToNext:
        return group_.Run(request_.kind, input_, output_, count_, DataType::kF32, ReduceOp::kSum,
                          program::kNoRoot);
      case CollectiveKind::kAllToAll:
        return group_.AllToAll(input_, output_, count_, DataType::kF32);
      case CollectiveKind::kBarrier:
        return group_.Barrier();
      default:
        return group_.AllReduce(input_, output_, count_, DataType::kF32, ReduceOp::kSum);
    }
  }

  // The size of both buffers.
  double bytes() const {
    return static_cast<double>((input_count_ + output_count_) * sizeof(float));
  }

  std::int64_t CountErrors() const {
    if (request_.kind == CollectiveKind::kBarrier) return 0;
    if (request_.kind == CollectiveKind::kReduce && group_.rank() != Root()) return 0;
    std::int64_t errors = 0;
    for (std::size_t e = 0; e < output_count_; ++e) errors += output_[e] != Expected(e) ? 1 : 0;
    return errors;
  }

 private:
  int Root() const {
    return request_.program != nullptr ? std::max(request_.program->collective.root, 0) : 0;
  }
  bool IsShared() const {
    return request_.kind == CollectiveKind::kAllGather ||
           request_.kind == CollectiveKind::kReduceScatter ||
           request_.kind == CollectiveKind::kAllToAll;
  }

  Result<float*> Allocate(std::size_t count, std::vector<float>& own) {
    if (!request_.registered) {
      own.resize(std::max<std::size_t>(count, 1));
      return own.data();
    }
    auto memory = group_.Allocate(std::max<std::size_t>(count, 1) * sizeof(float));
    if (!memory) return Propagate(memory);
    return static_cast<float*>(*memory);
  }

  float Expected(std::size_t e) const {
    const std::size_t own = static_cast<std::size_t>(group_.rank()) * count_;
    if (request_.kind == CollectiveKind::kBroadcast) return Given(Root(), e);
    if (request_.kind == CollectiveKind::kAllToNext) {
      return group_.rank() == 0 ? kUntouched : Given(group_.rank() - 1, e);
    }
    if (request_.kind == CollectiveKind::kAllGather) {
      return Given(static_cast<int>(e / count_), e % count_);
    }
    if (request_.kind == CollectiveKind::kAllToAll) {
      return Given(static_cast<int>(e / count_), own + e % count_);
    }
    const std::size_t index = request_.kind == CollectiveKind::kReduceScatter ? own + e : e;
    float sum = 0;
    for (int rank = 0; rank < request_.ranks; ++rank) sum += Given(rank, index);
    return sum;
  }

  const BenchRequest& request_;
  Communicator& group_;
  std::size_t count_;
  std::size_t input_count_;
  std::size_t output_count_;
  std::vector<float> private_input_;
  std::vector<float> private_output_;
  float* input_ = nullptr;
  float* output_ = nullptr;
};

Result<void> MeasureSize(const BenchRequest& request, Communicator& group, std::size_t bytes,
                         std::size_t size_index, Report& report) {
  const auto rank = static_cast<std::size_t>(group.rank());
  Subject subject(request, group, bytes);
  auto done = subject.Prepare();
  if (!done) return done;
  const std::size_t batch = std::clamp<std::size_t>(kBatchBytes / bytes, 1, kLongestBatch);
  for (int warm_up = 0; warm_up < 2; ++warm_up) {
    done = subject.Call();
    if (!done) return done;
  }
  report.errors[size_index][rank] = subject.CountErrors();
  const double cpu_begin = CpuSeconds();
  for (int repetition = 0; repetition < request.repetitions; ++repetition) {
    done = group.Barrier();
    if (!done) return done;
    const auto begin = steady_clock::now();
    for (std::size_t i = 0; i < batch; ++i) {
      done = subject.Call();
      if (!done) return done;
    }
    const std::chrono::duration<double> time = steady_clock::now() - begin;
    report.seconds[size_index][repetition][rank] = time.count() / static_cast<double>(batch);
  }
  report.cpu_seconds[size_index][rank] =
      (CpuSeconds() - cpu_begin) / static_cast<double>(batch) / request.repetitions;
  report.extra_bytes[size_index][rank] = std::max(0.0, PeakBytes() - subject.bytes());
  return group.Barrier();
}

Result<void> BindToCore(int rank) {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) == 0) {
    int before = rank % CPU_COUNT(&allowed);
    int core = 0;
    while (!CPU_ISSET(core, &allowed) || before-- > 0) ++core;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    if (::sched_setaffinity(0, sizeof(one), &one) == 0) return {};
  }
  return Fail(ErrorCode::kUnavailable,
              fmt::format("rank {} cannot be bound to a core: {}", rank, std::strerror(errno)));
}

Result<void> RunRank(const BenchRequest& request, const std::filesystem::path& folder, int rank,
                     const std::vector<std::size_t>& sizes, Report& report) {
  transport::FileStore store(folder);
  if (request.binds) {
    auto bound = BindToCore(rank);
    if (!bound) return bound;
  }
  auto group = Communicator::Join(store, "bench", rank, request.ranks,
                                  {.medium = request.medium,
                                   .timeout = request.timeout,
                                   .connections = request.connections,
                                   .costs_file = request.costs_file,
                                   .algorithm = request.algorithm});
  if (!group) return Propagate(group);
  if (request.program != nullptr) {
    auto used = (*group)->Use({.program = request.program, .generation = 1, .source_ports = {}});
    if (!used) return used;
  }
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    auto measured = MeasureSize(request, **group, sizes[i], i, report);
    if (!measured) return measured;
  }
  return {};
}

double BusFactor(CollectiveKind kind, int ranks) {
  const double share = static_cast<double>(ranks - 1) / ranks;
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return 2 * share;
    case CollectiveKind::kAllGather:
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kAllToAll:
      return share;
    default:
      return 1;
  }
}

BenchRow Summarise(const BenchRequest& request, const Report& report, std::size_t size_index,
                   std::size_t bytes) {
  std::vector<double> slowest;
  for (int repetition = 0; repetition < request.repetitions; ++repetition) {
    const double* times = report.seconds[size_index][repetition];
    slowest.push_back(*std::max_element(times, times + request.ranks));
  }
  std::sort(slowest.begin(), slowest.end());
  BenchRow row = {
      .bytes = bytes, .seconds = slowest[slowest.size() / 2], .minimum_seconds = slowest.front()};
  for (int rank = 0; rank < request.ranks; ++rank) {
    row.cpu_seconds += report.cpu_seconds[size_index][rank];
    row.errors += report.errors[size_index][rank];
    row.extra_bytes = std::max(row.extra_bytes, report.extra_bytes[size_index][rank]);
  }
  row.algbw = static_cast<double>(bytes) / row.seconds;
  row.busbw = row.algbw * BusFactor(request.kind, request.ranks);
  return row;
}

// Starts the ranks and waits for them. Returns the error of the first rank, by number, that failed.
Result<void> RunRanks(const BenchRequest& request, const std::filesystem::path& folder,
                      const std::vector<std::size_t>& sizes, Report& report) {
  std::vector<pid_t> children;
  for (int rank = 0; rank < request.ranks; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      auto done = RunRank(request, folder, rank, sizes, report);
      if (!done) {
        std::strncpy(report.failure[rank], done.error().message.c_str(),
                     sizeof(report.failure[rank]) - 1);
      }
      ::_exit(done ? 0 : 1);
    }
    if (child > 0) children.push_back(child);
  }
  bool all_well = children.size() == static_cast<std::size_t>(request.ranks);
  for (const pid_t child : children) {
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    all_well = all_well && status == 0;
  }
  if (all_well) return {};
  for (int rank = 0; rank < request.ranks; ++rank) {
    if (report.failure[rank][0] != '\0') {
      return Fail(ErrorCode::kUnavailable, report.failure[rank]);
    }
  }
  return Fail(ErrorCode::kUnavailable,
              "a rank could not be started, or ended without an error message");
}

}  // namespace

Result<std::vector<std::size_t>> ListSizes(const BenchRequest& request) {
  const bool has_order = request.min_bytes >= sizeof(float) && request.factor >= 2 &&
                         request.min_bytes <= request.max_bytes;
  if (!has_order) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("sizes from {} to {} by factors of {} (write sizes of at least 4 bytes, the "
                    "smallest first, and a factor of at least 2)",
                    request.min_bytes, request.max_bytes, request.factor));
  }
  if (request.ranks < 1 || request.ranks > kMaxRanks || request.repetitions < 1 ||
      request.repetitions > kMaxRepetitions) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} ranks, {} repetitions (write 1 to {} ranks, 1 to {} repetitions)",
                            request.ranks, request.repetitions, kMaxRanks, kMaxRepetitions));
  }
  std::vector<std::size_t> sizes;
  for (std::size_t bytes = request.min_bytes; bytes <= request.max_bytes && bytes != 0;
       bytes *= request.factor) {
    sizes.push_back(bytes);
    if (bytes > request.max_bytes / request.factor) break;
  }
  return sizes;
}

Result<std::vector<BenchRow>> RunBench(const BenchRequest& request) {
  auto sizes = ListSizes(request);
  if (!sizes) return Propagate(sizes);
  void* memory =
      ::mmap(nullptr, sizeof(Report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return Fail(ErrorCode::kResourceExhausted, "not enough memory for the results");
  const std::unique_ptr<Report, Unmap> report(static_cast<Report*>(memory));
  const auto folder = ScratchFolder::Make("bench");
  if (!folder) return tl::unexpected<Error>(folder.error());
  auto done = RunRanks(request, folder->path(), *sizes, *report);
  if (!done) return Propagate(done);
  std::vector<BenchRow> rows;
  for (std::size_t i = 0; i < sizes->size(); ++i) {
    rows.push_back(Summarise(request, *report, i, (*sizes)[i]));
  }
  return rows;
}

}  // namespace espalier::runtime
