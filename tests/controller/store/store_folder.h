#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "controller/store/store_tools.h"
#include "tests/temporary_folder.h"

namespace espalier::controller {

// A store in a folder of its own.
class StoreFolder : public testing::Test {
 protected:
  static constexpr WallTime kNow{std::chrono::microseconds(1'795'253'938'907'654)};

  static Intents Failed(const std::string& link) {
    Intents intents;
    intents.failed_links[link] = {"optics", "user ada", kNow, std::nullopt};
    return intents;
  }
  // The state as a starting controller gets it.
  static StoredState Begin(const std::string& path) {
    Result<StoreFile> file = OpenStore(path);
    EXPECT_TRUE(file.has_value()) << file.error().message;
    return file->Begin(kNow).value();
  }
  // Commits as a running controller does.
  static StoreFile OpenAndBegin(const std::string& path) {
    StoreFile file = OpenStore(path).value();
    file.Begin(kNow).value();
    return file;
  }
  static void Commit(const std::string& path, const Intents& intents) {
    ASSERT_TRUE(OpenAndBegin(path).Commit({.intents = intents}, kNow).has_value());
  }

  TemporaryFolder folder_;
  std::string path_ = folder_.path() + "/store.db";
};

}  // namespace espalier::controller
