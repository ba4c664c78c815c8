#include "common/fabric/ecmp/train_token.h"

#include <array>
#include <cstring>

#include "common/base/check.h"
#include "common/fabric/ecmp/hash_functions.h"

namespace espalier::fabric {
namespace {

std::uint64_t ReadLittleEndian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 8; i > 0; --i) {
    value = value << 8U | static_cast<unsigned char>(bytes[i - 1]);
  }
  return value;
}

}  // namespace

std::uint64_t TrainToken(std::string_view key, std::uint64_t number, std::uint8_t index) {
  ESPALIER_CHECK(key.size() == 16, "the key of a train has {} bytes", key.size());
  std::array<std::uint8_t, 9> bytes{};
  for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<std::uint8_t>(number >> 8 * i);
  bytes[8] = index;
  return SipHash24(ReadLittleEndian(key.substr(0, 8)), ReadLittleEndian(key.substr(8)), bytes);
}

}  // namespace espalier::fabric
