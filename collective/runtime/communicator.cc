#include "collective/runtime/communicator.h"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "collective/runtime/program_collectives.h"
#include "collective/runtime/shared_collectives.h"
#include "collective/transport/tcp_transport.h"

namespace espalier::runtime {
namespace {

using program::CollectiveKind;
using std::chrono::steady_clock;

tl::unexpected<Error> Refuse(std::string message) {
  return Fail(ErrorCode::kInvalidArgument, std::move(message));
}

Operands Between(const void* input, void* output, std::size_t count, reduce::DataType type,
                 reduce::ReduceOp op = reduce::ReduceOp::kSum) {
  return {.input = static_cast<const std::byte*>(input),
          .output = static_cast<std::byte*>(output),
          .elements = count,
          .type = type,
          .op = op};
}

Result<std::unique_ptr<Backend>> MakeBackend(transport::Store& store, const std::string& name,
                                             int rank, int size,
                                             const CommunicatorOptions& options) {
  if (options.medium == Medium::kShared) {
    const auto deadline = steady_clock::now() + options.timeout;
    auto shared = SharedCollectives::Join(store, name, rank, size, deadline);
    if (!shared) return Propagate(shared);
    return std::move(*shared);
  }
  auto transport = transport::JoinTcp(
      store, name, rank, size, {.address = options.address, .source_port = options.source_port});
  if (!transport) return Propagate(transport);
  return std::make_unique<ProgramCollectives>(std::move(*transport), options.connections);
}

}  // namespace

Communicator::Communicator(std::unique_ptr<Backend> backend, int rank, int size,
                           const CommunicatorOptions& options)
    : backend_(std::move(backend)), rank_(rank), size_(size), timeout_(options.timeout) {}

Result<std::unique_ptr<Communicator>> Communicator::Join(transport::Store& store,
                                                         const std::string& name, int rank,
                                                         int size,
                                                         const CommunicatorOptions& options) {
  if (options.timeout <= std::chrono::milliseconds(0)) return Refuse("a timeout of nothing");
  if (options.connections < 1) return Refuse("a group needs at least one connection to each peer");
  auto backend = MakeBackend(store, name, rank, size, options);
  if (!backend) return Propagate(backend);
  std::unique_ptr<Communicator> made(new Communicator(std::move(*backend), rank, size, options));
  // All have come, or an error says who has not.
  auto met = made->Barrier();
  if (!met) return Propagate(met);
  return made;
}

Result<void> Communicator::CheckBuffers(CollectiveKind kind, const Operands& operands,
                                        int root) const {
  const bool is_rooted = kind == CollectiveKind::kReduce || kind == CollectiveKind::kBroadcast;
  if (is_rooted && (root < 0 || root >= size_)) {
    return Refuse(fmt::format("root {} of {} ranks", root, size_));
  }
  if (operands.elements == 0) return {};
  const auto ranks = static_cast<std::size_t>(size_);
  const std::size_t element = reduce::SizeOf(operands.type);
  const std::size_t limit = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());
  if (operands.elements > limit / element / ranks) {
    return Refuse(
        fmt::format("{} elements of {} bytes for {} ranks", operands.elements, element, size_));
  }
  const bool has_output = kind != CollectiveKind::kReduce || rank_ == root;
  if (operands.input == nullptr || (has_output && operands.output == nullptr)) {
    return Refuse(fmt::format("a null buffer for {} elements", operands.elements));
  }
  if (!has_output) return {};
  const std::size_t share = operands.elements * element;
  const bool is_all = kind == CollectiveKind::kAllToAll;
  const std::size_t input = share * (is_all || kind == CollectiveKind::kReduceScatter ? ranks : 1);
  const std::size_t output = share * (is_all || kind == CollectiveKind::kAllGather ? ranks : 1);
  const auto in = reinterpret_cast<std::uintptr_t>(operands.input);
  const auto out = reinterpret_cast<std::uintptr_t>(operands.output);
  const std::size_t part = share * static_cast<std::size_t>(rank_);
  const bool in_place = kind == CollectiveKind::kAllGather       ? in == out + part
                        : kind == CollectiveKind::kReduceScatter ? out == in + part
                                                                 : in == out;
  if (!in_place && in < out + output && out < in + input) {
    return Refuse("input and output overlap (only in place do they share memory)");
  }
  return {};
}

Result<void> Communicator::Call(CollectiveKind kind, const Operands& operands, int root) {
  if (failure_) return tl::unexpected(*failure_);
  auto checked = CheckBuffers(kind, operands, root);
  if (!checked) return checked;
  const CallSignature call = {.sequence = calls_++,
                              .kind = kind,
                              .type = operands.type,
                              .op = operands.op,
                              .root = root,
                              .count = operands.elements};
  auto done = backend_->Run(operands, call, steady_clock::now() + timeout_);
  if (!done) failure_ = done.error();
  return done;
}

Result<void> Communicator::AllReduce(const void* input, void* output, std::size_t count,
                                     reduce::DataType type, reduce::ReduceOp op) {
  return Call(CollectiveKind::kAllReduce, Between(input, output, count, type, op),
              program::kNoRoot);
}

Result<void> Communicator::Reduce(const void* input, void* output, std::size_t count,
                                  reduce::DataType type, reduce::ReduceOp op, int root) {
  void* const own_output = rank_ == root ? output : nullptr;
  return Call(CollectiveKind::kReduce, Between(input, own_output, count, type, op), root);
}

Result<void> Communicator::Broadcast(void* buffer, std::size_t count, reduce::DataType type,
                                     int root) {
  return Call(CollectiveKind::kBroadcast, Between(buffer, buffer, count, type), root);
}

Result<void> Communicator::AllGather(const void* input, void* output, std::size_t count,
                                     reduce::DataType type) {
  return Call(CollectiveKind::kAllGather, Between(input, output, count, type), program::kNoRoot);
}

Result<void> Communicator::ReduceScatter(const void* input, void* output, std::size_t count,
                                         reduce::DataType type, reduce::ReduceOp op) {
  return Call(CollectiveKind::kReduceScatter, Between(input, output, count, type, op),
              program::kNoRoot);
}

Result<void> Communicator::AllToAll(const void* input, void* output, std::size_t count,
                                    reduce::DataType type) {
  return Call(CollectiveKind::kAllToAll, Between(input, output, count, type), program::kNoRoot);
}

Result<void> Communicator::Barrier() {
  return Call(CollectiveKind::kBarrier, {}, program::kNoRoot);
}

Result<void*> Communicator::Allocate(std::size_t bytes) {
  auto memory = backend_->Allocate(bytes);
  if (!memory) return Propagate(memory);
  return *memory;
}

Result<void> Communicator::Release(void* memory) {
  return backend_->Release(static_cast<std::byte*>(memory));
}

}  // namespace espalier::runtime
