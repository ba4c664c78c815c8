#include "agent/flows/guard/verdict_basis.h"

#include "common/base/enum_names.h"

namespace espalier::agent {
namespace {

// Between two readings of a device, however many verdicts there are.
constexpr Duration kLeastPause = std::chrono::milliseconds(5);

}  // namespace

std::string_view BasisName(wire::PathBasis basis) {
  static constexpr EnumNames<wire::PathBasis> kNames({
      {wire::PathBasis::kClaimed, "claimed"},
      {wire::PathBasis::kProbed, "probed"},
      {wire::PathBasis::kKernel, "kernel"},
      {wire::PathBasis::kDevice, "device"},
  });
  return kNames.NameOf(basis);
}

void VerdictBasis::Device::Update(TimePoint now, std::uint32_t count) {
  if (GrowthOf(timeouts, count) > 0) {
    grew_after = read_at;
    has_grown = true;
  }
  timeouts = count;
  read_at = now;
}

void VerdictBasis::HandleMeasures(TimePoint now, std::span<const FlowMeasure> flows) {
  if (!readers_.device || now < next_) return;
  next_ = now + kInterval;
  for (auto& [address, device] : devices_) device.is_in_use = false;
  for (const FlowMeasure& flow : flows) {
    const bool is_idle = flow.sample->remaining_bytes == 0 && flow.sample->outstanding_bytes == 0;
    if (is_idle || !IsQueuePair(*flow.sample)) continue;
    const auto known = devices_.find(flow.sample->source);
    if (known != devices_.end()) {
      known->second.is_in_use = true;
    } else if (devices_.size() < kMostDevices) {
      devices_[flow.sample->source] = {.timeouts = readers_.device(flow.sample->source).timeouts,
                                       .read_at = now,
                                       .is_in_use = true};
    }
  }
  std::erase_if(devices_, [](const auto& device) { return !device.second.is_in_use; });
  for (auto& [address, device] : devices_) {
    if (device.read_at != now) device.Update(now, readers_.device(address).timeouts);
  }
}

wire::PathBasis VerdictBasis::Find(TimePoint now, const FlowSample& flow, std::uint16_t port,
                                   Duration without_progress) {
  if (IsSocketStuck(now, flow, port)) return wire::PathBasis::kKernel;
  if (HasDeviceWaited(now, flow, without_progress)) return wire::PathBasis::kDevice;
  return wire::PathBasis::kClaimed;
}

bool VerdictBasis::TakeRead(TimePoint now, std::uint64_t user) {
  if (now - second_ >= std::chrono::seconds(1)) {
    second_ = now;
    reads_ = 0;
    reads_of_.clear();
  }
  std::size_t& of_user = reads_of_[user];
  if (reads_ >= kMostReads || of_user >= kMostReadsOfUser) return false;
  ++reads_;
  ++of_user;
  return true;
}

bool VerdictBasis::IsSocketStuck(TimePoint now, const FlowSample& flow, std::uint16_t port) {
  if (!readers_.sockets || flow.protocol != wire::kProtocolTcp || port == 0) return false;
  if (!TakeRead(now, PayerOf(flow))) return false;
  const TcpConnection connection = ConnectionOf(flow, port);
  const auto sockets = readers_.sockets(std::span(&connection, 1));
  if (sockets.empty() || !sockets.front()) return false;
  const TcpSocket& socket = *sockets.front();
  return IsSocketOf(flow.announced.user, socket) && socket.timeouts > 0 &&
         socket.unacknowledged > 0;
}

bool VerdictBasis::HasDeviceWaited(TimePoint now, const FlowSample& flow,
                                   Duration without_progress) {
  const auto known = devices_.find(flow.source);
  if (known == devices_.end() || !IsQueuePair(flow)) return false;
  Device& device = known->second;
  if (now - device.read_at >= kLeastPause) {
    device.Update(now, readers_.device(flow.source).timeouts);
  }
  return device.has_grown && now - device.grew_after <= without_progress;
}

}  // namespace espalier::agent
