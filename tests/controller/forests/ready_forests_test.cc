// Which forests are made ahead, in which order, and which are kept.
#include "controller/forests/ready_forests.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "common/base/metrics.h"

namespace espalier::controller {
namespace {

class ReadyForestsTest : public testing::Test {
 protected:
  static ReadyForest Made(std::int64_t version, std::uint64_t changes, std::size_t edges = 0) {
    JobForest forest;
    forest.edges.resize(edges);
    return {.forest = std::make_shared<const JobForest>(std::move(forest)),
            .version = version,
            .others = 0,
            .changes = changes};
  }
  // The elements in the order in which they come, each made when asked for.
  static std::vector<ReadyForests::Element> MakeAll(ReadyForests& ready, std::int64_t version,
                                                    std::uint64_t changes, std::size_t edges = 0) {
    std::vector<ReadyForests::Element> order;
    while (const auto next = ready.Next(version, changes)) {
      order.push_back(next->element);
      ready.Put(*next, Made(version, changes, edges));
      if (order.size() > 100) break;
    }
    return order;
  }

  Metrics metrics_;
};

using Order = std::vector<ReadyForests::Element>;

TEST_F(ReadyForestsTest, MissingOnesComeFirstAndOfTheseThoseOfMostLoad) {
  ReadyForests ready(metrics_);
  ready.SetElements("a", {{1, 5.0}, {2, 7.0}});
  ready.SetElements("b", {{1, 6.0}});
  EXPECT_EQ(MakeAll(ready, 1, 1), (Order{2, 1, 1}));
  EXPECT_EQ(ready.Next(1, 1), std::nullopt);
  ready.SetElements("a", {{2, 7.0}, {3, 1.0}});
  EXPECT_EQ(ready.size(), 2U);
  EXPECT_EQ(MakeAll(ready, 1, 2), (Order{3, 2, 1})) << "then what may have changed";
  EXPECT_EQ(MakeAll(ready, 2, 2), (Order{2, 1, 3})) << "another fabric";
}

TEST_F(ReadyForestsTest, AreFoundForTheFabricThatTheyWereMadeFor) {
  ReadyForests ready(metrics_);
  ready.SetElements("a", {{1, 5.0}});
  ready.Put({"a", 1}, Made(7, 1));
  EXPECT_NE(ready.Find("a", 1, 7), nullptr);
  EXPECT_EQ(ready.Find("a", 1, 8), nullptr);
  EXPECT_EQ(ready.Find("a", 2, 7), nullptr);
  EXPECT_EQ(ready.Find("b", 1, 7), nullptr);
  ready.Put({"a", 9}, Made(7, 1));  // its plan does not go over that any more
  ready.Put({"c", 1}, Made(7, 1));
  EXPECT_EQ(ready.size(), 1U);
  ready.Confirm({"a", 1}, 2);
  EXPECT_EQ(ready.Next(7, 2), std::nullopt);
}

TEST_F(ReadyForestsTest, KeepThoseOfMostLoadWhereMemoryIsShort) {
  const std::size_t each = [&] {
    Metrics metrics;
    ReadyForests one(metrics);
    one.SetElements("a", {{1, 1.0}});
    one.Put({"a", 1}, Made(1, 1, 100));
    return one.bytes();
  }();
  ReadyForests ready(metrics_, 2 * each);
  ready.SetElements("a", {{1, 1.0}, {2, 4.0}, {3, 2.0}, {4, 3.0}});
  EXPECT_EQ(MakeAll(ready, 1, 1, 100), (Order{2, 4, 3})) << "then nothing more in vain";
  EXPECT_EQ(ready.size(), 2U);
  EXPECT_LE(ready.bytes(), 2 * each);
  EXPECT_NE(ready.Find("a", 2, 1), nullptr);
  EXPECT_NE(ready.Find("a", 4, 1), nullptr);
  EXPECT_EQ(MakeAll(ready, 2, 1, 100).size(), 2U) << "nor for another fabric";
  ready.SetElements("b", {{7, 9.0}});
  EXPECT_EQ(MakeAll(ready, 2, 1, 100), (Order{7}));
  EXPECT_NE(ready.Find("b", 7, 2), nullptr);
  EXPECT_NE(ready.Find("a", 2, 2), nullptr);
  EXPECT_EQ(ready.size(), 2U);
}

}  // namespace
}  // namespace espalier::controller
