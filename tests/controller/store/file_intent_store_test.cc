#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "controller/store/intent_store.h"
#include "tests/temporary_folder.h"

namespace espalier::controller {
namespace {

class FileIntentStoreTest : public testing::Test {
 protected:
  void Write(const std::string& text) { std::ofstream(path_) << text; }

  TemporaryFolder folder_;
  std::string path_ = folder_.path() + "/intents.json";
};

TEST_F(FileIntentStoreTest, StartsEmpty) {
  const auto loaded = MakeFileIntentStore(path_)->Load();
  ASSERT_TRUE(loaded.has_value());
  EXPECT_EQ(*loaded, Intents{});
}

TEST_F(FileIntentStoreTest, GivesBackWhatWasSaved) {
  const Intents intents{.epoch = 17,
                        .failed_links = {{"leaf0--spine1", ""}, {"a--b#2", "dirty \"optics\""}},
                        .failed_nodes = {{"spine3", "maintenance"}},
                        .drained_links = {{"leaf1--spine1", "soon"}},
                        .restored_links = {{"leaf2--spine0", "the file is old"}}};
  ASSERT_TRUE(MakeFileIntentStore(path_)->Save({.epoch = 3}).has_value());
  ASSERT_TRUE(MakeFileIntentStore(path_)->Save(intents).has_value());
  EXPECT_EQ(*MakeFileIntentStore(path_)->Load(), intents);
}

TEST_F(FileIntentStoreTest, NamesThePlaceOfWhatItCannotRead) {
  Write("{\"epoch\": 1,\n \"failed_links\": [1]}");
  const auto loaded = MakeFileIntentStore(path_)->Load();
  ASSERT_FALSE(loaded.has_value());
  EXPECT_NE(loaded.error().message.find(path_ + ":2:"), std::string::npos)
      << loaded.error().message;
  Write("{\"epoch\": 1, \"unknown\": {}}");
  EXPECT_FALSE(MakeFileIntentStore(path_)->Load().has_value());
}

TEST_F(FileIntentStoreTest, KeepsTheOldIntentsWhenSavingFails) {
  const auto store = MakeFileIntentStore(folder_.path() + "/missing/intents.json");
  EXPECT_FALSE(store->Save({.epoch = 1}).has_value());
}

}  // namespace
}  // namespace espalier::controller
