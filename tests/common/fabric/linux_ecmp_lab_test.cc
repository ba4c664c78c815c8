// Compares the "linux" hash models with the running kernel, which routes in the test's own network
// namespace. There are two references: the kernel's route look-up (IPv4 only, as that of IPv6 omits
// a step of the hash of forwarded packets), and packets that the kernel forwards.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "common/fabric/ecmp/ecmp_hash.h"
#include "common/fabric/ecmp/path_map.h"
#include "tests/own_network.h"

namespace espalier::fabric {
namespace {

constexpr std::size_t kMaxMembers = 8;
constexpr int kTuplesPerCase = 400;

bool Write(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text << std::flush;
  return file.good();
}

// Runs `ip -batch` on the lines and returns its output; a failure fails the test.
std::string RunIpBatch(const std::string& family, const std::string& lines) {
  std::string path = (std::filesystem::temp_directory_path() / "espalier-ip-XXXXXX").string();
  const int descriptor = ::mkstemp(path.data());
  EXPECT_GE(descriptor, 0);
  ::close(descriptor);
  EXPECT_TRUE(Write(path, lines));
  FILE* pipe = ::popen(fmt::format("ip {} -batch {} 2>&1", family, path).c_str(), "r");
  std::string output;
  std::array<char, 65536> buffer{};
  while (const std::size_t got = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
    output.append(buffer.data(), got);
  }
  EXPECT_EQ(::pclose(pipe), 0) << output;
  std::filesystem::remove(path);
  return output;
}

// The bytes of an Ethernet frame with the tuple's headers and a number as payload.
class Frame {
 public:
  Frame(const FlowTuple& tuple, std::uint32_t number) {
    const bool v4 = tuple.source.IsV4();
    Put({2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2});  // to in0, which has this address
    Put16(v4 ? 0x0800 : 0x86dd);
    const std::size_t transport = (tuple.protocol == 6 ? 20U : 8U) + sizeof number;
    v4 ? PutIpv4(tuple, transport) : PutIpv6(tuple, transport);
    Put16(tuple.source_port);
    Put16(tuple.destination_port);
    if (tuple.protocol == 6) {
      Put({0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x10, 0, 0, 0, 0, 0, 0});
    } else {
      Put16(static_cast<unsigned>(transport));
      Put16(0);  // no checksum
    }
    Put16(number >> 16);
    Put16(number);
  }

  const std::vector<std::uint8_t>& bytes() const { return bytes_; }

 private:
  void Put(std::initializer_list<std::uint8_t> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  void Put16(unsigned value) {
    Put({static_cast<std::uint8_t>(value >> 8), static_cast<std::uint8_t>(value)});
  }
  void PutAddresses(const FlowTuple& tuple, std::size_t skipped) {
    for (const IpAddress& address : {tuple.source, tuple.destination}) {
      for (std::size_t i = skipped; i < 16; ++i) bytes_.push_back(address.bytes()[i]);
    }
  }
  void PutIpv4(const FlowTuple& tuple, std::size_t transport) {
    const std::size_t begin = bytes_.size();
    Put({0x45, 0});
    Put16(static_cast<unsigned>(20 + transport));
    Put({0, 0, 0, 0, 64, tuple.protocol, 0, 0});
    PutAddresses(tuple, 12);
    std::uint32_t sum = 0;
    for (std::size_t i = begin; i < begin + 20; i += 2) {
      sum += static_cast<std::uint32_t>(bytes_[i] << 8 | bytes_[i + 1]);
    }
    while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
    bytes_[begin + 10] = static_cast<std::uint8_t>(~sum >> 8);
    bytes_[begin + 11] = static_cast<std::uint8_t>(~sum);
  }
  void PutIpv6(const FlowTuple& tuple, std::size_t transport) {
    Put({0x60, 0, 0, 0});
    Put16(static_cast<unsigned>(transport));
    Put({tuple.protocol, 64});
    PutAddresses(tuple, 0);
  }

  std::vector<std::uint8_t> bytes_;
};

std::vector<FlowTuple> RandomTuples(bool v6, std::uint32_t random_seed) {
  std::mt19937 random(random_seed);
  std::vector<FlowTuple> tuples;
  for (int i = 0; i < kTuplesPerCase; ++i) {
    FlowTuple tuple;
    const auto host = [&] { return static_cast<std::uint32_t>(random() % 0xfffe + 1); };
    if (v6) {
      tuple.source = *IpAddress::Parse(fmt::format("fd00:a::{:x}:{:x}", host(), host()));
      tuple.destination = *IpAddress::Parse(fmt::format("fd00:b::{:x}:{:x}", host(), host()));
    } else {
      tuple.source = IpAddress::FromV4(0x0a000000 | host());
      tuple.destination = IpAddress::FromV4(0x0a800000 | host());
    }
    if (random() % 2 == 0) std::swap(tuple.source, tuple.destination);
    tuple.protocol = random() % 2 == 0 ? 17 : 6;
    tuple.source_port = static_cast<std::uint16_t>(host());
    if (random() % 4 == 0) tuple.destination_port = static_cast<std::uint16_t>(host());
    tuples.push_back(tuple);
  }
  return tuples;
}

// A router with one link to the sources and kMaxMembers links to next hops. The far ends are in the
// same namespace, where packet sockets read from them.
class LinuxEcmp : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    problem_ = EnterOwnNetwork();
    if (!problem_.empty()) return;
    if (!Write("/proc/sys/net/ipv4/fib_multipath_hash_seed", "1")) {
      problem_ = "net.ipv4.fib_multipath_hash_seed cannot be set (it needs kernel 6.11)";
      return;
    }
    std::string lines = "link set lo up\n";
    for (int i = -1; i < static_cast<int>(kMaxMembers); ++i) {
      const std::string name = i < 0 ? "in0" : fmt::format("s{}", i);
      lines += fmt::format("link add {0} type veth peer name {0}p\n", name);
      if (i < 0) lines += "link set in0 address 02:00:00:00:00:01\n";
      lines += fmt::format("link set {0} up\nlink set {0}p up\n", name);
      lines += fmt::format("addr add 172.16.{}.0/31 dev {}\n", i + 1, name);
      lines += fmt::format("addr add fd00:1:0:{}::1/64 dev {} nodad\n", i + 1, name);
      for (const char* next_hop : {"172.16.{}.1", "fd00:1:0:{}::2"}) {
        lines += fmt::format("neigh add {} lladdr 02:00:00:00:01:00 dev {}\n",
                             fmt::format(fmt::runtime(next_hop), i + 1), name);
      }
    }
    RunIpBatch("", lines);
    problem_ = Configure();
  }

