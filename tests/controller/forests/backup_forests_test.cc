// Tests which forests are precomputed, in which order, and which are kept.
#include "controller/forests/backup_forests.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "common/base/metrics.h"

namespace espalier::controller {
namespace {

class BackupForestsTest : public testing::Test {
 protected:
  static BackupForest Made(std::int64_t version, std::uint64_t changes, std::size_t edges = 0) {
    JobForest forest;
    forest.edges.resize(edges);
    return {.forest = std::make_shared<const JobForest>(std::move(forest)),
            .version = version,
            .others = 0,
            .changes = changes};
  }
  // The failure domains in the order of Next, with a forest put for each.
  static std::vector<LinkOrSwitch> MakeAll(BackupForests& ready, std::int64_t version,
                                           std::uint64_t changes, std::size_t edges = 0) {
    std::vector<LinkOrSwitch> order;
    while (const auto next = ready.Next(version, changes)) {
      order.push_back(next->domain);
      ready.Put(*next, Made(version, changes, edges));
      if (order.size() > 100) break;
    }
    return order;
  }

  Metrics metrics_;
};

LinkOrSwitch Link(std::int32_t id) { return LinkOrSwitch::Link(fabric::LinkId(id)); }

using Order = std::vector<LinkOrSwitch>;

TEST_F(BackupForestsTest, MissingOnesComeFirstByLoad) {
  BackupForests ready(metrics_);
  ready.SetDomains("a", {{Link(1), 5.0}, {Link(2), 7.0}});
  ready.SetDomains("b", {{Link(1), 6.0}});
  EXPECT_EQ(MakeAll(ready, 1, 1), (Order{Link(2), Link(1), Link(1)}));
  EXPECT_EQ(ready.Next(1, 1), std::nullopt);
  ready.SetDomains("a", {{Link(2), 7.0}, {Link(3), 1.0}});
  EXPECT_EQ(ready.size(), 2U);
  EXPECT_EQ(MakeAll(ready, 1, 2), (Order{Link(3), Link(2), Link(1)}))
      << "then what may have changed";
  EXPECT_EQ(MakeAll(ready, 2, 2), (Order{Link(2), Link(1), Link(3)})) << "another fabric";
}

TEST_F(BackupForestsTest, AreFoundForTheirVersionOfTheTopology) {
  BackupForests ready(metrics_);
  ready.SetDomains("a", {{Link(1), 5.0}});
  ready.Put({"a", Link(1)}, Made(7, 1));
  EXPECT_NE(ready.Find("a", Link(1), 7), nullptr);
  EXPECT_EQ(ready.Find("a", Link(1), 8), nullptr);
  EXPECT_EQ(ready.Find("a", Link(2), 7), nullptr);
  EXPECT_EQ(ready.Find("b", Link(1), 7), nullptr);
  ready.Put({"a", Link(9)}, Made(7, 1));  // its plan does not go over that any more
  ready.Put({"c", Link(1)}, Made(7, 1));
  EXPECT_EQ(ready.size(), 1U);
  ready.Confirm({"a", Link(1)}, 2);
  EXPECT_EQ(ready.Next(7, 2), std::nullopt);
}

TEST_F(BackupForestsTest, KeepThoseOfMostLoadIfMemoryIsShort) {
  const std::size_t each = [&] {
    Metrics metrics;
    BackupForests one(metrics);
    one.SetDomains("a", {{Link(1), 1.0}});
    one.Put({"a", Link(1)}, Made(1, 1, 100));
    return one.bytes();
  }();
  BackupForests ready(metrics_, 2 * each);
  ready.SetDomains("a", {{Link(1), 1.0}, {Link(2), 4.0}, {Link(3), 2.0}, {Link(4), 3.0}});
  EXPECT_EQ(MakeAll(ready, 1, 1, 100), (Order{Link(2), Link(4), Link(3)}))
      << "then nothing more in vain";
  EXPECT_EQ(ready.size(), 2U);
  EXPECT_LE(ready.bytes(), 2 * each);
  EXPECT_NE(ready.Find("a", Link(2), 1), nullptr);
  EXPECT_NE(ready.Find("a", Link(4), 1), nullptr);
  EXPECT_EQ(MakeAll(ready, 2, 1, 100).size(), 2U) << "nor for another fabric";
  ready.SetDomains("b", {{Link(7), 9.0}});
  EXPECT_EQ(MakeAll(ready, 2, 1, 100), (Order{Link(7)}));
  EXPECT_NE(ready.Find("b", Link(7), 2), nullptr);
  EXPECT_NE(ready.Find("a", Link(2), 2), nullptr);
  EXPECT_EQ(ready.size(), 2U);
}

}  // namespace
}  // namespace espalier::controller
