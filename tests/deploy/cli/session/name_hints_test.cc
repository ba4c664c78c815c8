#include "deploy/cli/session/name_hints.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/deploy/cli/operator/operator_commands_fixture.h"

namespace espalier::cli {
namespace {

TEST(NameHints, FindLinksThatAreWrittenOtherwise) {
  const std::vector<std::string> links = {"leaf0--spine0", "leaf0--spine1", "leaf0--spine1#2",
                                          "h0--leaf0"};
  for (const char* word : {"leaf0-spine1", "spine1--leaf0", "spine1-leaf0", "LEAF0--SPINE1",
                           "leaf0>spine1", "leaf0 spine1"}) {
    EXPECT_EQ(MeantName(word, links), "leaf0--spine1") << word;
  }
  EXPECT_EQ(MeantName("leaf0--spine12", links), "leaf0--spine1#2");
  EXPECT_EQ(MeantName("laef0--spine0", links), "leaf0--spine0");
  EXPECT_EQ(MeantName("nowhere", links), "");
  EXPECT_EQ(MeantName("--", links), "");
  EXPECT_EQ(MeantName("", links), "");
}

class NameHintsTest : public OperatorCommandsTest {
 protected:
  void ExpectHint(const std::vector<std::string>& words, const std::string& hint) {
    const Outcome outcome = Run(words);
    EXPECT_NE(outcome.exit_code, 0);
    EXPECT_NE(outcome.err.find(hint), std::string::npos) << outcome.err;
  }
};

TEST_F(NameHintsTest, StandInErrorsAboutUnknownNames) {
  ExpectHint({"fail", "link", "leaf0-spine1"}, "did you mean leaf0--spine1? `espalier links`");
  ExpectHint({"drain", "link", "spine1--leaf0"}, "did you mean leaf0--spine1?");
  ExpectHint({"fail", "node", "spin1"}, "did you mean spine1?");
  ExpectHint({"fail", "node", "leaf0--spine1"}, "it is a link; `espalier nodes`");
  ExpectHint({"fail", "link", "spine1"}, "it is a node; `espalier links`");
  ExpectHint({"explain", "h0:6"}, "did you mean h0:5?");
  ExpectHint({"probe", "h0", "h22"}, "did you mean h2?");
  ExpectHint({"steering", "off", "--host", "hh1"}, "did you mean h1?");
  ExpectHint({"flows", "--link", "leaf0-spine1"}, "did you mean leaf0--spine1?");
  const Outcome none = Run({"fail", "link", "nowhere"});
  EXPECT_EQ(none.err.find("did you mean"), std::string::npos) << none.err;
  // With --json, too.
  const Outcome json = Run({"fail", "link", "leaf0-spine1", "--json"});
  EXPECT_NE(json.out.find("\"remedy\":\"did you mean leaf0--spine1?"), std::string::npos)
      << json.out;
}

}  // namespace
}  // namespace espalier::cli
