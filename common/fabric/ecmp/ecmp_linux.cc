#include "common/fabric/ecmp/ecmp_linux.h"

#include <algorithm>
#include <array>

#include "common/base/check.h"
#include "common/fabric/ecmp/hash_functions.h"

namespace espalier::fabric {
namespace {

// Offsets in struct flow_keys (include/net/flow_dissector.h), counted from `basic`, where the hash
// begins. Fields that 0x33 and 0x37 do not select stay zero. The length includes the struct's
// padding to a multiple of eight.
constexpr std::size_t kProtocolAt = 2;
constexpr std::size_t kPortsAt = 28;
constexpr std::size_t kAddressesAt = 36;
constexpr std::size_t kLengthV4 = 48;
constexpr std::size_t kLengthV6 = 72;

using Keys = std::array<std::uint8_t, kLengthV6>;

// The kernel orders the two addresses and the two ports, so that both directions of a flow hash
// equally. It compares them as little-endian numbers, and IPv6 addresses as bytes.
bool NumberLess(ByteView x, ByteView y) {
  return std::lexicographical_compare(x.rbegin(), x.rend(), y.rbegin(), y.rend());
}

void PutOrdered(Keys& keys, std::size_t at, ByteView source, ByteView destination, bool swapped) {
  if (swapped) std::swap(source, destination);
  const auto next =
      std::copy(source.begin(), source.end(), keys.begin() + static_cast<std::ptrdiff_t>(at));
  std::copy(destination.begin(), destination.end(), next);
}

class LinuxEcmpHash final : public EcmpHash {
 public:
  LinuxEcmpHash(std::uint32_t seed, LinuxHashFields fields, bool is_forwarded)
      : key_(std::uint64_t{seed} << 32 | seed), fields_(fields), is_forwarded_(is_forwarded) {}

  std::size_t Choose(const FlowTuple& tuple, std::size_t members) const override {
    ESPALIER_CHECK(members > 0);
    const std::uint64_t hash = Hash31(tuple);
    // Next hop i takes the hashes up to round((i + 1) * 2^31 / members) - 1.
    for (std::size_t i = 0; i + 1 < members; ++i) {
      const std::uint64_t end = ((std::uint64_t{i + 1} << 31) + members / 2) / members;
      if (hash < end) return i;
    }
    return members - 1;
  }

  std::optional<std::uint32_t> LinearValue(const FlowTuple& /*tuple*/) const override {
    return std::nullopt;
  }

 private:
  std::uint32_t Hash31(const FlowTuple& tuple) const {
    Keys keys{};
    if (fields_ == LinuxHashFields::kFiveTuple) keys[kProtocolAt] = tuple.protocol;
    const auto big_endian = [](unsigned port) {
      return std::array{static_cast<std::uint8_t>(port >> 8), static_cast<std::uint8_t>(port)};
    };
    const auto source_port = big_endian(tuple.source_port);
    const auto destination_port = big_endian(tuple.destination_port);
    PutOrdered(keys, kPortsAt, source_port, destination_port,
               NumberLess(destination_port, source_port));

    const bool is_v4 = tuple.source.IsV4() && tuple.destination.IsV4();
    ByteView source = tuple.source.bytes();
    ByteView destination = tuple.destination.bytes();
    if (is_v4) {
      source = source.last(4);
      destination = destination.last(4);
    }
    const bool swapped = is_v4
                             ? NumberLess(destination, source)
                             : std::lexicographical_compare(destination.begin(), destination.end(),
                                                            source.begin(), source.end());
    PutOrdered(keys, kAddressesAt, source, destination, swapped);

    const ByteView hashed = ByteView(keys).first(is_v4 ? kLengthV4 : kLengthV6);
    auto outer = static_cast<std::uint32_t>(SipHash24(key_, key_, hashed));
    if (outer == 0) outer = 1;  // the kernel reserves 0 for "no hash"
    if (!is_forwarded_) return outer >> 1;
    constexpr std::uint32_t kNoInnerHeader = 0;
    return JenkinsTwoWords(outer, kNoInnerHeader, 0) >> 1;
  }

  std::uint64_t key_;
  LinuxHashFields fields_;
  bool is_forwarded_;
};

}  // namespace

std::unique_ptr<EcmpHash> MakeLinuxEcmpHash(std::uint32_t seed, LinuxHashFields fields) {
  return std::make_unique<LinuxEcmpHash>(seed, fields, /*is_forwarded=*/true);
}

std::unique_ptr<EcmpHash> MakeLinuxSenderHash(std::uint32_t seed, LinuxHashFields fields) {
  return std::make_unique<LinuxEcmpHash>(seed, fields, /*is_forwarded=*/false);
}

}  // namespace espalier::fabric
