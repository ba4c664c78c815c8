// espalier-dpdk replays a capture: DPDK's pcap ports read frames from a pipe that the test fills
// and write what leaves to a file. Every frame that comes out is compared with what went in.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <random>

#include "agent/local/local_server.h"
#include "tests/agent/dpdk/datapath_process.h"
#include "tests/agent/dpdk/roce_frames.h"
#include "tests/agent/manual_loop.h"
#include "tests/temporary_folder.h"

namespace espalier::dpdk {
namespace {

constexpr std::size_t kBurst = 64;  // that the datapath waits for where frames come from a pipe
constexpr std::size_t kPcapHeader = 24;

// The header of a capture file with microseconds and Ethernet, in this machine's byte order.
Bytes PcapHeader() {
  const std::uint32_t words[6] = {0xA1B2C3D4, 0x0004'0002, 0, 0, 65'535, 1};
  Bytes bytes(sizeof(words));
  std::memcpy(bytes.data(), words, sizeof(words));
  return bytes;
}
void AppendRecord(Bytes& to, const Bytes& frame) {
  const auto size = static_cast<std::uint32_t>(frame.size());
  const std::uint32_t words[4] = {0, 0, size, size};
  Bytes header(sizeof(words));
  std::memcpy(header.data(), words, sizeof(words));
  to.insert(to.end(), header.begin(), header.end());
  to.insert(to.end(), frame.begin(), frame.end());
}
std::vector<Bytes> ReadFrames(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const Bytes bytes((std::istreambuf_iterator<char>(file)), {});
  std::vector<Bytes> frames;
  for (std::size_t at = kPcapHeader; at + 16 <= bytes.size();) {
    std::uint32_t size = 0;
    std::memcpy(&size, &bytes[at + 8], sizeof(size));
    at += 16;
    if (at + size > bytes.size()) break;
    frames.emplace_back(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                        bytes.begin() + static_cast<std::ptrdiff_t>(at + size));
    at += size;
  }
  return frames;
}

// A frame, and its flow (one of two; -1: none).
struct Sent {
  BuiltFrame frame;
  int flow = -1;
};

class Replay : public ::testing::Test {
 protected:
  void SetUp() override {
    auto agent =
        agent::LocalServer::Listen(loop_, {.path = folder_.path() + "/agent.sock"}, metrics_);
    ASSERT_TRUE(agent) << agent.error().message;
    agent_ = std::move(*agent);
    const std::string folder = folder_.path();
    ASSERT_EQ(mkfifo((folder + "/in").c_str(), 0600), 0);
    const Bytes nothing = PcapHeader();
    std::ofstream(folder + "/none", std::ios::binary)
        .write(reinterpret_cast<const char*>(nothing.data()),
               static_cast<std::streamsize>(nothing.size()));
    datapath_.Start(folder, "eal: \"--vdev=net_pcap0,rx_pcap=" + folder + "/in,tx_pcap=" + folder +
                                "/back\" eal: \"--vdev=net_pcap1,rx_pcap=" + folder +
                                "/none,tx_pcap=" + folder +
                                "/out\" host_port: \"net_pcap0\" fabric_port: \"net_pcap1\"");
    // Also opened for reading, so that opening does not block.
    in_ = UniqueFd(open((folder + "/in").c_str(), O_RDWR | O_CLOEXEC));
    Write(PcapHeader());
    ASSERT_TRUE(datapath_.ReadUntil("event=ready")) << datapath_.said();
  }

  void Write(const Bytes& bytes) {
    for (std::size_t at = 0; at < bytes.size();) {
      const ssize_t size = write(in_.get(), &bytes[at], bytes.size() - at);
      ASSERT_GT(size, 0);
      at += static_cast<std::size_t>(size);
    }
  }
  void Send(const std::vector<Sent>& frames) {
    ASSERT_EQ(frames.size() % kBurst, 0U);
    Bytes records;
    for (const Sent& sent : frames) AppendRecord(records, sent.frame.bytes);
    Write(records);
    sent_.insert(sent_.end(), frames.begin(), frames.end());
  }

  template <typename Condition>
  bool RunAgentUntil(Condition&& condition) {
    pollfd ready{agent_->fd(), POLLIN, 0};
    for (int round = 0; round < 6000 && !condition(); ++round) {
      if (poll(&ready, 1, 10) > 0) agent_->HandleReady();
      loop_.Advance(std::chrono::milliseconds(10));
    }
    return condition();
  }

