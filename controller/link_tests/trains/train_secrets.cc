#include "controller/link_tests/trains/train_secrets.h"

#include <array>
#include <cstring>

#include "common/base/random.h"
#include "common/base/users/job_key.h"
#include "common/fabric/ecmp/hash_functions.h"

namespace espalier::controller {
namespace {

std::uint64_t Hash(std::uint64_t key0, std::uint64_t key1, std::uint64_t purpose,
                   std::uint64_t count) {
  std::array<std::uint8_t, 16> bytes{};
  for (std::size_t i = 0; i < 8; ++i) {
    bytes[i] = static_cast<std::uint8_t>(purpose >> 8 * i);
    bytes[8 + i] = static_cast<std::uint8_t>(count >> 8 * i);
  }
  return fabric::SipHash24(key0, key1, bytes);
}

}  // namespace

TrainSecrets::TrainSecrets(std::optional<std::uint64_t> seed) {
  if (seed) {
    key0_ = Mix64(*seed + 1);
    key1_ = Mix64(*seed + 2);
    return;
  }
  const Nonce nonce = DrawNonce();
  std::memcpy(&key0_, nonce.data(), sizeof(key0_));
  std::memcpy(&key1_, nonce.data() + sizeof(key0_), sizeof(key1_));
}

std::uint64_t TrainSecrets::NextNumber() { return Hash(key0_, key1_, 0, ++count_); }

std::string TrainSecrets::KeyOf(AgentId sender) const {
  std::string key;
  for (const std::uint64_t half : {1U, 2U}) {
    std::uint64_t bits = Hash(key0_, key1_, half, sender.Index());
    for (int i = 0; i < 8; ++i, bits >>= 8U) key.push_back(static_cast<char>(bits & 0xFFU));
  }
  return key;
}

}  // namespace espalier::controller
