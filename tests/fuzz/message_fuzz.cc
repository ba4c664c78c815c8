#include <cstddef>
#include <cstdint>

#include "common/base/check.h"
#include "proto/decode.h"
#include "proto/encode.h"

// Arbitrary bytes from a peer give an error, or a valid message, which is the same after encoding
// and decoding it again.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using espalier::wire::Decoder;
  using espalier::wire::Message;
  static Decoder first;
  static Decoder second;
  const auto message = first.Decode({reinterpret_cast<const char*>(data), size});
  if (!message.has_value()) {
    ESPALIER_CHECK(!message.error().message.empty());
    return 0;
  }
  const auto again = second.Decode(espalier::wire::Encode(**message));
  ESPALIER_CHECK(again.has_value(), "{}", again.error().message);
  ESPALIER_CHECK(**again == **message);
  return 0;
}
