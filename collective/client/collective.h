#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "collective/client/espalier_collective.h"
#include "collective/client/espalier_exchange.h"
#include "collective/client/espalier_groups.h"

namespace espalier {

// The C++ interface of libespalier-collective. Element types follow from the buffers, and errors
// are exceptions, as C++ programs that use a library expect them. espalier_collective.h,
// espalier_exchange.h and espalier_groups.h describe each call.

class CollectiveError : public std::runtime_error {
 public:
  CollectiveError(int code, const std::string& message)
      : std::runtime_error(message), code_(code) {}
  int code() const { return code_; }  // a negative errno value

 private:
  int code_;
};

template <typename T>
constexpr espalier_type CollectiveTypeOf() {
  if constexpr (std::is_same_v<T, float>) return ESPALIER_F32;
  if constexpr (std::is_same_v<T, double>) return ESPALIER_F64;
  if constexpr (std::is_same_v<T, std::int8_t>) return ESPALIER_I8;
  if constexpr (std::is_same_v<T, std::int32_t>) return ESPALIER_I32;
  if constexpr (std::is_same_v<T, std::int64_t>) return ESPALIER_I64;
  return ESPALIER_U8;
}

template <typename T>
concept CollectiveElement = std::is_same_v<T, float> || std::is_same_v<T, double> ||
    std::is_same_v<T, std::int8_t> || std::is_same_v<T, std::int32_t> ||
    std::is_same_v<T, std::int64_t> || std::is_same_v<T, std::uint8_t>;

class Collective {
 public:
  // `store`: "" if the ranks join through their agents.
  Collective(const std::string& store, const std::string& name, int rank, int size,
             const espalier_comm_options& options = {})
      : size_(static_cast<std::size_t>(size)) {
    char message[512] = "";
    const int code = espalier_comm_create(store.empty() ? nullptr : store.c_str(), name.c_str(),
                                          rank, size, &options, &comm_, message, sizeof(message));
    if (code != 0) throw CollectiveError(code, message);
  }
  Collective(Collective&& other) noexcept
      : size_(other.size_), comm_(std::exchange(other.comm_, nullptr)) {}
  Collective& operator=(Collective&& other) noexcept {
    std::swap(comm_, other.comm_);
    std::swap(size_, other.size_);
    return *this;
  }
  Collective(const Collective&) = delete;
  Collective& operator=(const Collective&) = delete;
  ~Collective() { espalier_comm_destroy(comm_); }

  template <CollectiveElement T>
  void AllReduce(const T* input, T* output, std::size_t count, espalier_op op = ESPALIER_SUM) {
    Check(espalier_allreduce(comm_, input, output, count, CollectiveTypeOf<T>(), op));
  }
  template <CollectiveElement T>
  void Reduce(const T* input, T* output, std::size_t count, int root,
              espalier_op op = ESPALIER_SUM) {
    Check(espalier_reduce(comm_, input, output, count, CollectiveTypeOf<T>(), op, root));
  }
  template <CollectiveElement T>
  void Broadcast(T* buffer, std::size_t count, int root) {
    Check(espalier_broadcast(comm_, buffer, count, CollectiveTypeOf<T>(), root));
  }
  template <CollectiveElement T>
  void AllGather(const T* input, T* output, std::size_t count) {
    Check(espalier_allgather(comm_, input, output, count, CollectiveTypeOf<T>()));
  }
  template <CollectiveElement T>
  void ReduceScatter(const T* input, T* output, std::size_t count, espalier_op op = ESPALIER_SUM) {
    Check(espalier_reduce_scatter(comm_, input, output, count, CollectiveTypeOf<T>(), op));
  }
  template <CollectiveElement T>
  void AllToAll(const T* input, T* output, std::size_t count) {
    Check(espalier_alltoall(comm_, input, output, count, CollectiveTypeOf<T>()));
  }
  // Parts of unequal sizes, with one count for each rank.
  template <CollectiveElement T>
  void AllGatherV(const T* input, T* output, std::span<const std::size_t> counts) {
    CheckCounts(counts);
    Check(espalier_allgatherv(comm_, input, output, counts.data(), CollectiveTypeOf<T>()));
  }
  template <CollectiveElement T>
  void ReduceScatterV(const T* input, T* output, std::span<const std::size_t> counts,
                      espalier_op op = ESPALIER_SUM) {
    CheckCounts(counts);
    Check(espalier_reduce_scatterv(comm_, input, output, counts.data(), CollectiveTypeOf<T>(), op));
  }
  template <CollectiveElement T>
  void Gather(const T* input, T* output, std::size_t count, int root) {
    Check(espalier_gather(comm_, input, output, count, CollectiveTypeOf<T>(), root));
  }
  template <CollectiveElement T>
  void Scatter(const T* input, T* output, std::size_t count, int root) {
    Check(espalier_scatter(comm_, input, output, count, CollectiveTypeOf<T>(), root));
  }
  template <CollectiveElement T>
  void AllToAllV(const T* input, std::span<const std::size_t> send_counts, T* output,
                 std::span<const std::size_t> receive_counts) {
    CheckCounts(send_counts);
    CheckCounts(receive_counts);
    Check(espalier_alltoallv(comm_, input, send_counts.data(), output, receive_counts.data(),
                             CollectiveTypeOf<T>()));
  }
  void Send(const void* data, std::size_t bytes, int peer, std::uint64_t tag = 0) {
    Check(espalier_send(comm_, data, bytes, peer, tag));
  }
  void Receive(void* data, std::size_t bytes, int peer, std::uint64_t tag = 0) {
    Check(espalier_receive(comm_, data, bytes, peer, tag));
  }
  void Exchange(std::span<const espalier_message> sends,
                std::span<const espalier_message> receives) {
    Check(espalier_exchange(comm_, sends.data(), sends.size(), receives.data(), receives.size()));
  }
  // Reduces elements of any plain type by `combine(left, right)`, which returns the result.
  template <typename T, typename Combine>
  requires std::is_trivially_copyable_v<T>
  void AllReduceBy(const T* input, T* output, std::size_t count, Combine combine) {
    const auto combine_all = [](void* left, const void* right, std::size_t size, void* function) {
      for (std::size_t i = 0; i < size; ++i) {
        T* const one = static_cast<T*>(left) + i;
        *one = (*static_cast<Combine*>(function))(*one, static_cast<const T*>(right)[i]);
      }
    };
    Check(espalier_allreduce_by(comm_, input, output, count, sizeof(T), combine_all, &combine));
  }
  // The group of the ranks that pass the same color; none for ESPALIER_NO_COLOR.
  std::optional<Collective> Split(int color, int key = 0) {
    espalier_comm* part = nullptr;
    Check(espalier_comm_split(comm_, color, key, &part));
    if (part == nullptr) return std::nullopt;
    return Collective(part);
  }
  // The group of the ranks that are left after a failure, and those that it has lost.
  Collective Reform(std::uint32_t wait_ms = 0, int least = 0) {
    espalier_comm* survivors = nullptr;
    Check(espalier_comm_reform(comm_, wait_ms, least, &survivors));
    return Collective(survivors);
  }
  std::vector<int> Lost() const {
    std::vector<int> lost(static_cast<std::size_t>(espalier_comm_lost(comm_, nullptr, 0)));
    espalier_comm_lost(comm_, lost.data(), static_cast<int>(lost.size()));
    return lost;
  }
  int rank() const { return espalier_comm_rank(comm_); }
  int size() const { return espalier_comm_size(comm_); }

