#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace espalier::rdma {

// Turns until it is done; a failure of the test after two minutes, with the ends of all logs.
void Await(const std::string& what, const std::function<bool()>& done);

// A program in the background, until the end of the test.
class Process {
 public:
  Process(const std::string& name, const std::string& words);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  bool Lives();
  // To it and all that it has started; SIGSTOP and SIGCONT, as killing it is the destructor's.
  void Signal(int signal) const;

 private:
  int process_ = -1;  // ended, or never begun
};

// The local API of a host's agent.
std::string SocketOf(int host);

// The controller, and an agent for each host.
class Daemons {
 public:
  // Lines of the controller's configuration beside those that every test has.
  explicit Daemons(const std::string& controller = "");

  // What an operator's command prints.
  static std::string Operator(const std::string& words);
  // What the controller answers to a GET.
  static std::string Get(const std::string& target);

 private:
  void Start(const std::string& name, const std::string& program);
  std::vector<std::unique_ptr<Process>> processes_;
};

// RoCE through one spine is lost without a word, as by a switch that has forgotten its routes.
class DeadSpine {
 public:
  explicit DeadSpine(int spine);
  ~DeadSpine();
  DeadSpine(const DeadSpine&) = delete;
  DeadSpine& operator=(const DeadSpine&) = delete;

 private:
  std::string rule_;
};

// The leaves send nothing (IPv4) to a spine, as they do where they see that it is dead.
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