  void SetUp() override {
    if (!problem_.empty()) GTEST_SKIP() << "SKIPPED: " << problem_;
  }

  static std::string Configure() {
    std::vector<std::pair<std::string, std::string>> values = {
        {"ipv4/ip_forward", "1"},
        {"ipv6/conf/all/forwarding", "1"},
        {"ipv4/fib_multipath_hash_policy", "3"},
        {"ipv6/fib_multipath_hash_policy", "3"},
        {"ipv4/conf/all/rp_filter", "0"},
        {"ipv4/conf/in0/rp_filter", "0"},
        {"ipv4/icmp_ratemask", "0"},
    };
    for (const auto& [name, value] : values) {
      if (!Write("/proc/sys/net/" + name, value)) return name + " cannot be set";
    }
    return "";
  }

  // Configures the kernel with the model's fields and seed, and routes both halves of the test's
  // addresses over `members` next hops.
  static void SetKernel(bool v6, const EcmpSpec& spec, int members) {
    const std::string fields = spec.hash == "linux" ? "51" : "55";  // 0x33, 0x37
    EXPECT_TRUE(Write("/proc/sys/net/ipv4/fib_multipath_hash_seed", std::to_string(spec.seed)));
    for (const char* family : {"ipv4", "ipv6"}) {
      EXPECT_TRUE(Write(fmt::format("/proc/sys/net/{}/fib_multipath_hash_fields", family), fields));
    }
    std::string next_hops;
    for (int i = 0; i < members; ++i) {
      next_hops += v6 ? fmt::format(" nexthop via fd00:1:0:{}::2 dev s{}", i + 1, i)
                      : fmt::format(" nexthop via 172.16.{}.1 dev s{}", i + 1, i);
    }
    std::string flush;
    std::string routes;
    for (const char* prefix :
         v6 ? std::array{"fd00:a::/32", "fd00:b::/32"} : std::array{"10.0.0.0/9", "10.128.0.0/9"}) {
      flush += fmt::format("route flush {}\n", prefix);
      routes += fmt::format("route add {}{}\n", prefix, next_hops);
    }
    RunIpBatch(v6 ? "-6" : "-4", flush);
    RunIpBatch(v6 ? "-6" : "-4", routes);
  }

  // The next hop of each tuple by the route look-up.
  static std::vector<std::size_t> LookUp(const std::vector<FlowTuple>& tuples) {
    std::string lines;
    for (const FlowTuple& t : tuples) {
      lines += fmt::format("route get {} from {} iif in0 ipproto {} sport {} dport {}\n",
                           t.destination.ToString(), t.source.ToString(), t.protocol, t.source_port,
                           t.destination_port);
    }
    const std::string output = RunIpBatch("-4", lines);
    std::vector<std::size_t> chosen;
    for (std::size_t at = output.find(" dev s"); at != std::string::npos;
         at = output.find(" dev s", at + 1)) {
      chosen.push_back(static_cast<std::size_t>(output[at + 6] - '0'));
    }
    return chosen;
  }

