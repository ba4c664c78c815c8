#include "common/daemon/privileges.h"

#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <fstream>
#include <string>

namespace espalier::io {
namespace {

// The number in "CapEff: 000001ffffffffff" of this process.
std::uint64_t StatusField(const std::string& name) {
  std::ifstream file("/proc/self/status");
  std::string word;
  while (file >> word) {
    if (word != name + ":") continue;
    file >> word;
    return std::stoull(word, nullptr, 16);
  }
  return ~std::uint64_t{0};
}

// Runs in a separate process, as dropped capabilities are lost.
int GiveUpAndLook() {
  const std::uint64_t had = StatusField("CapPrm");
  const std::array<int, 2> kept{CAP_NET_RAW, CAP_SYS_PTRACE};
  if (!KeepOnlyCapabilities(kept)) return 1;
  const std::uint64_t may = (std::uint64_t{1} << CAP_NET_RAW | std::uint64_t{1} << CAP_SYS_PTRACE);
  if (StatusField("CapPrm") != (had & may) || StatusField("CapEff") != (had & may)) return 2;
  if (StatusField("CapInh") != 0 || StatusField("CapAmb") != 0) return 3;
  const bool could_bound = (had >> CAP_SETPCAP & 1) != 0;
  if (could_bound && (StatusField("CapBnd") & ~may) != 0) return 4;
  if (StatusField("NoNewPrivs") != 1) return 5;
  return KeepOnlyCapabilities({}) && StatusField("CapPrm") == 0 ? 0 : 6;
}

TEST(Privileges, AreGivenUpButForTheNeeded) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(GiveUpAndLook());
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace espalier::io
