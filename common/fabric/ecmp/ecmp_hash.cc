#include "common/fabric/ecmp/ecmp_hash.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "common/base/check.h"
#include "common/fabric/ecmp/ecmp_linux.h"
#include "common/fabric/ecmp/hash_functions.h"

namespace espalier::fabric {
namespace {

constexpr std::uint64_t kMax32 = std::numeric_limits<std::uint32_t>::max();

// The hashed fields in network order: addresses, ports, protocol and, if the fabric hashes it, the
// 24-bit queue pair number.
class TupleBytes {
 public:
  enum class Fields { kAll, kAddressesAndPorts };

  TupleBytes(const FlowTuple& tuple, Fields fields) {
    const std::size_t skipped = tuple.source.IsV4() && tuple.destination.IsV4() ? 12 : 0;
    for (const IpAddress& address : {tuple.source, tuple.destination}) {
      for (std::size_t i = skipped; i < address.bytes().size(); ++i) Add(address.bytes()[i]);
    }
    for (const unsigned port : {tuple.source_port, tuple.destination_port}) {
      Add(port >> 8);
      Add(port);
    }
    if (fields == Fields::kAddressesAndPorts) return;
    Add(tuple.protocol);
    if (tuple.destination_qpn == 0) return;
    for (const int shift : {16, 8, 0}) Add(tuple.destination_qpn >> shift);
  }

  ByteView View() const { return ByteView(bytes_).first(size_); }

 private:
  void Add(std::uint32_t byte) { bytes_[size_++] = static_cast<std::uint8_t>(byte & 0xff); }

  std::array<std::uint8_t, 40> bytes_{};
  std::size_t size_ = 0;
};

// Hashes the tuple's bytes and takes the remainder by the number of members, which is the low bits
// for a power of two.
template <typename Function>
class ByteHash final : public EcmpHash {
 public:
  ByteHash(Function function, bool is_linear, TupleBytes::Fields fields)
      : function_(function), is_linear_(is_linear), fields_(fields) {}

  std::size_t Choose(const FlowTuple& tuple, std::size_t members) const override {
    ESPALIER_CHECK(members > 0);
    return Value(tuple) % members;
  }
  std::optional<std::uint32_t> LinearValue(const FlowTuple& tuple) const override {
    return is_linear_ ? std::optional(Value(tuple)) : std::nullopt;
  }

 private:
  std::uint32_t Value(const FlowTuple& tuple) const {
    return function_(TupleBytes(tuple, fields_).View());
  }

