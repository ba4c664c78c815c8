#include "common/os/message_socket.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>

#include "tests/temporary_folder.h"

namespace espalier {
namespace {

using ::testing::HasSubstr;

class MessageSocketTest : public ::testing::Test {
 protected:
  TemporaryFolder temporary_;
  std::string folder_ = temporary_.path();
  std::string path_ = folder_ + "/socket";
};

struct Pair {
  Pair() {
    std::array<int, 2> ends{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    left = UniqueFd(ends[0]);
    right = UniqueFd(ends[1]);
  }
  UniqueFd left;
  UniqueFd right;
};

UniqueFd MemoryOf(std::size_t bytes) {
  UniqueFd file(memfd_create("message-socket-test", MFD_CLOEXEC));
  EXPECT_EQ(ftruncate(file.get(), static_cast<off_t>(bytes)), 0);
  return file;
}

off_t SizeOf(const UniqueFd& file) {
  struct stat status {};
  return fstat(file.get(), &status) == 0 ? status.st_size : -1;
}

int OpenFiles() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return static_cast<int>(std::distance(begin(files), end(files)));
}

TEST_F(MessageSocketTest, ListensForProgramsOfAllUsers) {
  const auto listener = ListenOnPath(path_);
  ASSERT_TRUE(listener) << listener.error().message;
  struct stat status {};
  ASSERT_EQ(lstat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0666U);
  EXPECT_EQ(accept(listener->get(), nullptr, nullptr), -1);  // does not block
  const auto client = ConnectToPath(path_);
  ASSERT_TRUE(client) << client.error().message;
  EXPECT_TRUE(UniqueFd(accept(listener->get(), nullptr, nullptr)));
}

TEST_F(MessageSocketTest, ReplacesWhatADeadProcessLeftAndNothingElse) {
  { const auto dead = ListenOnPath(path_); }
  ASSERT_TRUE(std::filesystem::exists(path_));
  EXPECT_EQ(ConnectToPath(path_).error().code, ErrorCode::kUnavailable);
  const auto living = ListenOnPath(path_);
  ASSERT_TRUE(living) << living.error().message;
  const auto second = ListenOnPath(path_);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kAlreadyExists);
  EXPECT_TRUE(ConnectToPath(path_)) << "the one that answers goes on";

  const std::string file = folder_ + "/file";
  ASSERT_TRUE(UniqueFd(open(file.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600)));
  EXPECT_FALSE(ListenOnPath(file));
  EXPECT_TRUE(std::filesystem::is_regular_file(file));
}

TEST_F(MessageSocketTest, NamesThePathThatIsWrong) {
  const auto nowhere = ListenOnPath(folder_ + "/missing/socket");
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(nowhere.error().message, HasSubstr("/missing/socket"));
  for (const std::string& path : {std::string(), std::string(sizeof(sockaddr_un::sun_path), 'x')}) {
    EXPECT_EQ(ListenOnPath(path).error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(ConnectToPath(path).error().code, ErrorCode::kInvalidArgument);
  }
  EXPECT_THAT(ConnectToPath(path_).error().message, HasSubstr(path_));
}

TEST_F(MessageSocketTest, AMessageIsOnePieceWithAtMostOneFile) {
  const Pair pair;
  std::array<char, 8> text{};
  EXPECT_FALSE(ReceiveMessage(pair.right.get(), text.data(), text.size(), false));
  EXPECT_TRUE(SendMessage(pair.left.get(), "one", 3));
  EXPECT_TRUE(SendMessage(pair.left.get(), "two", 3, MemoryOf(4'096).get()));
  EXPECT_TRUE(SendMessage(pair.left.get(), "longer than eight", 17));

  auto message = ReceiveMessage(pair.right.get(), text.data(), text.size(), false);
  ASSERT_TRUE(message);
  EXPECT_EQ(message->bytes, 3U);
  EXPECT_FALSE(message->file);
  message = ReceiveMessage(pair.right.get(), text.data(), text.size(), true);
  EXPECT_EQ(std::string(text.data(), 3), "two");
  EXPECT_EQ(SizeOf(message->file), 4'096);
  message = ReceiveMessage(pair.right.get(), text.data(), text.size(), true);
  EXPECT_EQ(message->bytes, 17U);
}

TEST_F(MessageSocketTest, TellsThatTheOtherSideHasGone) {
  Pair pair;
  pair.left.Close();
  char byte = 0;
  EXPECT_EQ(ReceiveMessage(pair.right.get(), &byte, 1, true)->bytes, 0U);
  EXPECT_FALSE(SendMessage(pair.right.get(), &byte, 1));
}

TEST_F(MessageSocketTest, FilesBeyondTheFirstAreClosed) {
  const Pair pair;
  const std::array<UniqueFd, 3> files = {MemoryOf(1), MemoryOf(2), MemoryOf(3)};
  const std::array<int, 3> numbers = {files[0].get(), files[1].get(), files[2].get()};
  char byte = 'x';
  iovec part{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(numbers))> control{};
  msghdr several{};
  several.msg_iov = &part;
  several.msg_iovlen = 1;
  several.msg_control = control.data();
  several.msg_controllen = control.size();
  cmsghdr* const rights = CMSG_FIRSTHDR(&several);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(numbers));
  std::memcpy(CMSG_DATA(rights), numbers.data(), sizeof(numbers));
  ASSERT_EQ(sendmsg(pair.left.get(), &several, 0), 1);

  const int before = OpenFiles();
  const auto message = ReceiveMessage(pair.right.get(), &byte, 1, true);
  EXPECT_EQ(SizeOf(message->file), 1);
  EXPECT_EQ(OpenFiles(), before + 1);
}

}  // namespace
}  // namespace espalier
