#include "collective/client/espalier_exchange.h"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "collective/client/collective.h"
#include "tests/temporary_folder.h"

namespace espalier {
namespace {

class ExchangeTest : public testing::TestWithParam<espalier_medium> {
 protected:
  void RunRanks(int size, const std::function<void(espalier_comm*, int)>& body) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size; ++rank) {
      threads.emplace_back([&, rank] {
        espalier_comm* comm = nullptr;
        std::array<char, 512> error{};
        const espalier_comm_options options = {.medium = GetParam()};
        ASSERT_EQ(espalier_comm_create(folder_.path().c_str(), "g", rank, size, &options, &comm,
                                       error.data(), error.size()),
                  0)
            << error.data();
        body(comm, rank);
        espalier_comm_destroy(comm);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  TemporaryFolder folder_;
};
INSTANTIATE_TEST_SUITE_P(All, ExchangeTest, testing::Values(ESPALIER_SHARED_MEMORY, ESPALIER_TCP),
                         [](const auto& test) {
                           return test.param == ESPALIER_TCP ? "tcp" : "shm";
                         });

TEST_P(ExchangeTest, GathersAndScatters) {
  RunRanks(3, [](espalier_comm* comm, int rank) {
    const std::array<std::int32_t, 2> own = {rank * 10, rank * 10 + 1};
    std::array<std::int32_t, 6> all{};
    EXPECT_EQ(espalier_gather(comm, own.data(), all.data(), 2, ESPALIER_I32, 1), 0);
    if (rank == 1) {
      EXPECT_EQ(all, (std::array<std::int32_t, 6>{0, 1, 10, 11, 20, 21}));
    }
    std::array<std::int32_t, 2> back{};
    EXPECT_EQ(espalier_scatter(comm, all.data(), back.data(), 2, ESPALIER_I32, 1), 0);
    EXPECT_EQ(back, own);
    const std::array<size_t, 3> counts = {0, 1, 2};
    const auto mine = static_cast<size_t>(rank);
    std::array<std::int32_t, 3> some{};
    EXPECT_EQ(espalier_gatherv(comm, own.data(), mine, some.data(),
                               rank == 0 ? counts.data() : nullptr, ESPALIER_I32, 0),
              0);
    if (rank == 0) {
      EXPECT_EQ(some, (std::array<std::int32_t, 3>{10, 20, 21}));
    }
    back = {-1, -1};
    EXPECT_EQ(espalier_scatterv(comm, some.data(), rank == 0 ? counts.data() : nullptr, back.data(),
                                mine, ESPALIER_I32, 0),
              0);
    for (int i = 0; i < 2; ++i) EXPECT_EQ(back[i], i < rank ? own[i] : -1);
    // Rank r gives r elements to each rank.
    const std::vector<size_t> given(3, mine);
    const std::vector<std::int32_t> input(mine * 3, rank);
    std::array<std::int32_t, 3> output{};
    EXPECT_EQ(espalier_alltoallv(comm, input.data(), given.data(), output.data(), counts.data(),
                                 ESPALIER_I32),
              0);
    EXPECT_EQ(output, (std::array<std::int32_t, 3>{1, 2, 2}));
  });
}

TEST_P(ExchangeTest, SendsReceivesAndPosts) {
  RunRanks(2, [](espalier_comm* comm, int rank) {
    const int peer = 1 - rank;
    std::uint64_t value = 5 + static_cast<std::uint64_t>(rank);
    std::uint64_t got = 0;
    if (rank == 0) {
      EXPECT_EQ(espalier_send(comm, &value, sizeof(value), peer, 77), 0);
    }
    if (rank == 1) {
      EXPECT_EQ(espalier_receive(comm, &got, sizeof(got), peer, 77), 0);
    }
    EXPECT_EQ(got, rank == 1 ? 5U : 0U);
    const espalier_message sent = {&value, sizeof(value), peer, 1};
    const espalier_message wanted = {&got, sizeof(got), peer, 1};
    EXPECT_EQ(espalier_exchange(comm, &sent, 1, &wanted, 1), 0);
    EXPECT_EQ(got, rank == 1 ? 5U : 6U);
    got = 0;
    uint64_t request = 0;
    EXPECT_EQ(espalier_post_exchange(comm, &sent, 1, &wanted, 1, &request), 0);
    EXPECT_EQ(espalier_wait(comm, request), 0);
    EXPECT_EQ(got, rank == 1 ? 5U : 6U);
    const std::array<espalier_message, 2> twice = {sent, sent};
    EXPECT_EQ(espalier_exchange(comm, twice.data(), 2, nullptr, 0), -EINVAL);
    EXPECT_NE(std::string(espalier_comm_error(comm)).find("tag 1 is used twice"), std::string::npos)
        << espalier_comm_error(comm);
    EXPECT_EQ(espalier_send(comm, &value, static_cast<size_t>(-1), peer, 0), -EINVAL);
    EXPECT_EQ(espalier_send(comm, &value, 1, -1, 0), -EINVAL);
    EXPECT_EQ(espalier_exchange(comm, nullptr, 1, nullptr, 0), -EINVAL);
    EXPECT_EQ(espalier_barrier(comm), 0);
  });
}

TEST_P(ExchangeTest, ReducesByAFunctionInTheOrderOfTheRanks) {
  RunRanks(4, [](espalier_comm* comm, int rank) {
    // 2x2 matrices, whose product is not commutative.
    using Matrix = std::array<std::uint32_t, 4>;
    const auto multiply = [](void* left, const void* right, size_t count, void* calls) {
      ++*static_cast<int*>(calls);
      for (size_t i = 0; i < count; ++i) {
        Matrix& a = static_cast<Matrix*>(left)[i];
        const Matrix& b = static_cast<const Matrix*>(right)[i];
        a = {a[0] * b[0] + a[1] * b[2], a[0] * b[1] + a[1] * b[3], a[2] * b[0] + a[3] * b[2],
             a[2] * b[1] + a[3] * b[3]};
      }
    };
    const auto factor = [](int of) { return Matrix{1, static_cast<std::uint32_t>(of + 2), 3, 4}; };
    Matrix product = factor(0);
    int calls = 0;
    for (int peer = 1; peer < 4; ++peer) {
      const Matrix right = factor(peer);
      multiply(&product, &right, 1, &calls);
    }
    const std::vector<Matrix> input(9, factor(rank));
    std::vector<Matrix> output(9);
    EXPECT_EQ(espalier_allreduce_by(comm, input.data(), output.data(), 9, sizeof(Matrix), multiply,
                                    &calls),
              0);
    EXPECT_EQ(output, std::vector<Matrix>(9, product));
    output.assign(9, {});
    EXPECT_EQ(espalier_reduce_by(comm, input.data(), output.data(), 9, sizeof(Matrix), multiply,
                                 &calls, 3),
              0);
    EXPECT_EQ(output[8], rank == 3 ? product : Matrix{});
    EXPECT_EQ(espalier_reduce_scatter_by(comm, input.data(), output.data(), 2, sizeof(Matrix),
                                         multiply, &calls),
              0);
    EXPECT_EQ(output[1], product);
    EXPECT_EQ(espalier_allreduce_by(comm, input.data(), output.data(), 1, 16, nullptr, nullptr),
              -EINVAL);
  });
}

TEST_P(ExchangeTest, ReducesManyBuffers) {
  RunRanks(2, [](espalier_comm* comm, int rank) {
    std::array<float, 2> a = {1, 2};
    std::array<float, 2> b = {10, 20};
    const std::array<const void*, 2> inputs = {a.data(), b.data()};
    const std::array<void*, 2> outputs = {a.data(), b.data()};
    const std::array<size_t, 2> counts = {2, 1};
    EXPECT_EQ(espalier_allreduce_together(comm, inputs.data(), outputs.data(), counts.data(), 2,
                                          ESPALIER_F32, ESPALIER_SUM),
              0);
    EXPECT_EQ(a, (std::array<float, 2>{2, 4}));
    EXPECT_EQ(b, (std::array<float, 2>{20, 20}));
    EXPECT_EQ(espalier_allreduce_many(comm, inputs.data(), 2, outputs.data(), 2, 2, ESPALIER_F32,
                                      ESPALIER_SUM),
              0);
    EXPECT_EQ(a, (std::array<float, 2>{44, 48}));
    EXPECT_EQ(b, a);
    EXPECT_EQ(
        espalier_allreduce_many(comm, nullptr, 1, outputs.data(), 1, 1, ESPALIER_F32, ESPALIER_SUM),
        -EINVAL);
    std::int32_t whole = rank;
    EXPECT_EQ(espalier_allreduce(comm, &whole, &whole, 1, ESPALIER_I32, ESPALIER_AVG), -EINVAL);
    EXPECT_NE(std::string(espalier_comm_error(comm)).find("average of i32"), std::string::npos)
        << espalier_comm_error(comm);
    EXPECT_EQ(espalier_barrier(comm), 0);
  });
}

}  // namespace
}  // namespace espalier
