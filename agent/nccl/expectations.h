#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

namespace espalier::nccl {

// Returns an upper bound, in bytes, on what a rank sends to one peer on one channel of a
// collective. `function` and `datatype` are NCCL's names; `ranks` and `channels` are 0 if unknown.
// Unknown functions and datatypes, and an unknown number of ranks if it matters, give the largest
// number.
std::uint64_t MostBytes(std::string_view function, std::uint64_t count, std::string_view datatype,
                        int ranks, unsigned channels);

// Adds to the bytes that are expected from a queue pair of this process; negative: takes them back.
using Expect = void(std::uint32_t queue_pair, std::int64_t bytes);

// Learns which queue pairs carry the data that a rank sends to a peer on a channel, and announces
// the bytes of an operation on them when it starts. During the first operation of a connection, a
// queue pair becomes known with its first post, and the expected bytes are divided again among the
// known ones. Bytes that were not sent are taken back when the operation stops. Not thread-safe.
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
    std::int64_t left;  // bytes expected and not posted
  };
  struct Operation {
    Connection connection;
    std::vector<Share> shares;
    bool learns = false;        // no queue pair was known when it started
    std::int64_t unshared = 0;  // if so: bytes to expect from the first queue pair that posts
  };

  Expectations() = default;
  // Sets what is called with expectations; null: nothing.
  void TellTo(Expect* expect) { expect_ = expect; }

  Operation Start(const Connection& connection, std::uint64_t bytes);
  void HandlePost(Operation& operation, std::uint32_t queue_pair, std::uint64_t bytes);
  void Stop(Operation& operation);
  void Forget(std::uint64_t communicator);

 private:
  void Tell(std::uint32_t queue_pair, std::int64_t bytes) const;
  // Adds a queue pair to an operation that learns, and divides what is left equally.
  void ShareAgain(Operation& operation, std::uint32_t queue_pair) const;

  Expect* expect_ = nullptr;
  std::map<Connection, std::vector<std::uint32_t>> queue_pairs_;
};

}  // namespace espalier::nccl
