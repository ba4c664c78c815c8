#include "agent/host/device_counters.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace espalier::agent {
namespace {

namespace fs = std::filesystem;

class DeviceCountersTest : public testing::Test {
 protected:
  DeviceCountersTest() { fs::remove_all(folder_); }
  ~DeviceCountersTest() override { fs::remove_all(folder_); }
  void Write(const std::string& path, const std::string& text) const {
    fs::create_directories((folder_ / path).parent_path());
    std::ofstream(folder_ / path) << text << "\n";
  }
  const fs::path folder_ = fs::path(testing::TempDir()) / "device_counters_test";
};

TEST_F(DeviceCountersTest, ReadsThoseOfTheNicsDevice) {
  for (const std::string device : {"mlx5_0", "mlx5_1"}) {
    const std::string port = device + "/ports/1/";
    Write(port + "gid_attrs/ndevs/0", device == "mlx5_0" ? "eth0" : "eth1");
    Write(port + "hw_counters/packet_seq_err", device == "mlx5_0" ? "7" : "100");
    Write(port + "hw_counters/local_ack_timeout_err", "2");
  }
  DeviceCounterFiles files(folder_.string());
  EXPECT_EQ(files.Read("eth0").out_of_sequence, 9U);
  EXPECT_EQ(files.Read("eth0").timeouts, 2U);
  EXPECT_EQ(files.Read("eth1").out_of_sequence, 102U);
  EXPECT_EQ(files.Read("eth2").out_of_sequence, 0U);
  EXPECT_EQ(files.ReadRepeats("eth0"), 0U);
  Write("mlx5_0/ports/1/hw_counters/duplicate_request", "3");
  EXPECT_EQ(files.ReadRepeats("eth0"), 3U);
  EXPECT_EQ(files.ReadRepeats("eth1"), 0U);
  Write("mlx5_0/ports/1/hw_counters/packet_seq_err", "8");
  EXPECT_EQ(files.Read("eth0").out_of_sequence, 10U);
}

TEST_F(DeviceCountersTest, CountsNothingWithoutADevice) {
  EXPECT_EQ(DeviceCounterFiles(folder_.string()).Read("eth0").out_of_sequence, 0U);
  Write("rxe0/ports/1/gid_attrs/ndevs/0", "eth0");
  Write("rxe0/ports/1/hw_counters/rcvd_seq_err", "no number");
  EXPECT_EQ(DeviceCounterFiles(folder_.string()).Read("eth0").out_of_sequence, 0U);
  Write("rxe0/ports/1/hw_counters/completer_retry_err", "4");
  EXPECT_EQ(DeviceCounterFiles(folder_.string()).Read("eth0").timeouts, 4U);
}

}  // namespace
}  // namespace espalier::agent
