#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace espalier::rdma {

// Polls until `done` returns true; fails the test after two minutes, with the ends of all logs.
void Await(const std::string& what, const std::function<bool()>& done);

// A program that runs in the background until the end of the test.
class Process {
 public:
  Process(const std::string& name, const std::string& words);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  bool Lives();
  // Sends SIGSTOP or SIGCONT to it and all processes that it has started. The destructor kills it.
  void Signal(int signal) const;

 private:
  int process_ = -1;  // ended, or never started
};

// The socket of the local API of a host's agent.
std::string SocketOf(int host);

// Runs the controller and an agent for each host.
class Daemons {
 public:
  // Additional lines of the controller's configuration, and of that of each agent. With two NICs a
  // host, h0 is the first leaf's two interfaces, h1 the second leaf's, and each has one GPU, such
  // as "h0/gpu0".
  explicit Daemons(const std::string& controller = "", const std::string& agent = "",
                   int nics_per_host = 1);

  // Returns the output of an operator's command.
  static std::string Operator(const std::string& words);
  // Returns the controller's answer to a GET.
  static std::string Get(const std::string& target);
  // Returns the metrics of a host's agent.
  static std::string MetricsOf(int host);
  void KillController() { processes_.front().reset(); }

 private:
  void Start(const std::string& name, const std::string& program);
  std::vector<std::unique_ptr<Process>> processes_;
};

// Drops RoCE packets silently at one spine, like a switch that has lost its routes: all of them, or
// those that come from one of the leaves.
class DeadSpine {
 public:
  enum class Drops { kAll, kFromFirstLeaf, kFromSecondLeaf };
  explicit DeadSpine(int spine, Drops drops = Drops::kAll);
  ~DeadSpine();
  DeadSpine(const DeadSpine&) = delete;
  DeadSpine& operator=(const DeadSpine&) = delete;

 private:
  std::string rule_;
};

// Makes the leaves send no IPv4 packets to a spine, as if they saw that it is dead.
class LeavesAvoidSpine {
 public:
  explicit LeavesAvoidSpine(int spine);
  ~LeavesAvoidSpine();
  LeavesAvoidSpine(const LeavesAvoidSpine&) = delete;
  LeavesAvoidSpine& operator=(const LeavesAvoidSpine&) = delete;

 private:
  static void UseAllBut(int avoided);
};

}  // namespace espalier::rdma
