#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace espalier {

// Where a program can run instead of in its caller's surroundings: other namespaces, for instance.
class ExecutionContext {
 public:
  virtual ~ExecutionContext() = default;
  // Moves the calling process, which has one thread, into the part of the place that `node` names
  // (nullptr: into the place's own). Returns 0 or an errno value. Called between fork and exec:
  // async-signal-safe.
  virtual int Enter(const char* node) const noexcept = 0;
};

// A program to run, in the caller's surroundings or in another place.
struct Command {
  std::vector<std::string> argv;
  std::vector<std::pair<std::string, std::string>> environment;  // added to the caller's
  const ExecutionContext* place = nullptr;                       // none: where the caller is
  std::string node;  // a part of the place; empty: the place's own
};

struct CommandOutput {
  int exit_code = 0;  // 128 + signal where one ended it
  std::string out;
  std::string err;
};

// Runs to the end, with `input` as its standard input.
// Errors: kNotFound if there is no such program, else what stood in the way of starting it.
Result<CommandOutput> RunCommand(const Command& command, std::string_view input = "");
// The same; an exit code other than 0 is an error (kInternal) with what it wrote.
Result<std::string> RunOrFail(const Command& command, std::string_view input = "");

// A running program whose standard input and output lead here; its errors go to the caller's.
// Killed when this is destroyed, or when the thread that started it ends.
class ChildProcess {
 public:
  static Result<ChildProcess> Start(const Command& command);
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  ~ChildProcess();

  pid_t pid() const { return pid_; }            // until it was waited for
  int output() const { return output_.get(); }  // to read from
  // To its standard input. A program that is gone is no error here: its output ends.
  Result<void> Write(std::string_view text);
  void Kill();
  // Waits for its end; the exit code, 128 + signal where one ended it.
  int Wait();

 private:
  ChildProcess() = default;

  pid_t pid_ = -1;
  UniqueFd input_;
  UniqueFd output_;
};

// Becomes the command. Returns only if that fails. The process must have one thread.
Error ExecCommand(const Command& command);

}  // namespace espalier
