#include "controller/planning/shift_loads.h"

#include <gmock/gmock.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/fabric/builders.h"
#include "common/fabric/paths.h"

namespace espalier::controller {
namespace {

using fabric::Topology;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

std::vector<std::uint32_t> Hops(const fabric::Path& path) {
  std::vector<std::uint32_t> hops;
  for (const fabric::DirectedLink hop : path.hops) {
    hops.push_back(static_cast<std::uint32_t>(hop.Index()));
  }
  return hops;
}

// Two leaves and three spines: path i between them leads over spine i.
class ShiftLoadsTest : public testing::Test {
 protected:
  const std::vector<std::uint32_t>& Path(std::size_t spine) const { return hops_[spine]; }
  // A flow over one spine goes to another one.
  ShiftLoads::Move Move(std::size_t spine, std::size_t standby, std::int64_t share) const {
    return {.path = Path(spine), .back = {}, .standby = Path(standby), .share = share};
  }
  // The same if its acknowledgements come back over this spine.
  ShiftLoads::Move MoveWithReturn(std::size_t spine, std::size_t back, std::size_t standby,
                                  std::int64_t share) const {
    return {.path = Path(spine), .back = back_[back], .standby = Path(standby), .share = share};
  }
  // What each failure shifts to the first link over this spine.
  std::map<std::string, std::int64_t> OnFirstLinkOver(std::size_t spine) const {
    std::map<std::string, std::int64_t> units;
    shifts_.ForEach([&](LinkOrSwitch failure, std::uint32_t link, ShiftLoads::Shift shift) {
      if (link != Path(spine).front()) return;
      units[topology_.node(failure.node()).id] = shift.Units();
    });
    return units;
  }

  Topology topology_ =
      Topology::Build(
          fabric::BuildLeafSpine({.spines = 3, .leaves = 2, .hosts_per_leaf = 1}).value())
          .value();
  fabric::PathTable paths_{topology_};
  std::vector<std::vector<std::uint32_t>> hops_ = Between("h0", "h1");
  std::vector<std::vector<std::uint32_t>> back_ = Between("h1", "h0");
  ShiftLoads shifts_{topology_};

 private:
  std::vector<std::vector<std::uint32_t>> Between(const char* source,
                                                  const char* destination) const {
    std::vector<std::vector<std::uint32_t>> all;
    const auto from = paths_.FindAttachment(*topology_.FindNode(source));
    const auto to = paths_.FindAttachment(*topology_.FindNode(destination));
    for (const fabric::Path& path : paths_.Between(from->leaf, to->leaf)) all.push_back(Hops(path));
    return all;
  }
};

TEST_F(ShiftLoadsTest, AddsUpWhatOneFailureShiftsToOneLink) {
  shifts_.Add(Move(0, 2, 10));
  shifts_.Add(Move(0, 2, 5));
  shifts_.Add(Move(1, 2, 7));
  EXPECT_THAT(OnFirstLinkOver(2), UnorderedElementsAre(Pair("spine0", 15), Pair("spine1", 7)));
  EXPECT_EQ(shifts_.MostOn(Path(2).front(), Path(0)), 15);
  EXPECT_EQ(shifts_.MostOn(Path(2).front(), Path(1)), 7);
  EXPECT_EQ(shifts_.MostOn(Path(1).front(), Path(0)), 0);
}

TEST_F(ShiftLoadsTest, ForgetsWhatIsRemoved) {
  shifts_.Add(Move(0, 1, 10));
  shifts_.Add(Move(0, 1, 4));
  shifts_.Remove(Move(0, 1, 10));
  EXPECT_EQ(shifts_.MostOn(Path(1).front(), Path(0)), 4);
  shifts_.Remove(Move(0, 1, 4));
  EXPECT_EQ(shifts_.size(), 0u);
}

TEST_F(ShiftLoadsTest, ALostReturnPathMovesTheFlowOffALivingPath) {
  shifts_.Add(MoveWithReturn(0, 1, 2, 10));
  EXPECT_THAT(OnFirstLinkOver(2), UnorderedElementsAre(Pair("spine0", 10), Pair("spine1", 10)));
  EXPECT_THAT(OnFirstLinkOver(0), UnorderedElementsAre(Pair("spine1", -10)));
  shifts_.Add(Move(1, 0, 15));  // which comes where the other one leaves
  EXPECT_THAT(OnFirstLinkOver(0), UnorderedElementsAre(Pair("spine1", 5)));
  EXPECT_EQ(shifts_.MostOn(Path(0).front(), Path(1)), 5);
  shifts_.Remove(MoveWithReturn(0, 1, 2, 10));
  shifts_.Remove(Move(1, 0, 15));
  EXPECT_EQ(shifts_.size(), 0U);
}

TEST_F(ShiftLoadsTest, AReturnOverTheSameSwitchesCountsOnce) {
  shifts_.Add(MoveWithReturn(0, 0, 2, 10));
  EXPECT_THAT(OnFirstLinkOver(2), UnorderedElementsAre(Pair("spine0", 10)));
}

TEST_F(ShiftLoadsTest, AFlowWhoseStandbyFailsTooStaysWhereItIs) {
  shifts_.Add(MoveWithReturn(0, 1, 1, 10));
  EXPECT_THAT(OnFirstLinkOver(1), UnorderedElementsAre(Pair("spine0", 10), Pair("spine1", 0)));
  EXPECT_THAT(OnFirstLinkOver(0), UnorderedElementsAre());
}

TEST_F(ShiftLoadsTest, CountsTheSwitchesInCommonBetweenTheEnds) {
  EXPECT_EQ(shifts_.CountCommon(Path(0), Path(0)), 1u);
  EXPECT_EQ(shifts_.CountCommon(Path(0), Path(1)), 0u);
}

}  // namespace
}  // namespace espalier::controller
