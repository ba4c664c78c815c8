#include "common/fabric/ecmp/linear_map.h"

#include <bit>
#include <map>

#include "common/base/check.h"

namespace espalier::fabric {
namespace {

constexpr int kEvidenceBits = 32;

// The 14 free bits of a RoCEv2 source port.
std::uint16_t FreeBits(std::uint16_t port) {
  ESPALIER_CHECK(port >= kFirstRocePort, "port={}", port);
  return static_cast<std::uint16_t>(port - kFirstRocePort);
}

}  // namespace

bool LinearPortMap::Subspace::Add(std::uint16_t vector) {
  vector = Reduce(vector);
  if (vector == 0) return false;
  const int pivot = std::bit_width(vector) - 1;
  for (std::uint16_t& row : rows_) {
    if ((row >> pivot & 1) != 0) row = static_cast<std::uint16_t>(row ^ vector);
  }
  rows_[static_cast<std::size_t>(pivot)] = vector;
  ++dimension_;
  return true;
}

std::uint16_t LinearPortMap::Subspace::Reduce(std::uint16_t vector) const {
  for (int bit = kPortBits - 1; bit >= 0; --bit) {
    if ((vector >> bit & 1) == 0) continue;
    vector = static_cast<std::uint16_t>(vector ^ rows_[static_cast<std::size_t>(bit)]);
  }
  return vector;
}

std::uint16_t LinearPortMap::Subspace::CosetOf(std::uint16_t vector) const {
  const std::uint16_t reduced = Reduce(vector);
  unsigned coset = 0;
  int next = 0;
  for (int bit = 0; bit < kPortBits; ++bit) {
    if (rows_[static_cast<std::size_t>(bit)] != 0) continue;
    coset |= (reduced >> bit & 1U) << next++;
  }
  return static_cast<std::uint16_t>(coset);
}

std::uint16_t LinearPortMap::Subspace::Representative(std::uint16_t coset) const {
  unsigned vector = 0;
  int next = 0;
  for (int bit = 0; bit < kPortBits; ++bit) {
    if (rows_[static_cast<std::size_t>(bit)] != 0) continue;
    vector |= (coset >> next++ & 1U) << bit;
  }
  return static_cast<std::uint16_t>(vector);
}

LinearPortMap::Recognition LinearPortMap::Recognise(std::span<const PortSample> samples,
                                                    std::size_t path_count) {
  ESPALIER_CHECK(path_count >= 2, "path_count={}", path_count);
  LinearPortMap map;
  std::map<PathIndex, std::uint16_t> first_port;  // by path, as free bits
  int redundant = 0;                              // samples that agree without extending K
  std::vector<bool> seen(kRocePortCount);
  for (const PortSample& sample : samples) {
    const std::uint16_t port = FreeBits(sample.port);
    const auto [first, is_new_path] = first_port.try_emplace(sample.path, port);
    const auto difference = static_cast<std::uint16_t>(port ^ first->second);
    if (!map.kernel_.Add(difference) && !is_new_path && !seen[port]) ++redundant;
    seen[port] = true;
  }

  const int free_bits = kPortBits - map.kernel_.Dimension();
  std::map<std::uint16_t, PathIndex> labels;  // by coset
  for (const auto& [path, port] : first_port) {
    if (!labels.try_emplace(map.kernel_.CosetOf(port), path).second) {
      return {Verdict::kNotLinear, std::nullopt};
    }
  }
  // By chance, a difference falls into K with probability 2^-free_bits. If all samples took one
  // path, chance repeats that path with probability 1 / path_count.
  const int bits_a_sample =
      free_bits > 0 ? free_bits : static_cast<int>(std::bit_width(path_count)) - 1;
  const bool is_sure = redundant * bits_a_sample >= kEvidenceBits;
  const std::size_t cosets = std::size_t{1} << free_bits;
  if (!is_sure || cosets > path_count) return {Verdict::kUndecided, std::nullopt};
  map.path_of_coset_.resize(cosets);
  for (const auto& [coset, path] : labels) map.path_of_coset_[coset] = path;
  return {Verdict::kLinear, std::move(map)};
}

std::optional<PathIndex> LinearPortMap::Predict(std::uint16_t port) const {
  return path_of_coset_[kernel_.CosetOf(FreeBits(port)) ^ offset_];
}

std::vector<std::uint16_t> LinearPortMap::PortsToProbe() const {
  std::vector<std::uint16_t> ports;
  for (std::size_t coset = 0; coset < path_of_coset_.size(); ++coset) {
    if (path_of_coset_[coset]) continue;
    const auto number = static_cast<std::uint16_t>(coset ^ offset_);
    ports.push_back(static_cast<std::uint16_t>(kFirstRocePort + kernel_.Representative(number)));
  }
  return ports;
}

std::optional<LinearPortMap> LinearPortMap::ForKeyOf(PortSample probe) const {
  for (std::size_t coset = 0; coset < path_of_coset_.size(); ++coset) {
    if (path_of_coset_[coset] != probe.path) continue;
    LinearPortMap other = *this;
    other.offset_ = static_cast<std::uint16_t>(coset ^ kernel_.CosetOf(FreeBits(probe.port)));
    return other;
  }
  return std::nullopt;
}

}  // namespace espalier::fabric
