// All-reduces between the four hosts of the RDMA machine.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "collective/runtime/group/communicator.h"
#include "collective/transport/stores/file_store.h"
#include "tests/collective/runtime/elements.h"
#include "tests/rdma/rdma_machine.h"
#include "tests/temporary_folder.h"

namespace espalier::runtime {
namespace {

using reduce::DataType;
using reduce::ReduceOp;

constexpr int kRanks = rdma::kHosts;

// Values repeat after this number of elements, a prime, so that misplaced data is detected.
constexpr std::size_t kPeriod = 4099;

// Repeats the bytes before `begin` until the end.
void Repeat(std::vector<std::byte>& bytes, std::size_t begin) {
  for (std::size_t i = begin; i < bytes.size(); i += begin) {
    std::memcpy(&bytes[i], bytes.data(), std::min(begin, bytes.size() - i));
  }
}

// Runs an all-reduce and compares every element with the expected sum.
void AllReduceAndCheck(Communicator& group, DataType type, ReduceOp op, std::size_t bytes) {
  const std::size_t size = reduce::SizeOf(type);
  const std::size_t count = bytes / size;
  const std::size_t period = std::min(kPeriod, count);
  std::vector<std::byte> input(bytes);
  std::vector<std::byte> output(bytes);
  for (std::size_t i = 0; i < period; ++i) {
    WriteElement(type, input.data(), i, ValueOf(op, group.rank(), kRanks, i));
  }
  Repeat(input, period * size);
  const auto done = group.AllReduce(input.data(), output.data(), count, type, op);
  ASSERT_TRUE(done) << done.error().message;
  for (std::size_t i = 0; i < period; ++i) {
    ASSERT_EQ(ReadElement(type, output.data(), i), ReducedValue(op, kRanks, i))
        << reduce::DataTypeName(type) << " " << bytes << " bytes, element " << i;
  }
  std::vector<std::byte> expected = output;
  Repeat(expected, period * size);
  ASSERT_TRUE(output == expected) << reduce::DataTypeName(type) << " " << bytes << " bytes";
}

// Runs the body as each rank, in a group over verbs.
void AsRanks(bool ipv6, const std::function<void(Communicator&)>& body) {
  TemporaryFolder folder;
  transport::FileStore store(folder.path());
  const JobKey key = JobKey::Draw();
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back([&, rank] {
      const auto group = Communicator::Join(store, "g", rank, kRanks,
                                            {.medium = Medium::kVerbs,
                                             .timeout = std::chrono::minutes(3),
                                             .address = rdma::AddressOfHost(rank, ipv6).ToString(),
                                             .connections = 2,
                                             .members = {.key = key}});
      ASSERT_TRUE(group) << group.error().message;
      body(**group);
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

void AllReduceOfAllTypes(Communicator& group, std::size_t bytes, ReduceOp op) {
  for (int type = 0; type < reduce::kDataTypes; ++type) {
    AllReduceAndCheck(group, static_cast<DataType>(type), op, bytes);
  }
}

void AllReduceOfSmallSizes(Communicator& group) {
  AllReduceOfAllTypes(group, 4800, ReduceOp::kMax);
  AllReduceOfAllTypes(group, 48'000, ReduceOp::kSum);
}

TEST(AllReduceOverVerbs, IsRightForAllTypes) {
  AsRanks(false, [](Communicator& group) {
    for (const std::size_t bytes : {8, 4096, 1 << 20}) {
      AllReduceAndCheck(group, DataType::kF32, ReduceOp::kSum, bytes);
    }
    AllReduceOfSmallSizes(group);
  });
}

TEST(AllReduceOverVerbs, IsRightForAllTypesOverIpv6) { AsRanks(true, AllReduceOfSmallSizes); }

TEST(AllReduceOverVerbs, LongIsRightForAllTypesAndSizes) {
  AsRanks(false, [](Communicator& group) {
    for (std::size_t bytes = 8; bytes <= 16 << 20; bytes *= 8) {
      AllReduceOfAllTypes(group, bytes, ReduceOp::kSum);
    }
  });
}

}  // namespace
}  // namespace espalier::runtime