  // Runs any collective; input and output have the sizes that it defines.
  template <CollectiveElement T>
  void Run(espalier_collective collective, const T* input, T* output, std::size_t count,
           espalier_op op = ESPALIER_SUM, int root = ESPALIER_NO_ROOT) {
    Check(espalier_run(comm_, collective, input, output, count, CollectiveTypeOf<T>(), op, root));
  }
  // Posts a call and returns the number to pass to Test and Wait.
  template <CollectiveElement T>
  std::uint64_t Post(espalier_collective collective, const T* input, T* output, std::size_t count,
                     espalier_op op = ESPALIER_SUM, int root = ESPALIER_NO_ROOT) {
    std::uint64_t request = 0;
    Check(espalier_post(comm_, collective, input, output, count, CollectiveTypeOf<T>(), op, root,
                        &request));
    return request;
  }
  template <CollectiveElement T>
  std::uint64_t PostAllGatherV(const T* input, T* output, std::span<const std::size_t> counts) {
    CheckCounts(counts);
    std::uint64_t request = 0;
    Check(espalier_post_allgatherv(comm_, input, output, counts.data(), CollectiveTypeOf<T>(),
                                   &request));
    return request;
  }
  template <CollectiveElement T>
  std::uint64_t PostReduceScatterV(const T* input, T* output, std::span<const std::size_t> counts,
                                   espalier_op op = ESPALIER_SUM) {
    CheckCounts(counts);
    std::uint64_t request = 0;
    Check(espalier_post_reduce_scatterv(comm_, input, output, counts.data(), CollectiveTypeOf<T>(),
                                        op, &request));
    return request;
  }
  bool Test(std::uint64_t request) {
    const int done = espalier_test(comm_, request);
    if (done < 0) Check(done);
    return done == 1;
  }
  void Wait(std::uint64_t request) { Check(espalier_wait(comm_, request)); }
  void Use(const espalier_plan& plan) { Check(espalier_comm_use(comm_, &plan)); }
  void Barrier() { Check(espalier_barrier(comm_)); }

  // Allocates `count` elements in a registered buffer.
  template <CollectiveElement T>
  T* Allocate(std::size_t count) {
    void* memory = nullptr;
    Check(espalier_comm_alloc(comm_, count * sizeof(T), &memory));
    return static_cast<T*>(memory);
  }
  void Free(void* memory) { Check(espalier_comm_free(comm_, memory)); }

 private:
  explicit Collective(espalier_comm* comm)
      : size_(static_cast<std::size_t>(espalier_comm_size(comm))), comm_(comm) {}

  void Check(int code) {
    if (code != 0) throw CollectiveError(code, espalier_comm_error(comm_));
  }

  void CheckCounts(std::span<const std::size_t> counts) const {
    if (counts.size() != size_) throw CollectiveError(-EINVAL, "give one count for each rank");
  }

  std::size_t size_;
  espalier_comm* comm_ = nullptr;
};

}  // namespace espalier
