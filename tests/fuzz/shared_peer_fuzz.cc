// Arbitrary counters, buffer positions, flags and data that a rank writes into shared memory while
// another rank runs collectives with it. One rank is real. The other one's data is written before
// the first call, so that runs are reproducible.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collective/runtime/calls/call_signature.h"
#include "collective/runtime/shared/area/shared_area.h"
#include "collective/runtime/shared/shared_collectives.h"
#include "collective/transport/base/rendezvous_store.h"
#include "collective/transport/shm/shared_group.h"
#include "common/base/check.h"

namespace {

using namespace espalier;
using namespace espalier::runtime;
using program::CollectiveKind;
using transport::SharedGroup;

constexpr int kRanks = 2;
constexpr std::uint32_t kAhead = 1 << 20;  // ahead of every counter that the real rank waits for
constexpr std::size_t kRegisteredBytes = 64 << 10;
constexpr std::size_t kMaxElements = 3 << 18;  // more than a slot holds
constexpr std::size_t kSmallShown = 64;
constexpr std::chrono::milliseconds kPatience(5);

class OneProcessStore : public transport::RendezvousStore {
 public:
  Result<void> Set(const std::string& key, const std::string& value,
                   transport::Deadline /*deadline*/) override {
    const std::lock_guard lock(mutex_);
    values_[key] = value;
    return {};
  }
  Result<std::string> Get(const std::string& key, transport::Deadline deadline) override {
    while (std::chrono::steady_clock::now() < deadline) {
      {
        const std::lock_guard lock(mutex_);
        const auto found = values_.find(key);
        if (found != values_.end()) return found->second;
      }
      ::usleep(10);
    }
    return Fail(ErrorCode::kUnavailable, "not set");
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> values_;
};

// Makes both ranks of a group of two.
std::array<std::unique_ptr<SharedGroup>, kRanks> MakeGroup() {
  OneProcessStore store;
  const auto join = [&](int rank) {
    auto group =
        SharedGroup::Join(store, "group", rank, kRanks, SharedCollectives::MemoryOf(kRanks),
                          std::chrono::steady_clock::now() + std::chrono::seconds(10));
    ESPALIER_CHECK(group.has_value(), "{}", group.error().message);
    return std::move(*group);
  };
  auto second = std::async(std::launch::async, [&] { return join(1); });
  auto first = join(0);
  return {std::move(first), second.get()};
}

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : rest_(data, size) {}
  bool IsEmpty() const { return rest_.empty(); }
  std::uint8_t Byte() {
    if (rest_.empty()) return 0;
    const std::uint8_t byte = rest_.front();
    rest_ = rest_.subspan(1);
    return byte;
  }
  std::size_t Word() { return Byte() | static_cast<std::size_t>(Byte()) << 8; }
  std::span<const std::uint8_t> Bytes(std::size_t count) {
    const auto bytes = rest_.first(std::min(count, rest_.size()));
    rest_ = rest_.subspan(bytes.size());
    return bytes;
  }

 private:
  std::span<const std::uint8_t> rest_;
};

std::span<std::byte> BytesBetween(void* begin, void* end) {
  auto* const first = static_cast<std::byte*>(begin);
  return {first, static_cast<std::size_t>(static_cast<std::byte*>(end) - first)};
}

// Writes what a correct peer would have written before these calls, and then the changes of the
// input.
void WriteAsPeer(RankArea& area, std::span<const CallSignature> calls, const UniqueFd& registered,
                 bool registers, Input& input) {
  std::vector<std::span<std::byte>> places;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    SharedCall& call = area.calls[(i + 1) % 2];
    call.arrived.value = kAhead;
    call.tag = ToTag(calls[i]);
    if (registers) {
      call.input = call.output = {.process = ::getpid(),
                                  .file = registered.get(),
                                  .id = 1,
                                  .file_bytes = kRegisteredBytes,
                                  .offset = i};
    }
    places.push_back(BytesBetween(&call, call.small + kSmallShown));
    places.push_back(BytesBetween(&call.input, &call + 1));
  }
  for (transport::Signal* signal : {&area.barrier, &area.published, &area.consumed}) {
    signal->value = kAhead;
  }
  area.level2_bytes = 1 << 20;
  places.push_back(BytesBetween(&area.barrier, area.slots));
  places.push_back(BytesBetween(&area.level2_bytes, &area.level2_bytes + 1));
  while (!input.IsEmpty()) {
    const auto place = places[input.Byte() % places.size()];
    const std::size_t at = input.Word() % place.size();
    const auto bytes = input.Bytes(std::size_t{1} + input.Byte() % 16);
    std::memcpy(place.data() + at, bytes.data(), std::min(bytes.size(), place.size() - at));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 8) return 0;
  static const UniqueFd registered =
      transport::MakeMemoryFile("espalier-fuzz", kRegisteredBytes).value();
  Input input(data, size);
  const std::size_t rank = input.Byte() % kRanks;
  const std::uint8_t way = input.Byte() % 5;
  const auto type = static_cast<reduce::DataType>(input.Byte() % reduce::kDataTypes);
  const auto op = static_cast<reduce::ReduceOp>(input.Byte() % reduce::kReduceOps);
  const std::uint8_t flags = input.Byte();
  const std::size_t elements = std::min(input.Word() * (flags & 8 ? 16 : 1), kMaxElements);
  std::vector<CallSignature> calls;
  for (std::uint32_t i = 0; i < 2; ++i) {
    const auto kind = static_cast<CollectiveKind>(input.Byte() % 6);
    const bool has_root = kind == CollectiveKind::kReduce || kind == CollectiveKind::kBroadcast;
    calls.push_back({.sequence = i + 1,
                     .kind = kind,
                     .type = type,
                     .op = op,
                     .root = has_root ? flags % kRanks : program::kNoRoot,
                     .count = elements});
  }

  auto groups = MakeGroup();
  auto& area = reinterpret_cast<RankArea*>(groups[1 - rank]->memory())[1 - rank];
  const bool registers = (flags & 2) != 0;
  WriteAsPeer(area, calls, registered, registers, input);
  SharedCollectives collectives(
      std::move(groups[rank]), Costs{},
      way < 4 ? std::optional(static_cast<SharedProtocolKind>(way)) : std::nullopt);
  const std::size_t bytes = elements * reduce::SizeOf(type);
  // As small as the calls allow, so that one byte too many is detected; registered buffers are in
  // memory files.
  for (const CallSignature& call : calls) {
    const Shares shares = SharesOf(call.kind, kRanks);
    std::vector<std::byte> own_in(registers ? 0 : bytes * shares.input);
    std::vector<std::byte> own_out(registers ? 0 : bytes * shares.output);
    Operands operands{.input = own_in.data(),
                      .output = own_out.data(),
                      .elements = elements,
                      .type = type,
                      .op = op};
    if (registers) {
      operands.input = collectives.Allocate(std::max<std::size_t>(bytes * shares.input, 1)).value();
      operands.output =
          collectives.Allocate(std::max<std::size_t>(bytes * shares.output, 1)).value();
    }
    const auto done = collectives.Run(operands, call, std::chrono::steady_clock::now() + kPatience);
    if (!done) {
      ESPALIER_CHECK(!done.error().message.empty());
      break;
    }
  }
  return 0;
}
