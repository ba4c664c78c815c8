#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "proto/messages.h"

namespace espalier::wire {

// Returns the bytes of a message. The caller must keep to the limits below and to the rules of
// Decode, as the peer refuses other messages. Texts for people (reason, detail, error) may come
// from anywhere, so they are made printable and cut to kMaxTextBytes here.
// Complexity: linear; thread-safe.
std::string Encode(const Message& message);

// Reads messages; the only validator of bytes from a peer. A decoded message obeys the limits below
// and these rules: columns have equal lengths; indices are inside their tables; enum values are
// known; no id is twice in one list, nor a flow both in a push's sets and withdrawn; names are
// printable; required addresses are not "::"; TTLs and path ports are not 0; the protocol is TCP or
// UDP; bytes and rates are below 2^63, times below 100 years; an accepting Welcome has a heartbeat
// interval. Unknown fields are ignored; an unknown body is an error.
//
// Keeps its protobuf and result objects between calls, as reused objects parse twice as fast.
// Thread safety: one thread; the result of Decode is valid until the next call.
// Complexity: linear in the bytes; measured by tests/bench/convert_bench.
class Decoder {
 public:
  Decoder();
  ~Decoder();
  // Errors: kInvalidArgument, with the name of the wrong field
  // ("flow_report.opened.source[3]: index 9 beyond 4 addresses").
  Result<const Message*> Decode(std::string_view bytes);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

inline constexpr std::size_t kMaxMessageBytes = 4 << 20;
inline constexpr std::size_t kMaxFlowsPerReport = 16'384;
inline constexpr std::size_t kMaxWantedQueuePairs = 1'024;  // of a heartbeat
inline constexpr std::size_t kMaxNameBytes = 255;    // agent, job, device, link, feature names
inline constexpr std::size_t kMaxTextBytes = 4'096;  // reasons and details
inline constexpr std::size_t kMaxTableEntries = 16'384;
inline constexpr std::size_t kMaxNics = 256;
inline constexpr std::size_t kMaxFeatures = 256;
inline constexpr std::size_t kMaxPathsPerFlow = 64;
inline constexpr std::size_t kMaxLinksPerPath = 16;
inline constexpr std::size_t kMaxProbesPerOrder = 65'536;  // ports x TTLs
inline constexpr std::uint32_t kMaxProbesPerSecond = 1'000'000;
inline constexpr std::size_t kMaxTrainsPerOrder = 1'024;   // to send, and as many to expect
inline constexpr std::size_t kMaxTrainsPerReport = 2'048;  // sent, and as many received

}  // namespace espalier::wire
