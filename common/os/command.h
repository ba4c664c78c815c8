#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace espalier {

// A place where a program can run instead of its caller's environment, for example other
// namespaces.
class ExecutionContext {
 public:
  virtual ~ExecutionContext() = default;
  // Moves the calling process, which has one thread, into the part of the place that `node` names
  // (nullptr: its main part). Returns 0 or an errno value. Called between fork and exec, so it must
  // be async-signal-safe.
  virtual int Enter(const char* node) const noexcept = 0;
};

// A program to run, in the caller's environment or in another place.
struct Command {
  std::vector<std::string> argv;
  std::vector<std::pair<std::string, std::string>> environment;  // added to the caller's
  const ExecutionContext* place = nullptr;                       // null: the caller's own
  std::string node;  // a part of the place; empty: its main part
};

struct CommandOutput {
  int exit_code = 0;  // 128 + signal if a signal ended it
  std::string out;
  std::string err;
};

// Runs the command to its end, with `input` as its standard input.
// Errors: kNotFound if there is no such program, else the reason why it did not start.
Result<CommandOutput> RunCommand(const Command& command, std::string_view input = "");
// The same, but an exit code other than 0 is an error (kInternal) with the command's output.
Result<std::string> RunOrFail(const Command& command, std::string_view input = "");

// What a program may use that can hang or print without end.
struct CommandLimits {
  std::chrono::milliseconds timeout{};
  std::size_t most_bytes = 0;  // of its standard output, and of its standard error
};
// As RunCommand, within these limits and without input. The program has a process group of its own,
// which is killed at the end, with the programs in it that the command has left behind.
// Errors: those of RunCommand; kUnavailable after the timeout; kResourceExhausted beyond the bytes.
Result<CommandOutput> RunWithin(const CommandLimits& limits, const Command& command);

// A running program with its standard input and output connected to this object, and its standard
// error to the caller's. It is killed when this object is destroyed or the thread that started it
// ends.
class ChildProcess {
 public:
  static Result<ChildProcess> Start(const Command& command);
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  ~ChildProcess();

  pid_t pid() const { return pid_; }            // valid until Wait
  int output() const { return output_.get(); }  // to read from
  // Writes to its standard input. It is not an error if the program is gone: its output ends then.
  Result<void> Write(std::string_view text);
  void Kill();
  // Whether it has ended; Wait returns at once then.
  bool HasEnded() const;
  // Waits for its end and returns the exit code; 128 + signal if a signal ended it.
  int Wait();

 private:
  ChildProcess() = default;

  pid_t pid_ = -1;
  UniqueFd input_;
  UniqueFd output_;
};

// Replaces the calling process by the command. Returns only if that fails. The process must have
// one thread.
Error ExecCommand(const Command& command);

}  // namespace espalier
