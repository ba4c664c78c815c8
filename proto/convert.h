#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "proto/messages.h"

namespace espalier::wire {

// The bytes of a message. Messages that we make are valid by construction.
std::string Encode(const Message& message);

// Reads messages; the only validator of bytes from a peer. What it returns obeys the limits
// below and has columns of equal length, indices inside their tables, ports and protocols in
// range, known enum values, no id twice in one report.
//
// Keeps its protobuf and result objects between calls, as a reused object parses twice as fast.
// Thread safety: one thread; the result of Decode is valid until the next call.
// Complexity: linear in the bytes; figures in docs/benchmarks.md (tests/bench/convert_bench).
class Decoder {
 public:
  Decoder();
  ~Decoder();
  // Errors: kInvalidArgument, with the field that is wrong.
  Result<const Message*> Decode(std::string_view bytes);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

inline constexpr std::size_t kMaxMessageBytes = 4 << 20;
inline constexpr std::size_t kMaxFlowsPerReport = 16'384;
inline constexpr std::size_t kMaxNameBytes = 255;      // agent, job, device, link, feature names
inline constexpr std::size_t kMaxTextBytes = 4'096;    // reasons and details
inline constexpr std::size_t kMaxTableEntries = 16'384;
inline constexpr std::size_t kMaxNics = 256;
inline constexpr std::size_t kMaxPathsPerFlow = 64;
inline constexpr std::size_t kMaxProbesPerOrder = 65'536;  // ports x TTLs

}  // namespace espalier::wire
