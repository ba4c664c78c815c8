#include "common/verbs/path_control.h"

#include <fmt/format.h>
#include <infiniband/mlx5dv.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <set>
#include <thread>

#include "common/verbs/rate_limit.h"
#include "common/verbs/source_port.h"
#include "common/verbs/verbs.h"

namespace espalier::verbs {
namespace {

// The Linux drivers that derive the source port from the flow label.
constexpr std::array<std::string_view, 8> kLabelDrivers = {
    "mlx5_core", "rdma_rxe", "irdma", "hns3", "hns_roce", "mana", "ionic", "erdma"};
constexpr std::uint16_t kTrialPort = 0xC123;

std::string DriverOf(const std::string& device) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path("/sys/class/infiniband") / device;
  std::error_code error;
  const fs::path driver = fs::read_symlink(folder / "device/driver", error);
  if (!error) return driver.filename().string();
  // A software device has a network interface as parent; the only one that speaks RoCE is rxe.
  return fs::exists(folder / "parent", error) ? "rdma_rxe" : "";
}

ibv_qp_state StateOf(ibv_qp& pair) {
  ibv_qp_attr attributes = {};
  ibv_qp_init_attr unused = {};
  return ibv_query_qp(&pair, &attributes, IBV_QP_STATE, &unused) == 0 ? attributes.qp_state
                                                                      : IBV_QPS_UNKNOWN;
}

int StartDrain(ibv_qp& pair) {
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_SQD;
  return ibv_modify_qp(&pair, &attributes, IBV_QP_STATE);
}

// Tries to change the port by draining; an idle queue pair drains at once. Returns an errno value.
int TryDrain(ibv_qp& pair) {
  if (const int error = StartDrain(pair); error != 0) return error;
  LivePortChange change(pair, PortChangeMethod::kDrain, kTrialPort);
  for (int i = 0; i < 1000; ++i) {
    const auto done = change.Continue();
    if (!done) return EIO;
    if (*done) return 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return ETIMEDOUT;
}

}  // namespace

PathControl JudgePathControl(const PathTrial& trial) {
  const auto unsupported = [](std::string why) {
    return PathControl{
        .at_connect = false, .live = PortChangeMethod::kNone, .why_not = std::move(why)};
  };
  if (!trial.is_infiniband) return unsupported("it is iWARP, which runs over TCP");
  if (trial.connect_error != 0) {
    return unsupported(ErrorOf("cannot connect a queue pair", trial.connect_error).message);
  }
  // The trial cannot show it, as a driver that ignores the flow label accepts it, too.
  if (std::find(kLabelDrivers.begin(), kLabelDrivers.end(), trial.driver) == kLabelDrivers.end()) {
    return unsupported(
        fmt::format("driver {} is not known to derive the source port from the flow label",
                    trial.driver.empty() ? "(unknown)" : trial.driver));
  }
  const PortChangeMethod live = trial.set_udp_port_error == 0 ? PortChangeMethod::kSetUdpPort
                                : trial.drain_error == 0      ? PortChangeMethod::kDrain
                                                              : PortChangeMethod::kNone;
  return {.at_connect = true, .live = live, .why_not = ""};
}

Result<PathControl> TryPathControl(const RoceAddress& address) {
  auto context = OpenDevice(address.device);
  if (!context) return Propagate(context);
  PathTrial trial = {.is_infiniband = (*context)->device->transport_type == IBV_TRANSPORT_IB,
                     .driver = DriverOf(address.device)};
  if (!trial.is_infiniband) return JudgePathControl(trial);
  auto domain = MakeProtectionDomain(**context);
  if (!domain) return Propagate(domain);
  auto queue = MakeCompletionQueue(**context, 2, nullptr);
  if (!queue) return Propagate(queue);
  auto pair = MakeQueuePair(**domain, **queue, {.sends = 1, .receives = 1}, address.port);
  if (!pair) return Propagate(pair);
  const auto connected = Connect(**pair, address, {address.address, (*pair)->qp_num, 0}, 0,
                                 *FlowLabelFor(kTrialPort), 256, {});
  if (!connected) {
    trial.connect_error = EIO;
    return JudgePathControl(trial);
  }
  trial.set_udp_port_error = mlx5dv_modify_qp_udp_sport(pair->get(), kTrialPort);
  if (trial.set_udp_port_error != 0) trial.drain_error = TryDrain(**pair);
  PathControl control = JudgePathControl(trial);
  control.highest_paced_bps = HighestPacedRate(**context, IBV_QPT_RC);
  return control;
}

std::vector<std::pair<std::string, PathControl>> ListDevicesWithoutPathControl() {
  std::set<std::string> known;
  for (const RoceAddress& address : ListRoceAddresses()) known.insert(address.device);
  std::vector<std::pair<std::string, PathControl>> without;
  int count = 0;
  ibv_device** const devices = ibv_get_device_list(&count);
  for (int i = 0; i < count; ++i) {
    const std::string name = ibv_get_device_name(devices[i]);
    if (known.contains(name)) continue;
    const bool is_iwarp = devices[i]->transport_type == IBV_TRANSPORT_IWARP;
    without.emplace_back(name, is_iwarp ? JudgePathControl({.is_infiniband = false})
                                        : PathControl{.why_not = "it has no address for RoCEv2"});
  }
  if (devices != nullptr) ibv_free_device_list(devices);
  std::sort(without.begin(), without.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  return without;
}

std::string DescribeRateControl(const PathControl& control) {
  if (control.highest_paced_bps == 0) {
    return "not limited: the device reports no packet pacing of reliable queue pairs";
  }
  return fmt::format("limited by the device, up to {} bit/s", control.highest_paced_bps);
}

std::string DescribePathControl(const PathControl& control) {
  if (!control.at_connect) return "path control unsupported: " + control.why_not;
  switch (control.live) {
    case PortChangeMethod::kSetUdpPort:
      return "flow label, live at once";
    case PortChangeMethod::kDrain:
      return "flow label, live by draining";
    case PortChangeMethod::kNone:
      return "flow label, live by other queue pairs";
  }
  return "";
}

std::string DescribeControl(const PathControl& control) {
  return fmt::format("paths=\"{}\" rates=\"{}\"", DescribePathControl(control),
                     DescribeRateControl(control));
}

Result<void> LivePortChange::Start() {
  if (method_ == PortChangeMethod::kNone) {
    return Fail(ErrorCode::kUnsupported, "this device cannot change the port of a queue pair");
  }
  if (const auto label = FlowLabelFor(port_); !label) return tl::unexpected(label.error());
  const int error = method_ == PortChangeMethod::kSetUdpPort
                        ? mlx5dv_modify_qp_udp_sport(&pair_, port_)
                        : StartDrain(pair_);
  if (error == 0) return {};
  if (StateOf(pair_) == IBV_QPS_ERR) {
    return Fail(ErrorCode::kUnavailable, "the queue pair has failed");
  }
  return Fail(ErrorCode::kUnsupported,
              ErrorOf("cannot change the port of a queue pair", error).message);
}

Result<bool> LivePortChange::Continue() {
  if (method_ != PortChangeMethod::kDrain) return true;
  return EndDrain();
}

Result<bool> LivePortChange::EndDrain() {
  ibv_qp_attr attributes = {};
  ibv_qp_init_attr unused = {};
  const int queried = ibv_query_qp(&pair_, &attributes, IBV_QP_STATE | IBV_QP_AV, &unused);
  if (queried != 0) return tl::unexpected(ErrorOf("cannot query a queue pair", queried));
  if (attributes.qp_state != IBV_QPS_SQD) {
    return Fail(ErrorCode::kUnavailable, "the queue pair has failed");
  }
  if (attributes.sq_draining != 0) return false;
  ibv_qp_attr changed = {};
  changed.qp_state = IBV_QPS_SQD;
  changed.ah_attr = attributes.ah_attr;
  changed.ah_attr.grh.flow_label = *FlowLabelFor(port_);
  int error = ibv_modify_qp(&pair_, &changed, IBV_QP_STATE | IBV_QP_AV);
  ibv_qp_attr sending = {};
  sending.qp_state = IBV_QPS_RTS;
  const int resumed = ibv_modify_qp(&pair_, &sending, IBV_QP_STATE);
  if (error == 0) error = resumed;
  if (error == 0) return true;
  return Fail(ErrorCode::kUnsupported,
              ErrorOf("cannot change the port of a queue pair", error).message);
}

}  // namespace espalier::verbs