  Function function_;  // ByteView -> std::uint32_t
  bool is_linear_;
  TupleBytes::Fields fields_;
};

template <typename Function>
std::unique_ptr<EcmpHash> Make(Function function, bool is_linear,
                               TupleBytes::Fields fields = TupleBytes::Fields::kAll) {
  return std::make_unique<ByteHash<Function>>(function, is_linear, fields);
}

std::unique_ptr<EcmpHash> MakeCrc16Ccitt(std::uint64_t seed) {
  const auto initial = static_cast<std::uint16_t>(seed);
  return Make([=](ByteView b) { return std::uint32_t{Crc16Ccitt(initial, b)}; }, true);
}

std::unique_ptr<EcmpHash> MakeCrc16Bisync(std::uint64_t seed) {
  const auto initial = static_cast<std::uint16_t>(seed);
  return Make([=](ByteView b) { return std::uint32_t{Crc16Bisync(initial, b)}; }, true);
}

std::unique_ptr<EcmpHash> MakeCrc32(std::uint64_t seed) {
  const auto initial = static_cast<std::uint32_t>(seed);
  return Make([=](ByteView b) { return Crc32(initial, b); }, true);
}

std::unique_ptr<EcmpHash> MakeCrc32High(std::uint64_t seed) {
  const auto initial = static_cast<std::uint32_t>(seed);
  return Make([=](ByteView b) { return Crc32(initial, b) >> 16; }, true);
}

template <unsigned kBits>
std::unique_ptr<EcmpHash> MakeXor(std::uint64_t seed) {
  const auto constant = static_cast<std::uint32_t>(seed);
  const auto fold = [=](ByteView bytes) {
    std::uint32_t value = XorFold16(bytes);
    for (unsigned width = 8; width >= kBits; width /= 2) value ^= value >> width;
    return (value ^ constant) & ((std::uint32_t{1} << kBits) - 1);
  };
  return Make(fold, true);
}

std::unique_ptr<EcmpHash> MakeJenkins(std::uint64_t seed) {
  const auto initial = static_cast<std::uint32_t>(seed);
  return Make([=](ByteView b) { return JenkinsLookup3(initial, b); }, false);
}

std::unique_ptr<EcmpHash> MakeToeplitz(std::uint64_t seed) {
  const auto constant = static_cast<std::uint32_t>(seed);
  return Make([=](ByteView b) { return Toeplitz(b) ^ constant; }, true,
              TupleBytes::Fields::kAddressesAndPorts);
}

// The Linux bonding driver (bond_main.c, bond_ip_hash): it drops the lowest bit because programs
// prefer even ports. The kernel has no seed, so that 0 is its hash.
std::unique_ptr<EcmpHash> MakeBondLayer34(std::uint64_t seed) {
  const auto constant = static_cast<std::uint32_t>(seed);
  const auto fold = [=](ByteView bytes) {
    std::uint32_t value = XorFold32(bytes);
    value ^= value >> 16;
    value ^= value >> 8;
    return value >> 1 ^ constant;
  };
  return Make(fold, true, TupleBytes::Fields::kAddressesAndPorts);
}

std::unique_ptr<EcmpHash> MakeLinux(std::uint64_t seed) {
  return MakeLinuxEcmpHash(static_cast<std::uint32_t>(seed), LinuxHashFields::kNoProtocol);
}

std::unique_ptr<EcmpHash> MakeLinuxL4(std::uint64_t seed) {
  return MakeLinuxEcmpHash(static_cast<std::uint32_t>(seed), LinuxHashFields::kFiveTuple);
}

struct Model {
  std::string_view name;
  std::uint64_t least_seed;
  std::uint64_t greatest_seed;
  std::unique_ptr<EcmpHash> (*make)(std::uint64_t seed);
};

// Linux with seed 0 draws a random seed at boot, so 0 is not allowed for it.
constexpr std::array kModels = {
    Model{"linux", 1, kMax32, MakeLinux},
    Model{"linux-l4", 1, kMax32, MakeLinuxL4},
    Model{"crc16-ccitt", 0, 0xffff, MakeCrc16Ccitt},
    Model{"crc16-bisync", 0, 0xffff, MakeCrc16Bisync},
    Model{"crc32", 0, kMax32, MakeCrc32},
    Model{"crc32-high", 0, kMax32, MakeCrc32High},
    Model{"xor1", 0, 0x1, MakeXor<1>},
    Model{"xor2", 0, 0x3, MakeXor<2>},
    Model{"xor4", 0, 0xf, MakeXor<4>},
    Model{"xor8", 0, 0xff, MakeXor<8>},
    Model{"xor16", 0, 0xffff, MakeXor<16>},
    Model{"jenkins", 0, kMax32, MakeJenkins},
    Model{"toeplitz", 0, kMax32, MakeToeplitz},
    Model{"bond-layer3+4", 0, kMax32, MakeBondLayer34},
};

constexpr auto kNames = [] {
  std::array<std::string_view, kModels.size()> names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = kModels[i].name;
  return names;
}();

}  // namespace

Result<std::unique_ptr<EcmpHash>> MakeEcmpHash(const EcmpSpec& spec) {
  const auto model = std::find_if(kModels.begin(), kModels.end(),
                                  [&](const Model& known) { return known.name == spec.hash; });
  if (model == kModels.end()) {
    return Fail(ErrorCode::kNotFound, fmt::format("unknown hash \"{}\" (write one of {})",
                                                  spec.hash, fmt::join(kNames, ", ")));
  }
  if (spec.seed < model->least_seed || spec.seed > model->greatest_seed) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("seed {} is out of range for hash \"{}\" (write {} to {})", spec.seed,
                            spec.hash, model->least_seed, model->greatest_seed));
  }
  return model->make(spec.seed);
}

Result<std::unique_ptr<EcmpHash>> MakeHashOf(const Node& node) {
  const EcmpSpec& spec = *node.ecmp;
  auto hash = MakeEcmpHash(spec);
  if (!hash || node.kind == NodeKind::kSwitch || !spec.hash.starts_with("linux")) return hash;
  return MakeLinuxSenderHash(
      static_cast<std::uint32_t>(spec.seed),
      spec.hash == "linux" ? LinuxHashFields::kNoProtocol : LinuxHashFields::kFiveTuple);
}

}  // namespace espalier::fabric
