#include "agent/host/device_counters.h"

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <utility>

namespace espalier::agent {
namespace {

namespace fs = std::filesystem;

// Packets that peers missed, as the sender learns: negative acknowledgements (mlx5, then rxe) and
// acknowledgements that did not come in time.
constexpr std::array kSequenceCounters = {"packet_seq_err", "rcvd_seq_err",
                                          "local_ack_timeout_err"};
// Acknowledgements that did not come in time (mlx5, then rxe, which also counts negative ones).
constexpr std::array kTimeoutCounters = {"local_ack_timeout_err", "completer_retry_err"};
constexpr std::array kRepeatCounters = {"duplicate_request"};

template <typename Names>
std::uint32_t Sum(const fs::path& folder, const Names& names) {
  std::uint64_t sum = 0;
  for (const char* const name : names) {
    std::ifstream file(folder / name);
    std::uint64_t value = 0;
    if (file >> value) sum += value;
  }
  return static_cast<std::uint32_t>(sum);  // modulo 2^32: readers compare successive values
}

}  // namespace

DeviceCounterFiles::DeviceCounterFiles(std::string folder) : folder_(std::move(folder)) {}

std::string DeviceCounterFiles::FindFolder(const std::string& network_device) const {
  std::error_code error;
  for (const auto& device : fs::directory_iterator(folder_, error)) {
    for (const auto& port : fs::directory_iterator(device.path() / "ports", error)) {
      std::string name;
      std::ifstream(port.path() / "gid_attrs" / "ndevs" / "0") >> name;
      if (name == network_device) return (port.path() / "hw_counters").string();
    }
  }
  return "";
}

const std::string& DeviceCounterFiles::FolderOf(const std::string& network_device) {
  const auto [known, is_new] = folders_.try_emplace(network_device);
  if (is_new) known->second = FindFolder(network_device);
  return known->second;
}

DeviceCounters DeviceCounterFiles::Read(const std::string& network_device) {
  const std::string& folder = FolderOf(network_device);
  if (folder.empty()) return {};
  return {.out_of_sequence = Sum(folder, kSequenceCounters),
          .timeouts = Sum(folder, kTimeoutCounters)};
}

std::uint32_t DeviceCounterFiles::ReadRepeats(const std::string& network_device) {
  const std::string& folder = FolderOf(network_device);
  return folder.empty() ? 0 : Sum(folder, kRepeatCounters);
}

}  // namespace espalier::agent
