#include "collective/transport/verbs/notice_reader.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/base/unique_fd.h"
#include "tests/seeds.h"

namespace espalier::transport {
namespace {

using State = NoticeReader::State;

class NoticeReaderTest : public testing::Test {
 protected:
  NoticeReaderTest() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    peer_ = UniqueFd(ends[0]);
    own_ = UniqueFd(ends[1]);
  }
  // A notice with that number and a reason; it claims that the reason has `bytes` bytes.
  static std::string Bytes(std::uint32_t number, const std::string& reason, std::size_t said) {
    Notice notice;
    notice.number = number;
    notice.reason_bytes = static_cast<std::uint32_t>(said);
    std::string bytes(sizeof(notice), '\0');
    std::memcpy(bytes.data(), &notice, sizeof(notice));
    return bytes + reason;
  }
  void Say(const std::string& bytes) {
    ASSERT_EQ(::send(peer_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  State Read() { return reader_.Read(own_.get()); }

  UniqueFd peer_;
  UniqueFd own_;
  NoticeReader reader_;
};

// Whatever the pieces in which the bytes arrive.
TEST_F(NoticeReaderTest, ReadsOneNoticeAfterAnotherWithItsReason) {
  for (const std::uint64_t seed : SeedsToTry(1, 50)) {
    SCOPED_TRACE(seed);
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    std::string stream;
    std::vector<std::string> said;
    for (std::uint32_t number = 0; number < 20; ++number) {
      const std::size_t lengths[] = {0, 1, random() % 100, kLongestReason};
      said.emplace_back(lengths[random() % 4], static_cast<char>('a' + number));
      stream += Bytes(number, said.back(), said.back().size());
    }
    std::uint32_t read = 0;
    while (!stream.empty()) {
      const std::size_t part = std::min<std::size_t>(1 + random() % 200, stream.size());
      Say(stream.substr(0, part));
      stream.erase(0, part);
      for (State state = Read(); state != State::kNothing; state = Read()) {
        ASSERT_EQ(state, State::kNotice);
        ASSERT_EQ(reader_.notice().number, read);
        EXPECT_EQ(reader_.reason(), said[read]);
        ++read;
      }
    }
    EXPECT_EQ(read, said.size());
  }
}

// It stores at most the longest reason; further bytes count as the next notice.
TEST_F(NoticeReaderTest, LimitsTheLengthOfAReason) {
  for (const std::size_t said : {kLongestReason + 1, std::size_t{UINT32_MAX}}) {
    Say(Bytes(7, std::string(kLongestReason, 'x'), said));
    ASSERT_EQ(Read(), State::kNotice);
    EXPECT_EQ(reader_.notice().number, 7U);
    EXPECT_EQ(reader_.reason(), std::string(kLongestReason, 'x'));
    EXPECT_EQ(Read(), State::kNothing);
  }
}

TEST_F(NoticeReaderTest, ReadsNoticesBeforeTheEndAndThenTellsTheReason) {
  Say(Bytes(1, "enough", 6) + Bytes(2, "", 0).substr(0, 10));
  peer_.Close();
  ASSERT_EQ(Read(), State::kNotice);
  EXPECT_EQ(reader_.reason(), "enough");
  EXPECT_EQ(Read(), State::kEnded);
  EXPECT_EQ(reader_.why_ended(), "it closed the connection");
  EXPECT_EQ(Read(), State::kEnded);
}

TEST_F(NoticeReaderTest, EndsIfTheConnectionBreaks) {
  EXPECT_EQ(reader_.Read(-1), State::kEnded);
  EXPECT_EQ(reader_.why_ended(), std::strerror(EBADF));
}

}  // namespace
}  // namespace espalier::transport
