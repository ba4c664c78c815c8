#include "deploy/cli/reference/completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/deploy/cli/reference/small_tool.h"

namespace espalier::cli {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Completion After(const std::vector<std::string>& words) {
  return Complete(ReadCommands(SmallTool().app, "tool"), words);
}

std::vector<std::string> WordsOf(const Completion& completion) {
  std::vector<std::string> words;
  for (const Candidate& candidate : completion.candidates) words.push_back(candidate.word);
  return words;
}

TEST(Completion, OffersCommands) {
  EXPECT_THAT(WordsOf(After({""})), ElementsAre("fail", "make"));
  EXPECT_THAT(WordsOf(After({"f"})), ElementsAre("fail"));
  EXPECT_THAT(WordsOf(After({"fail", ""})), ElementsAre("link"));
  EXPECT_THAT(WordsOf(After({"ghost", "x", "y"})), IsEmpty());
  EXPECT_THAT(WordsOf(After({})), IsEmpty());
  EXPECT_EQ(After({"f"}).candidates[0].help, "Take it as failed");
}

TEST(Completion, OffersOptionsThatWereNotGiven) {
  EXPECT_THAT(WordsOf(After({"fail", "link", "-"})),
              ElementsAre("--controller", "--json", "-h", "--help"));
  EXPECT_THAT(WordsOf(After({"fail", "link", "--json", "--j"})), IsEmpty());
  EXPECT_THAT(WordsOf(After({"make", "--hosts", "a", "--ho"})), ElementsAre("--hosts"));
  EXPECT_THAT(WordsOf(After({"make", "--", "-"})), IsEmpty());
}

TEST(Completion, OffersValues) {
  EXPECT_THAT(WordsOf(After({"make", "--to", ""})), ElementsAre("json", "bytes"));
  EXPECT_THAT(WordsOf(After({"make", "--to=b"})), ElementsAre("--to=bytes"));
  EXPECT_THAT(WordsOf(After({"make", "--threads", ""})), IsEmpty());
  EXPECT_EQ(After({"make", ""}).kind, ArgumentKind::kFile);
  EXPECT_EQ(After({"make", "--to", "json", ""}).kind, ArgumentKind::kFile);
  EXPECT_EQ(After({"make", "in.txt", ""}).kind, ArgumentKind::kText);
}

TEST(Completion, TellsWhoseNamesAreWanted) {
  const Completion names = After({"fail", "link", "--controller", "unix:/x", "leaf"});
  EXPECT_EQ(names.kind, ArgumentKind::kLink);
  EXPECT_EQ(names.partial, "leaf");
  EXPECT_EQ(names.given.at("--controller"), "unix:/x");
  EXPECT_EQ(After({"fail", "link", "--controller=unix:/y", ""}).given.at("--controller"),
            "unix:/y");
  const Completion last = After({"fail", "link", "a,b,le"});
  EXPECT_EQ(last.before, "a,b,");
  EXPECT_EQ(last.partial, "le");
}

}  // namespace
}  // namespace espalier::cli
