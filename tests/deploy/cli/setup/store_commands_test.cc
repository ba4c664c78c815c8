#include "deploy/cli/setup/store_commands.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "common/files/json.h"
#include "controller/store/store_tools.h"
#include "tests/deploy/cli/run_command.h"
#include "tests/temporary_folder.h"

namespace espalier::cli {
namespace {

using testing::HasSubstr;

class StoreCommands : public testing::Test {
 protected:
  StoreCommands() {
    Result<controller::StoreFile> store = controller::OpenStore(path_);
    EXPECT_TRUE(store) << store.error().message;
    controller::StoreChange change;
    change.epoch = 7;
    change.intents.emplace();
    change.intents->failed_links["leaf0--spine1"] = {"optics", "alice", {}, {}};
    EXPECT_TRUE(store->Commit(change, ParseWallTime("2026-11-21T12:01Z", {}).value()));
  }
  Outcome Run(const std::string& arguments) {
    return RunCommand(&AddStoreCommands, "store " + arguments + " --store " + path_);
  }

  TemporaryFolder folder_;
  const std::string path_ = folder_.path() + "/store.db";
};

TEST_F(StoreCommands, CheckSaysWhatIsInIt) {
  const Outcome checked = Run("check");
  EXPECT_EQ(checked.code, 0) << checked.errors;
  EXPECT_THAT(checked.output, HasSubstr("epoch 7, revision 1, 1 intents"));
  const auto json = io::ParseJson(Run("check --json").output, "check");
  ASSERT_TRUE(json);
  EXPECT_EQ(json->Find("epoch")->text, "7");
}

TEST_F(StoreCommands, RestorePutsABackupInPlace) {
  const std::string copy = folder_.path() + "/copy.db";
  ASSERT_EQ(Run("backup " + copy).code, 0);
  EXPECT_EQ(Run("backup " + copy).code, 1);  // never over a file
  std::ofstream(path_, std::ios::trunc) << "damaged";
  EXPECT_EQ(Run("check").code, 1);
  const Outcome restored = Run("restore " + copy);
  EXPECT_EQ(restored.code, 0) << restored.errors;
  EXPECT_THAT(Run("check").output, HasSubstr("epoch 7, revision 1, 1 intents"));
  EXPECT_TRUE(std::filesystem::exists(path_ + ".before-restore"));
}

TEST_F(StoreCommands, RefuseWhatIsNoStore) {
  EXPECT_EQ(RunCommand(&AddStoreCommands, "store check --store /nowhere/store.db").code, 1);
  EXPECT_EQ(Run("restore " + folder_.path() + "/none.db").code, 1);
  EXPECT_EQ(RunCommand(&AddStoreCommands, "store").code, 2);
}

}  // namespace
}  // namespace espalier::cli
