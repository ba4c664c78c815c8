#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "proto/messages.h"

namespace espalier::wire {

// The bytes of a message. The caller keeps to the limits below and to the rules of Decode: the
// peer refuses what does not. Texts for people (reason, detail, error) are made printable and cut
// to kMaxTextBytes here, as they come from anywhere.
// Complexity: linear; thread-safe.
std::string Encode(const Message& message);

// Reads messages; the only validator of bytes from a peer. What it returns obeys the limits
// below and has columns of equal length, indices inside their tables, known enum values, no id
// twice in one list (nor a flow both in a push's sets and withdrawn), printable names, addresses
// other than "::" wherever one must be, TTLs and path ports that are not 0, protocol TCP or UDP,
// bytes and rates below 2^63, times below 100 years, an interval of heartbeats in a Welcome that
// accepts. Fields that it does not know are ignored; a body that it does not know is an error.
//
// Keeps its protobuf and result objects between calls, as a reused object parses twice as fast.
// Thread safety: one thread; the result of Decode is valid until the next call.
// Complexity: linear in the bytes; measured by tests/bench/convert_bench.
class Decoder {
 public:
  Decoder();
  ~Decoder();
  // Errors: kInvalidArgument, with the field that is wrong
  // ("flow_report.opened.source[3]: index 9 beyond 4 addresses").
  Result<const Message*> Decode(std::string_view bytes);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

inline constexpr std::size_t kMaxMessageBytes = 4 << 20;
inline constexpr std::size_t kMaxFlowsPerReport = 16'384;
inline constexpr std::size_t kMaxNameBytes = 255;    // agent, job, device, link, feature names
inline constexpr std::size_t kMaxTextBytes = 4'096;  // reasons and details
inline constexpr std::size_t kMaxTableEntries = 16'384;
inline constexpr std::size_t kMaxNics = 256;
inline constexpr std::size_t kMaxFeatures = 256;
inline constexpr std::size_t kMaxPathsPerFlow = 64;
inline constexpr std::size_t kMaxProbesPerOrder = 65'536;  // ports x TTLs
inline constexpr std::uint32_t kMaxProbesPerSecond = 1'000'000;

}  // namespace espalier::wire
