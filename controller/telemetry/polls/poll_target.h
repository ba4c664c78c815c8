#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/base/time/event_loop.h"

namespace espalier::telemetry {

// Where a switch is asked: a URL, or a command on this machine.
struct PollTarget {
  std::string address;            // of a URL, as for io::HttpFetch; "": it is a command
  std::string path;               // of a URL, with its query
  std::vector<std::string> argv;  // of a command

  // For people, without a command's arguments, as these may hold secrets.
  std::string Name() const { return address.empty() ? argv.front() : address + path; }
};

// The words of a text. Single or double quotation marks hold several words together, as in a shell;
// nothing else has a meaning. Errors: kInvalidArgument if one is not closed.
Result<std::vector<std::string>> SplitWords(std::string_view text);

// The target that these words describe: "http://HOST:PORT[/PATH]" (or https; the path is /metrics
// unless given), or the words of a command. Errors: kInvalidArgument.
Result<PollTarget> ParsePollTarget(const std::vector<std::string>& words);

struct FetchOptions {
  Duration timeout{};
  std::string ca_file;  // of https
};
// Asks the switch, and blocks until it has answered. Errors: those of io::HttpFetch and RunWithin;
// kUnavailable for a status other than 200, and for a command that fails. Texts of the switch are
// in the message in printable characters only. Thread safety: any thread.
Result<std::string> FetchFrom(const PollTarget& target, const FetchOptions& options);

}  // namespace espalier::telemetry
