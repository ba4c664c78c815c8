#include "deploy/cli/reference/man_pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "deploy/cli/reference/markdown.h"
#include "tests/deploy/cli/reference/small_tool.h"

namespace espalier::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Markdown, ShowsCommandsWithTheirUsageAndArguments) {
  const std::string text = FormatMarkdown(ReadCommands(SmallTool().app, "tool"));
  EXPECT_THAT(text, HasSubstr("| [`tool fail link`](#tool-fail-link) | Take a link as failed |\n"));
  EXPECT_THAT(text, HasSubstr("\n## tool fail link\nTake a link as failed.\n"));
  EXPECT_THAT(text, HasSubstr("```\ntool fail link [OPTION...] ID\n```\n"));
  EXPECT_THAT(text, HasSubstr("```\ntool make --threads INTEGER [OPTION...] [FILE]\n```\n"));
  EXPECT_THAT(text, HasSubstr("| `-t`, `--to` CHOICE | json, bytes |  | Form. |\n"));
  EXPECT_THAT(text, HasSubstr("| `FILE` | file | `in.txt` | What to read. |\n"));
  EXPECT_THAT(text, HasSubstr("```\nA | table\n.of lines\n```\n"));
  EXPECT_THAT(text, HasSubstr("Does this \\| that."));
  EXPECT_THAT(text, Not(HasSubstr("ghost")));
}

std::string PageOf(const std::string& file_name) {
  for (const ManPage& page :
       FormatManPages(ReadCommands(SmallTool().app, "tool"), "November 21, 2026")) {
    if (page.file_name == file_name) return page.text;
  }
  return "";
}

TEST(ManPages, AreOneForEachCommand) {
  EXPECT_EQ(FormatManPages(ReadCommands(SmallTool().app, "tool"), "").size(), 4U);
  const std::string page = PageOf("tool-fail-link.1");
  EXPECT_THAT(page, HasSubstr(".Dd November 21, 2026\n.Dt TOOL-FAIL-LINK 1\n"));
  EXPECT_THAT(page, HasSubstr(".Nm tool\n.Cm \\&fail \\&link\n"));
  EXPECT_THAT(page, HasSubstr(".It Fl -json\nOne JSON object.\n"));
  EXPECT_THAT(page, HasSubstr(".Xr tool 1 ,\n.Xr tool-fail 1\n"));
  EXPECT_THAT(PageOf("tool-make.1"), HasSubstr(".It Fl t , Fl -to Ar CHOICE\n"));
}

// A text cannot end up as a request or a macro.
TEST(ManPages, WriteTextsAsTheyAre) {
  const std::string page = PageOf("tool-make.1");
  EXPECT_THAT(page, HasSubstr("\n\\&.starts with a dot, has \\e and \\(dqNm\\(dq.\n"));
  EXPECT_THAT(page, HasSubstr("\nThreads.\nRequired.\n"));
  EXPECT_THAT(page, HasSubstr("A | table\n\\&.of lines\n"));
}

}  // namespace
}  // namespace espalier::cli
