#include "deploy/cli/setup/key_commands.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "common/files/file.h"
#include "common/files/json.h"
#include "common/identity/key_folder.h"
#include "tests/deploy/cli/run_command.h"
#include "tests/temporary_folder.h"

namespace espalier::cli {
namespace {

using testing::HasSubstr;

class KeyCommands : public testing::Test {
 protected:
  Outcome Run(const std::string& arguments) {
    return RunCommand(&AddKeyCommands, arguments + " --keys " + path_);
  }

  TemporaryFolder folder_;
  const std::string path_ = folder_.path() + "/keys";
};

TEST_F(KeyCommands, MakeKeysForTheControllerAndItsAgents) {
  const Outcome made = Run("keys make h0 h1");
  EXPECT_EQ(made.code, 0) << made.errors;
  EXPECT_EQ(made.output,
            path_ + "/controller.key\n" + path_ + "/agents/h0.key\n" + path_ + "/agents/h1.key\n");
  EXPECT_EQ(Run("keys make h2").code, 0);
  const Outcome again = Run("keys make h2");
  EXPECT_EQ(again.code, 1);
  EXPECT_THAT(again.errors, HasSubstr("has a key already"));
  const Outcome list = Run("keys list --json");
  const auto json = io::ParseJson(list.output, "list");
  ASSERT_TRUE(json) << list.output;
  EXPECT_EQ(json->Find("keys")->items.size(), 3U);
}

TEST_F(KeyCommands, MakeKeysForAllHostsOfATopology) {
  const std::string file = folder_.path() + "/t.json";
  ASSERT_TRUE(io::WriteFileDurably(file, R"({"name": "t", "version": 1, "nodes": [
        {"id": "a/gpu0", "kind": "COMPUTE", "host": "a"}, {"id": "a/nic0", "kind": "NIC",
         "host": "a", "addresses": ["10.0.0.1"]}, {"id": "b", "kind": "COMPUTE",
         "addresses": ["10.0.0.2"]}, {"id": "leaf", "kind": "SWITCH", "role": "LEAF"}],
        "links": [{"a": "a/gpu0", "b": "a/nic0", "gbps": 1}, {"a": "a/nic0", "b": "leaf",
         "gbps": 1}, {"a": "b", "b": "leaf", "gbps": 1}]})"));
  EXPECT_EQ(Run("keys make a").code, 0);
  const Outcome made = Run("keys make --topology " + file);
  EXPECT_EQ(made.code, 0) << made.errors;
  EXPECT_EQ(made.output, path_ + "/agents/b.key\n");
  EXPECT_EQ(made.errors.find("warning"), std::string::npos) << made.errors;
  const Outcome typo = Run("keys make leag --topology " + file);
  EXPECT_EQ(typo.code, 0) << typo.errors;
  EXPECT_THAT(typo.errors, HasSubstr("warning: leag is no host of " + file));
}

TEST_F(KeyCommands, RotateAndRevoke) {
  EXPECT_EQ(Run("keys make h0").code, 0);
  EXPECT_EQ(Run("keys rotate h0 --overlap +2h").output, path_ + "/agents/h0.key\n");
  EXPECT_THAT(Run("keys list").output, HasSubstr("until 20"));
  EXPECT_EQ(Run("keys revoke h0").code, 0);
  EXPECT_THAT(Run("keys list").output, HasSubstr("revoked"));
  EXPECT_EQ(Run("keys revoke h0").code, 2);
  EXPECT_EQ(Run("keys rotate h0").code, 2);
  EXPECT_EQ(Run("keys rotate").code, 2);
  EXPECT_EQ(Run("keys rotate --controller").code, 0);
  EXPECT_EQ(Run("keys rotate --controller --finish").code, 0);
  EXPECT_EQ(Run("keys rotate --controller --finish").code, 1);
}

TEST_F(KeyCommands, ListsDoNotMakeTheFolder) {
  for (const char* command : {"keys list", "token list", "keys revoke h0", "keys rotate h0"}) {
    const Outcome refused = Run(command);
    EXPECT_EQ(refused.code, 2);
    EXPECT_THAT(refused.errors, HasSubstr(path_ + ": there is no such folder"));
  }
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(KeyCommands, PrintOneJsonObject) {
  EXPECT_EQ(Run("keys make h0 --json").output, "{\"files\":[\"" + path_ + "/controller.key\",\"" +
                                                   path_ + "/agents/h0.key\"],\"reload\":false}\n");
  EXPECT_EQ(Run("keys rotate h0 --json").output,
            "{\"files\":[\"" + path_ + "/agents/h0.key\"],\"reload\":true}\n");
  EXPECT_EQ(Run("keys revoke h0 --json").output, "{\"revoked\":[\"h0\"],\"reload\":true}\n");
  const auto token = io::ParseJson(Run("token make eve --role viewer --json").output, "token");
  ASSERT_TRUE(token);
  EXPECT_EQ(token->Find("token")->text.size(), 4 + 64U);
  EXPECT_EQ(token->Find("role")->text, "viewer");
  EXPECT_EQ(Run("token revoke eve --json").output, "{\"revoked\":[\"eve\"],\"reload\":true}\n");
}

TEST_F(KeyCommands, GiveTokensOnce) {
  const Outcome made = Run("token make alice --role viewer --until +90d");
  EXPECT_EQ(made.code, 0) << made.errors;
  EXPECT_EQ(made.output.size(), 4 + 64 + 1U);
  EXPECT_THAT(Run("token list").output, HasSubstr("alice"));
  EXPECT_THAT(Run("token list --json").output, Not(HasSubstr(made.output)));
  EXPECT_EQ(Run("token make bob --role god").code, 2);
  EXPECT_EQ(Run("token make alice --role admin").code, 1);
  EXPECT_EQ(Run("token revoke alice").code, 0);
  EXPECT_EQ(Run("token revoke alice").code, 2);
}

}  // namespace
}  // namespace espalier::cli