  // The next hop to which a packet of each tuple was forwarded; kMaxMembers if none arrived.
  static std::vector<std::size_t> Forward(const std::vector<FlowTuple>& tuples) {
    const int socket = ::socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, htons(ETH_P_ALL));
    EXPECT_GE(socket, 0);
    std::map<int, std::size_t> member_of;  // by interface index of the far end
    for (std::size_t i = 0; i < kMaxMembers; ++i) {
      member_of[static_cast<int>(::if_nametoindex(fmt::format("s{}p", i).c_str()))] = i;
    }
    sockaddr_ll entrance{};
    entrance.sll_family = AF_PACKET;
    entrance.sll_ifindex = static_cast<int>(::if_nametoindex("in0p"));
    std::vector<std::size_t> chosen(tuples.size(), kMaxMembers);
    std::size_t missing = tuples.size();
    for (std::size_t i = 0; i < tuples.size(); ++i) {
      const Frame frame(tuples[i], static_cast<std::uint32_t>(i));
      EXPECT_EQ(::sendto(socket, frame.bytes().data(), frame.bytes().size(), 0,
                         reinterpret_cast<const sockaddr*>(&entrance), sizeof entrance),
                static_cast<ssize_t>(frame.bytes().size()));
      missing -= Receive(socket, member_of, chosen);
    }
    pollfd readable{socket, POLLIN, 0};
    while (missing > 0 && ::poll(&readable, 1, 10'000) > 0) {
      missing -= Receive(socket, member_of, chosen);
    }
    ::close(socket);
    return chosen;
  }

  static void ExpectAgreement(const std::vector<FlowTuple>& tuples, const EcmpSpec& spec,
                              int members, const std::vector<std::size_t>& chosen) {
    const auto model = MakeEcmpHash(spec);
    ASSERT_TRUE(model.has_value());
    ASSERT_EQ(chosen.size(), tuples.size());
    int mismatches = 0;
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      const auto expected = (*model)->Choose(tuples[i], static_cast<std::size_t>(members));
      mismatches += chosen[i] != expected ? 1 : 0;
    }
    EXPECT_EQ(mismatches, 0) << spec.hash << " seed " << spec.seed << " members " << members;
  }

  // For both models, several seeds and numbers of next hops.
  template <typename Test>
  static void ForEachCase(Test test) {
    for (const char* hash : {"linux", "linux-l4"}) {
      for (const std::uint32_t seed : {1U, 7U, 0x80000001U, 0xFFFFFFFFU}) {
        for (const int members : {1, 2, 3, 4, 7, 8}) test(EcmpSpec{hash, seed}, members);
      }
    }
  }

 private:
  // Receives the packets at the far ends; returns the number of new packets of this test.
  static std::size_t Receive(int socket, const std::map<int, std::size_t>& member_of,
                             std::vector<std::size_t>& chosen) {
    std::size_t received = 0;
    std::array<std::uint8_t, 2048> buffer{};
    for (;;) {
      sockaddr_ll from{};
      socklen_t length = sizeof from;
      const ssize_t got = ::recvfrom(socket, buffer.data(), buffer.size(), 0,
                                     reinterpret_cast<sockaddr*>(&from), &length);
      if (got < 0) return received;
      const auto member = member_of.find(from.sll_ifindex);
      if (member == member_of.end() || from.sll_pkttype == PACKET_OUTGOING) continue;
      const auto size = static_cast<std::size_t>(got);
      if (size < 4) continue;
      std::size_t number = 0;
      for (std::size_t i = size - 4; i < size; ++i) number = number << 8 | buffer[i];
      if (number >= chosen.size() || chosen[number] != kMaxMembers) continue;
      chosen[number] = member->second;
      ++received;
    }
  }

  static inline std::string problem_;
};

TEST_F(LinuxEcmp, ChoosesAsTheRouteLookUpDoes) {
  ForEachCase([](const EcmpSpec& spec, int members) {
    SetKernel(false, spec, members);
    const auto tuples = RandomTuples(false, 1);
    ExpectAgreement(tuples, spec, members, LookUp(tuples));
  });
}

TEST_F(LinuxEcmp, ChoosesAsForwardedIpv4PacketsDo) {
  ForEachCase([](const EcmpSpec& spec, int members) {
    SetKernel(false, spec, members);
    const auto tuples = RandomTuples(false, 2);
    ExpectAgreement(tuples, spec, members, Forward(tuples));
  });
}

TEST_F(LinuxEcmp, ChoosesAsForwardedIpv6PacketsDo) {
  ForEachCase([](const EcmpSpec& spec, int members) {
    SetKernel(true, spec, members);
    const auto tuples = RandomTuples(true, 3);
    ExpectAgreement(tuples, spec, members, Forward(tuples));
  });
}

// The entries of the path map for one pair of hosts.
TEST_F(LinuxEcmp, KnowsAllPortsOfAPairExactly) {
  const EcmpSpec spec{"linux", 20'251};
  constexpr int kMembers = 8;
  SetKernel(false, spec, kMembers);
  std::vector<FlowTuple> tuples(kRocePortCount);
  for (std::size_t i = 0; i < tuples.size(); ++i) {
    tuples[i].source = *IpAddress::Parse("10.1.2.1");
    tuples[i].destination = *IpAddress::Parse("10.200.0.1");
    tuples[i].source_port = static_cast<std::uint16_t>(kFirstRocePort + i);
  }
  ExpectAgreement(tuples, spec, kMembers, LookUp(tuples));
  ExpectAgreement(tuples, spec, kMembers, Forward(tuples));
}

}  // namespace
}  // namespace espalier::fabric
