#pragma once

#include <memory>
#include <string_view>

#include "common/base/result.h"
#include "proto/messages.h"

namespace espalier::wire {

// Reads messages; the only validator of bytes from a peer. A decoded message obeys the limits of
// limits.h and these rules: columns have equal lengths; indices are inside their tables; enum
// values are known; no id is twice in one list, nor a flow both in a push's sets and withdrawn;
// names are printable; required addresses are not "::"; TTLs and path ports are not 0; the protocol
// is TCP or UDP; bytes and rates are below 2^63, times below 100 years; an accepting Welcome has a
// heartbeat interval. Unknown fields are ignored; an unknown body is an error.
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

}  // namespace espalier::wire
