// Linked into tests that choose their ports: in a network of their own nobody else takes them.
// Where this machine allows none, the tests share its ports with all that runs on it.
#include <gtest/gtest.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cstring>
#include <iostream>

#include "common/base/unique_fd.h"
#include "tests/own_network.h"

namespace espalier {
namespace {

bool BringLoopbackUp() {
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  return ::ioctl(socket.get(), SIOCSIFFLAGS, &request) == 0;
}

class OwnPorts : public testing::Environment {
  void SetUp() override {
    const std::string problem = EnterOwnNetwork();
    if (!problem.empty()) {
      std::cout << "On the ports of this machine: " << problem << "\n";
      return;
    }
    ASSERT_TRUE(BringLoopbackUp());
  }
};

const auto* const kOwnPorts = testing::AddGlobalTestEnvironment(new OwnPorts);

}  // namespace
}  // namespace espalier
