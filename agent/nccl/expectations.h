#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

namespace espalier::nccl {

// The most that one channel of a collective can have a rank send to one peer, in bytes.
// `function` and `datatype` as NCCL names them; `ranks` and `channels` 0 where they are not known.
// Unknown functions, datatypes and numbers of ranks that matter give the largest number.
std::uint64_t MostBytes(std::string_view function, std::uint64_t count, std::string_view datatype,
                        int ranks, unsigned channels);

// That so many more bytes, or fewer, are to be expected of a queue pair of this process.
using Expect = void(std::uint32_t queue_pair, std::int64_t bytes);

// Learns which queue pairs carry what a rank sends to a peer on a channel, and says what is to be
// expected of them when such an operation starts, of the first one when it posts its first piece
// (to several queue pairs: as each shows); what it did not send is taken back when it stops.
// Not thread-safe.
class Expectations {
 public:
  struct Connection {
    std::uint64_t communicator;
    int channel;
    int peer;
    auto operator<=>(const Connection&) const = default;
  };
  struct Share {
    std::uint32_t queue_pair;
    std::int64_t left;  // expected, and not posted
  };
  struct Operation {
    Connection connection;
    std::vector<Share> shares;
    bool learns = false;        // no queue pair was known when it started
    std::int64_t unshared = 0;  // then: to be expected of the first that shows
  };

  Expectations() = default;
  // Null: nobody to tell.
  void TellTo(Expect* expect) { expect_ = expect; }

  Operation Start(const Connection& connection, std::uint64_t bytes);
  void HandlePost(Operation& operation, std::uint32_t queue_pair, std::uint64_t bytes);
  void Stop(Operation& operation);
  void Forget(std::uint64_t communicator);

 private:
  void Tell(std::uint32_t queue_pair, std::int64_t bytes) const;
  // Another queue pair of an operation that learns: all have equal parts of what is left.
  void ShareAgain(Operation& operation, std::uint32_t queue_pair) const;

  Expect* expect_ = nullptr;
  std::map<Connection, std::vector<std::uint32_t>> queue_pairs_;
};

}  // namespace espalier::nccl
