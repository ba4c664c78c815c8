// Arbitrary bytes from a peer on the TCP connection beside an RDMA connection.
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "collective/transport/verbs/notice_reader.h"
#include "common/base/check.h"
#include "common/base/unique_fd.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using espalier::transport::kLongestReason;
  using espalier::transport::Notice;
  using espalier::transport::NoticeReader;
  if (size < 1) return 0;
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) return 0;
  espalier::UniqueFd peer(ends[0]);
  const espalier::UniqueFd own(ends[1]);
  const std::size_t part = std::size_t{1} + data[0];
  NoticeReader reader;
  std::size_t notices = 0;
  for (std::size_t at = 1; at < size; at += part) {
    const std::size_t now = std::min(part, size - at);
    if (::send(peer.get(), data + at, now, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) return 0;
    while (reader.Read(own.get()) == NoticeReader::State::kNotice) {
      ESPALIER_CHECK(reader.reason().size() ==
                     std::min<std::size_t>(reader.notice().reason_bytes, kLongestReason));
      ESPALIER_CHECK(++notices <= size / sizeof(Notice), "more than was sent");
    }
  }
  peer.Close();
  ESPALIER_CHECK(reader.Read(own.get()) == NoticeReader::State::kEnded);
  return 0;
}
