#include "collective/transport/stores/file_store.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "tests/collective/transport/transport_contract.h"
#include "tests/temporary_folder.h"

namespace espalier::transport {
namespace {

using std::chrono::milliseconds;

TEST(FileStore, GivesWhatWasSetAndWaitsForTheRest) {
  TemporaryFolder folder;
  FileStore store(folder.path());
  const auto early = store.Get("a/b", In(milliseconds(20)));
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().code, ErrorCode::kUnavailable);
  std::thread later([&] { ExpectDone(store.Set("a/b", std::string(100'000, 'v'), InAWhile())); });
  const auto value = store.Get("a/b", InAWhile());
  later.join();
  ASSERT_TRUE(value);
  EXPECT_EQ(*value, std::string(100'000, 'v'));
}

TEST(FileStore, KeepsKeysApartAndTheLastValueOfEach) {
  TemporaryFolder folder;
  FileStore store(folder.path());
  ExpectDone(store.Set("g/1", "one", InAWhile()));
  ExpectDone(store.Set("g/2", "", InAWhile()));
  ExpectDone(store.Set("g/1", std::string("a\0b\n", 4), InAWhile()));
  EXPECT_EQ(*store.Get("g/1", InAWhile()), std::string("a\0b\n", 4));
  EXPECT_EQ(*store.Get("g/2", InAWhile()), "");
  // No temporary files are left.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 2);
}

TEST(FileStore, DecidesForOneOfManyThreads) {
  TemporaryFolder folder;
  std::vector<std::thread> threads;
  std::vector<std::string> got(8);
  for (std::size_t i = 0; i < got.size(); ++i) {
    threads.emplace_back([&, i] {
      FileStore store(folder.path());
      const auto value = store.SetOnce("g/who", std::to_string(i), InAWhile());
      ASSERT_TRUE(value) << value.error().message;
      got[i] = *value;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(got, std::vector<std::string>(8, got[0]));
  FileStore store(folder.path());
  EXPECT_EQ(*store.Get("g/who", InAWhile()), got[0]);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(FileStore, NamesTheFileThatItCannotWriteOrFind) {
  TemporaryFolder folder;
  const std::string file = folder.path() + "/file";
  std::ofstream(file) << "no folder";
  FileStore store(file);
  const auto set = store.Set("a/b", "value", InAWhile());
  ASSERT_FALSE(set);
  EXPECT_EQ(set.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(set.error().message.find(file), std::string::npos) << set.error().message;
  const auto got = store.Get("a/b", In(milliseconds(0)));
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().message, file + "/a.b did not appear in time");
}

}  // namespace
}  // namespace espalier::transport
