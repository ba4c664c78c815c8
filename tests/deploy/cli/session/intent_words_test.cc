#include "deploy/cli/session/intent_words.h"

#include <gtest/gtest.h>

#include "common/terminal/table.h"

namespace espalier::cli {
namespace {

std::string Words(const std::string& what, const std::string& value) {
  return IntentWords(MakeRow({{"what", what}, {"id", "m1"}, {"value", value}}));
}

TEST(IntentWords, TellWhatAWindowDrainsAndWhen) {
  EXPECT_EQ(Words("maintenance", "2026-11-28T17:46:20.162Z node waiting checked spine1"),
            "drain node spine1 from 2026-11-28T17:46:20.162Z");
  EXPECT_EQ(Words("maintenance", "2026-11-28T17:46:20.162Z link begun forced leaf0--spine1"),
            "drain link leaf0--spine1 from 2026-11-28T17:46:20.162Z, begun, even if it cuts off "
            "flows");
}

TEST(IntentWords, LeaveOtherValuesAsTheyAre) {
  EXPECT_EQ(Words("weight", "3"), "3");
  EXPECT_EQ(Words("steering", "50%"), "50%");
  EXPECT_EQ(Words("maintenance", "of a later version"), "of a later version");
  EXPECT_EQ(Words("failed link", ""), "");
  EXPECT_EQ(Words("weight", "\x1b[2J"), "\\x1b[2J");
}

}  // namespace
}  // namespace espalier::cli
