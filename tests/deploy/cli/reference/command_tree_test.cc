#include "deploy/cli/reference/command_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/deploy/cli/reference/small_tool.h"

namespace espalier::cli {
namespace {

using testing::ElementsAre;

std::vector<std::string> NamesOf(const std::vector<const Command*>& commands) {
  std::vector<std::string> names;
  for (const Command* command : commands) names.push_back(command->name);
  return names;
}

TEST(CommandTree, HoldsEveryCommandThatIsNotHidden) {
  const Command root = ReadCommands(SmallTool().app, "tool");
  EXPECT_THAT(NamesOf(AllCommands(root)),
              ElementsAre("tool", "tool fail", "tool fail link", "tool make"));
  EXPECT_TRUE(root.needs_command);
  EXPECT_FALSE(root.FindCommand("make")->needs_command);
  EXPECT_EQ(root.FindCommand("ghost"), nullptr);
}

TEST(CommandTree, TellsWhatAnArgumentTakes) {
  const Command root = ReadCommands(SmallTool().app, "tool");
  const Command& make = *root.FindCommand("make");
  ASSERT_EQ(make.positionals.size(), 1U);
  EXPECT_EQ(make.positionals[0].default_value, "in.txt");
  EXPECT_EQ(make.positionals[0].kind, ArgumentKind::kFile);
  EXPECT_THAT(make.FindOption("-t")->names, ElementsAre("-t", "--to"));
  EXPECT_THAT(make.FindOption("--to")->choices, ElementsAre("json", "bytes"));
  EXPECT_EQ(make.FindOption("--to")->value, "json, bytes");
  EXPECT_EQ(make.FindOption("--threads")->value, "integer, 1 to 64");
  EXPECT_EQ(make.FindOption("--threads")->Explanation(), "Threads. Required.");
  EXPECT_EQ(make.FindOption("--size")->value, "integer, at least 0");
  EXPECT_EQ(make.FindOption("--scale")->value, "number, at least 0");
  EXPECT_EQ(make.FindOption("--scale")->Explanation(), "Scale. Needs --size.");
  EXPECT_TRUE(make.FindOption("--hosts")->is_repeatable);
  EXPECT_EQ(make.FindOption("--wait")->placeholder, "SECONDS");
  EXPECT_EQ(make.FindOption("--wait")->value, "integer, 1 to 9");
  EXPECT_EQ(make.FindOption("--role")->placeholder, "ROLE");
  EXPECT_EQ(make.FindOption("--role")->value, "text");
  EXPECT_EQ(make.FindOption("--topology")->placeholder, "FILE");
  EXPECT_EQ(make.FindOption("--secret"), nullptr);
  EXPECT_EQ(make.FindOption("--help"), nullptr);
  const Command& link = *root.FindCommand("fail")->FindCommand("link");
  EXPECT_TRUE(link.FindOption("--json")->IsFlag());
  EXPECT_EQ(link.positionals[0].kind, ArgumentKind::kLink);
}

TEST(NameValues, ShowsKindsOfValuesInTheHelp) {
  SmallTool tool;
  const Command before = ReadCommands(tool.app, "tool");
  NameValues(tool.app, "tool");
  const CLI::App* make = tool.app.get_subcommand("make");
  EXPECT_EQ(make->get_option("--topology")->get_type_name(), "FILE");
  EXPECT_EQ(make->get_option("--to")->get_type_name(), "CHOICE:{json,bytes}");
  EXPECT_EQ(make->get_option("--wait")->get_type_name(), "SECONDS:INT in [1 - 9]");
  EXPECT_EQ(make->get_option("FILE")->get_type_name(), "");
  EXPECT_EQ(
      tool.app.get_subcommand("fail")->get_subcommand("link")->get_option("ID")->get_type_name(),
      "");
  // The documents stay as they are.
  const Command after = ReadCommands(tool.app, "tool");
  for (const Argument& option : before.FindCommand("make")->options) {
    const Argument& same = *after.FindCommand("make")->FindOption(option.names.back());
    EXPECT_EQ(same.placeholder, option.placeholder) << option.names.back();
    EXPECT_EQ(same.value, option.value) << option.names.back();
  }
}

}  // namespace
}  // namespace espalier::cli