  TemporaryFolder folder_;
  agent::ManualLoop loop_;
  Metrics metrics_;
  std::unique_ptr<agent::LocalServer> agent_;
  UniqueFd in_;
  DatapathProcess datapath_;
  std::vector<Sent> sent_;
};

RoceFrame FlowFrame(int flow, std::uint32_t psn) {
  RoceFrame frame{.destination_qpn = 0x20U + static_cast<std::uint32_t>(flow), .psn = psn};
  if (flow == 1) {
    frame.source = "fd00::1";
    frame.destination = "fd00::2";
    frame.udp_checksum = true;
  }
  return frame;
}

// Makes other traffic and broken frames, which must not change.
BuiltFrame Stranger(std::mt19937& random) {
  RoceFrame frame = FlowFrame(static_cast<int>(random() % 2), static_cast<std::uint32_t>(random()));
  const auto kind = random() % 6;
  if (kind == 0) frame.destination_port = 4792;
  if (kind == 1) frame.destination_qpn = 0x77;
  BuiltFrame built = Build(frame);
  if (kind == 2) Put16(built.bytes, 12, 0x0806);                                // ARP
  if (kind == 3) built.bytes[built.ip + (frame.source[0] == 'f' ? 6 : 9)] = 6;  // TCP
  if (kind == 4) built.bytes[built.udp + 9] |= 1;                               // another version
  if (kind == 5) built.bytes.resize(built.end - 9);                             // truncated
  return built;
}

TEST_F(Replay, ChangesThePortsOfItsFlowsAndNothingElse) {
  std::mt19937 random(7);
  std::vector<Sent> first;
  for (int flow = 0; flow < 2; ++flow) {
    RoceFrame frame = FlowFrame(flow, 0);
    frame.opcode = 0x06;
    frame.payload = Reth(1 << 20, 512);
    first.push_back({Build(frame)});
  }
  while (first.size() < kBurst) first.push_back({Stranger(random)});
  Send(first);
  ASSERT_TRUE(RunAgentUntil([this] { return agent_->Flows().size() == 2; })) << datapath_.said();
  const std::uint16_t ports[2] = {61'001, 61'002};
  for (const agent::FlowSample& sample : agent_->Flows()) {
    ASSERT_TRUE(agent_->Apply(
        {.flow = sample.id, .paths = {{.source_port = ports[sample.remote_qpn - 0x20]}}}));
  }
  ASSERT_TRUE(RunAgentUntil([this] {
    const std::span<const agent::FlowSample> samples = agent_->Flows();
    return std::all_of(samples.begin(), samples.end(),
                       [](const auto& sample) { return sample.source_port > 61'000; });
  }));
  std::vector<Sent> more;
  std::uint32_t psn[2] = {1, 1};
  std::map<std::uint32_t, std::uint64_t> bytes;  // by queue pair
  while (more.size() < 40 * kBurst) {
    const bool is_last = more.size() + 1 == 40 * kBurst;
    const int flow = is_last ? 0 : static_cast<int>(random() % 3) - 1;
    if (flow < 0) {
      more.push_back({Stranger(random)});
      continue;
    }
    RoceFrame frame = FlowFrame(flow, psn[flow]++);
    if (random() % 4 == 0) frame.payload.resize(4 * (random() % 360), 9);
    if (random() % 8 == 0) frame.vlan_types = {0x8100};
    bytes[frame.destination_qpn] += frame.payload.size();
    more.push_back({Build(frame), flow});
  }
  Send(more);
  in_ = UniqueFd();  // the end of the capture
  // The output file is complete when the datapath has ended, which may be after it has seen
  // everything.
  EXPECT_TRUE(RunAgentUntil([&] {
    const std::span<const agent::FlowSample> samples = agent_->Flows();
    return std::all_of(samples.begin(), samples.end(), [&](const auto& sample) {
      return sample.sent_bytes == bytes[sample.remote_qpn];
    });
  }));
  EXPECT_EQ(datapath_.Stop(), 0);
  const std::vector<Bytes> came = ReadFrames(folder_.path() + "/out");
  ASSERT_EQ(came.size(), sent_.size());
  for (std::size_t i = 0; i < came.size(); ++i) {
    BuiltFrame expected = sent_[i].frame;
    if (sent_[i].flow >= 0) {
      Put16(expected.bytes, expected.udp, ports[sent_[i].flow]);
      const std::uint32_t icrc = ReferenceIcrc(expected);
      std::memcpy(&expected.bytes[expected.end - 4], &icrc, sizeof(icrc));
      if (Get16(expected.bytes, expected.udp + 6) != 0) {
        Put16(expected.bytes, expected.udp + 6, ReferenceUdpChecksum(expected));
      }
    }
    ASSERT_EQ(came[i], expected.bytes) << i;
  }
}

}  // namespace
}  // namespace espalier::dpdk
