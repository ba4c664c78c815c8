#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include "common/base/unique_fd.h"

namespace espalier::dpdk {

// espalier-dpdk as a child of the test, without hugepages, in the caller's network namespace.
class DatapathProcess {
 public:
  // Starts it with common fields, and with `more` devices and fields. `folder` has its file and
  // the agent's socket.
  void Start(const std::string& folder, const std::string& more) {
    const std::string config = folder + "/dpdk.conf";
    std::ofstream(config)
        << R"(eal: "-l" eal: "0,1" eal: "--no-huge" eal: "-m" eal: "256" eal: "--no-pci"
              eal: "--no-shconf" eal: "--no-telemetry" eal: "--log-level=error"
              http: "127.0.0.1:0" idle_sleep_us: 200 agent_socket: ")"
        << folder << "/agent.sock\"\n"
        << more;
    const std::string program =
        std::filesystem::read_symlink("/proc/self/exe").parent_path() / "espalier-dpdk";
    int out[2];
    if (pipe(out) != 0) return;
    child_ = fork();
    if (child_ == 0) {
      dup2(out[1], STDOUT_FILENO);
      dup2(out[1], STDERR_FILENO);
      execl(program.c_str(), program.c_str(), "--config", config.c_str(), nullptr);
      _exit(127);
    }
    close(out[1]);
    output_ = UniqueFd(out[0]);
  }
  ~DatapathProcess() { (void)Stop(); }
  DatapathProcess() = default;
  DatapathProcess(const DatapathProcess&) = delete;
  DatapathProcess& operator=(const DatapathProcess&) = delete;

  // Reads its output until it contains this text; returns false if it has ended before.
  bool ReadUntil(const std::string& text) {
    while (said_.find(text) == std::string::npos) {
      char piece[4096];
      const ssize_t size = read(output_.get(), piece, sizeof(piece));
      if (size <= 0) return false;
      said_.append(piece, static_cast<std::size_t>(size));
    }
    return true;
  }
  const std::string& said() const { return said_; }
  // Returns its whole output after its end.
  const std::string& Rest() {
    (void)ReadUntil(std::string(1, '\0'));
    return said_;
  }

  // Returns its exit code.
  int Wait() {
    int status = 0;
    waitpid(child_, &status, 0);
    child_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  }
  // 0: it has ended.
  int Stop() {
    if (child_ <= 0) return 0;
    kill(child_, SIGTERM);
    return Wait();
  }

 private:
  pid_t child_ = -1;
  UniqueFd output_;
  std::string said_;
};

}  // namespace espalier::dpdk
