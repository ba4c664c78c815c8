#include "common/bus/curve.h"

#include <zmq.h>

#include <array>
#include <cerrno>
#include <cstdint>

#include "common/base/check.h"

namespace espalier::io {
namespace {

constexpr std::size_t kKeyText = 40;
constexpr std::size_t kKeyBytes = 32;

}  // namespace

CurveKeys MakeCurveKeys() {
  std::array<char, kKeyText + 1> public_key{};
  std::array<char, kKeyText + 1> secret_key{};
  ESPALIER_CHECK(zmq_curve_keypair(public_key.data(), secret_key.data()) == 0, "errno={}", errno);
  return {public_key.data(), secret_key.data()};
}

bool IsCurveKey(std::string_view text) {
  if (text.size() != kKeyText) return false;
  std::array<std::uint8_t, kKeyBytes> bytes{};
  return zmq_z85_decode(bytes.data(), std::string(text).c_str()) != nullptr;
}

std::string PublicKeyOf(const std::string& secret_key) {
  std::array<char, kKeyText + 1> public_key{};
  const int rc = zmq_curve_public(public_key.data(), secret_key.c_str());
  ESPALIER_CHECK(rc == 0, "errno={}", errno);
  return public_key.data();
}

}  // namespace espalier::io
