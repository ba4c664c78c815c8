// Messages of any size from several clients on the agent's socket of rank plans.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>

#include "agent/local/rank_plan_server.h"
#include "common/base/check.h"
#include "common/base/unique_fd.h"
#include "tests/agent/manual_loop.h"
#include "tests/fuzz/own_folder.h"

namespace {

using espalier::UniqueFd;

UniqueFd ConnectTo(const std::string& path) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un to = {};
  to.sun_family = AF_UNIX;
  std::memcpy(to.sun_path, path.data(), path.size());
  if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)) != 0) socket.Close();
  return socket;
}

}  // namespace

// Each message is encoded as the number of one of four clients, a size, and bytes.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const espalier::fuzz::OwnFolder folder;
  espalier::Metrics metrics;
  espalier::agent::ManualLoop loop;
  const std::string path = folder.path() + "/plans";
  auto server = espalier::agent::RankPlanServer::Listen(loop, {.path = path}, metrics);
  ESPALIER_CHECK(server.has_value());
  int reports = 0;
  (*server)->OnReport([&](const espalier::wire::CollectiveReport& report) {
    ++reports;
    ESPALIER_CHECK(report.job == "train" && report.rank == 1);
  });
  espalier::wire::RankPlan plan;
  plan.job = "train";
  plan.rank = 1;
  plan.ranks = 2;
  plan.version = 1;
  plan.program = "the program";
  (*server)->SetPlan(plan);
  std::array<UniqueFd, 4> clients;
  int messages = 0;
  for (std::size_t at = 0; at + 3 <= size; ++messages) {
    UniqueFd& client = clients[data[at] % clients.size()];
    const std::size_t bytes =
        std::min(data[at + 1] + std::size_t{256} * data[at + 2], size - at - 3);
    if (!client) client = ConnectTo(path);
    if (client) ::send(client.get(), data + at + 3, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    at += 3 + bytes;
    (*server)->HandleReady();
    (*server)->HandleReady();
    loop.Advance(std::chrono::milliseconds(5));
  }
  ESPALIER_CHECK(reports <= messages, "reports={} messages={}", reports, messages);
  return 0;
}
