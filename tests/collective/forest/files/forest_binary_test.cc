#include "collective/forest/files/forest_binary.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "tests/collective/forest/files/small_schedule.h"

namespace espalier::forest {
namespace {

void Append(std::string& bytes, std::initializer_list<int> values) {
  for (const int value : values) bytes.push_back(static_cast<char>(value));
}

// The file of MakeSmallSchedule, by docs/formats.md.
std::string SmallFile() {
  std::string bytes = "ESPFRST1";
  Append(bytes, {4, 1, 'a', 1, 'b', 1, 'c', 1, 's'});   // from byte 8 on
  Append(bytes, {2, 3, 3, 1, 0, 0});                    // 17: allreduce, flags, ranks, weights
  Append(bytes, {1, 0, 10, 0, 1, 0});                   // 23: the bound 1/10 and its cut, a
  Append(bytes, {2, 5, 0, 2, 0, 1, 0, 5, 0});           // 29: k, tree_gbps 5/2, inverse rate 1/5
  Append(bytes, {2});                                   // 38: forests
  Append(bytes, {0, 1, 3});                             // 39: method, unroutable edges, edges
  Append(bytes, {1, 0, 1, 2, 0, 0, 2, 0, 1});           // 42: a to b over hops 0, 1
  Append(bytes, {1, 0, 1, 1, 1, 0, 1, 2});              // 51: a to c, hop 0 as from a before, hop 2
  Append(bytes, {0, 0, 1, 1, 0, 1, 1, 3});              // 59: b to c, hop 3, hop 2 as before
  Append(bytes, {2, 0, 1, 0, 1, 0b1000});               // 67: two classes, and their parents
  Append(bytes, {0, 2, 2});                             // 73: the second forest
  Append(bytes, {1, 0, 1, 2, 0, 0, 2, 0, 1});           // 76
  Append(bytes, {1, 0, 1, 2, 1, 0, 1, 2});              // 85
  Append(bytes, {1, 0, 2, 0});                          // 93
  Append(bytes, {2, 0, 1, 4, 3, 0, 1, 3, 2, 3, 3, 1});  // 97: a reversed phase and its channels
  Append(bytes, {1, 0, 3, 0, 3, 3, 1, 3, 2});           // 109: and the other
  return bytes;
}

std::string ErrorOf(const std::string& bytes) {
  const auto decoded = DecodeForest(bytes, "f", MakeSmallTopology());
  return decoded.has_value() ? "none" : decoded.error().message;
}

TEST(EncodeForest, WritesTheBytesOfTheFormat) {
  EXPECT_EQ(EncodeForest(MakeSmallTopology(), MakeSmallSchedule()), SmallFile());
}

// What is written again has every field that was read.
TEST(DecodeForest, ReadsEveryField) {
  std::string file = SmallFile();
  const auto check = [&] {
    const auto decoded = DecodeForest(file, "f", MakeSmallTopology());
    ASSERT_TRUE(decoded.has_value()) << decoded.error().message;
    EXPECT_EQ(EncodeForest(MakeSmallTopology(), *decoded), file);
  };
  check();
  file[17] = 4;  // the last collective
  file[18] = 1;  // not in the network
  file[39] = 3;  // the last method
  check();
}

TEST(DecodeForest, FindsNodesThatOnlyTheCutNames) {
  TreeSchedule schedule = MakeSmallSchedule();
  for (Phase& phase : schedule.phases) phase.channels.clear();
  schedule.cut = {fabric::NodeId(3)};
  const std::string file = EncodeForest(MakeSmallTopology(), schedule);
  EXPECT_EQ(DecodeForest(file, "f", MakeSmallTopology())->cut, schedule.cut);
}

TEST(DecodeForest, RefusesEveryTruncatedFile) {
  const std::string file = SmallFile();
  for (std::size_t length = kForestMagic.size(); length < file.size(); ++length) {
    EXPECT_THAT(ErrorOf(file.substr(0, length)),
                testing::MatchesRegex("f:byte [0-9]+: the file is truncated or damaged"))
        << length;
  }
}

// It says where reading ended: behind the part that the value belongs to.
TEST(DecodeForest, NamesThePlaceOfWhatIsWrong) {
  struct Edit {
    std::size_t at;
    int value;
    int end;
  };
  const std::vector<Edit> edits = {
      {8, 0, 9},      // names
      {17, 5, 20},    // collective
      {18, 4, 20},    // flags
      {19, 1, 20},    // too few ranks
      {19, 5, 20},    // more ranks than names
      {28, 4, 39},    // node of the cut
      {38, 3, 39},    // forests
      {39, 4, 42},    // method
      {68, 3, 70},    // root
      {72, 1, 73},    // the second edge into b, which has one
      {99, 2, 101},   // direction of a phase
      {101, 4, 103},  // node of a channel
  };
  for (const Edit& edit : edits) {
    std::string file = SmallFile();
    file[edit.at] = static_cast<char>(edit.value);
    EXPECT_EQ(ErrorOf(file), fmt::format("f:byte {}: the file is truncated or damaged", edit.end))
        << "byte " << edit.at;
  }
  std::string renamed = SmallFile();
  renamed.replace(9, 2, "\x64" + std::string(100, 'x'));
  EXPECT_EQ(ErrorOf(renamed),
            "f:byte 110: the topology has no node \"" + std::string(80, 'x') + "\"");
}

}  // namespace
}  // namespace espalier::forest
