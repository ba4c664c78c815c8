// All-reduces between the four hosts of the RDMA machine.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "collective/runtime/communicator.h"
#include "collective/transport/store.h"
#include "tests/collective/runtime/elements.h"
#include "tests/rdma/rdma_machine.h"
#include "tests/temporary_folder.h"

namespace espalier::runtime {
namespace {

using reduce::DataType;
using reduce::ReduceOp;

constexpr int kRanks = rdma::kHosts;

// Every element of every rank's result against what the values add up to.
void AllReduceAndCheck(Communicator& group, DataType type, ReduceOp op, std::size_t bytes) {
  const std::size_t count = bytes / reduce::SizeOf(type);
  std::vector<std::byte> input(bytes);
  std::vector<std::byte> output(bytes);
  for (std::size_t i = 0; i < count; ++i) {
    WriteElement(type, input.data(), i, ValueOf(op, group.rank(), kRanks, i));
  }
  const auto done = group.AllReduce(input.data(), output.data(), count, type, op);
  ASSERT_TRUE(done) << done.error().message;
  for (std::size_t i = 0; i < count; ++i) {
    ASSERT_EQ(ReadElement(type, output.data(), i), ReducedValue(op, kRanks, i))
        << reduce::DataTypeName(type) << " " << bytes << " bytes, element " << i;
  }
}

// `bytes` of each size for f32, all types at the middle size.
void AllReduceOverVerbs(const std::vector<std::size_t>& sizes, bool ipv6) {
  TemporaryFolder folder;
  transport::FileStore store(folder.path());
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back([&, rank] {
      const auto group = Communicator::Join(store, "g", rank, kRanks,
                                            {.medium = Medium::kVerbs,
                                             .timeout = std::chrono::minutes(3),
                                             .address = rdma::AddressOfHost(rank, ipv6).ToString(),
                                             .connections = 2});
      ASSERT_TRUE(group) << group.error().message;
      for (const std::size_t bytes : sizes) {
        AllReduceAndCheck(**group, DataType::kF32, ReduceOp::kSum, bytes);
      }
      for (int type = 0; type < reduce::kDataTypes; ++type) {
        AllReduceAndCheck(**group, static_cast<DataType>(type), ReduceOp::kMax, 4800);
        AllReduceAndCheck(**group, static_cast<DataType>(type), ReduceOp::kSum, 48'000);
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

TEST(AllReduceOverVerbs, IsRightForAllTypes) { AllReduceOverVerbs({8, 4096, 1 << 20}, false); }
TEST(AllReduceOverVerbs, IsRightForAllTypesOverIpv6) { AllReduceOverVerbs({64}, true); }
TEST(AllReduceOverVerbs, LongIsRightForLargeSizes) {
  AllReduceOverVerbs({4 << 20, 16 << 20}, false);
}

}  // namespace
}  // namespace espalier::runtime
