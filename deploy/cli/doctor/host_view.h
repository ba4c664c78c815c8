#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/files/json.h"
#include "common/verbs/path_control.h"

namespace espalier::doctor {

// What a trial of an RDMA device has shown.
struct DeviceTrial {
  std::string device;
  std::uint8_t port = 1;
  std::optional<verbs::PathControl> control;  // none: it could not be tried
  std::string error;                          // why it could not
};

// The kernel's clock, as adjtimex reports it.
struct ClockState {
  bool is_synchronised = false;
  double max_error_seconds = 0;
};

// The machine as the checks see it, so that tests can replace it: files below `root`, variables,
// programs, devices, the clock and the agent. Files and answers are not trusted: what is read has a
// limit, and what does not parse is unknown. Thread safety: none.
struct HostView {
  // Stands before /sys, /proc and /etc; empty: the machine itself.
  std::string root;
  bool is_root = false;  // the user
  std::map<std::string, std::string> environment;
  std::string environment_of;  // "process 17"; empty: the doctor's own
  // Whether that process has loaded the library that steers queue pairs; none: unknown.
  std::optional<bool> loads_shim;
  // Returns what the program printed. Errors: kNotFound if it is not installed, else its own.
  std::function<Result<std::string>(const std::vector<std::string>& argv)> run;
  std::function<std::vector<DeviceTrial>()> try_devices;
  std::function<Result<ClockState>()> read_clock;
  // Sends a GET request to the agent of this host and returns the body of its answer.
  std::function<Result<std::string>(const std::string& target)> ask_agent;
  std::string agent_address;
  // Waits between two readings of counters.
  std::function<void()> wait;

  // The text of a small file without blanks at its end. None: it is missing, unreadable or above
  // 64 KiB.
  std::optional<std::string> Read(const std::string& path) const;
  // A number that is the whole text of a file.
  std::optional<std::uint64_t> ReadNumber(const std::string& path) const;
  // The names in a folder, sorted; at most 1,024. Empty if there is no such folder.
  std::vector<std::string> List(const std::string& folder) const;
  bool Exists(const std::string& path) const;
  // The last part of a symbolic link's target; empty: there is none.
  std::string LinkName(const std::string& path) const;
  // A variable of the environment; empty: it is not set.
  std::string Variable(const std::string& name) const;
};

// The machine that this program runs on. `process`: the process whose environment counts; 0: the
// own. Errors: kNotFound, kPermissionDenied if that cannot be read.
Result<HostView> ViewOfThisHost(const std::string& agent_address, int process);

// The text of a member of a JSON object; empty: there is none.
std::string TextIn(const io::JsonValue& object, std::string_view key);
// A whole text as a number; none if it is anything else.
std::optional<std::uint64_t> ParseNumber(std::string_view text);
// The value of a metric without labels in Prometheus' text format; none if it is not there.
std::optional<double> MetricOf(std::string_view metrics, std::string_view name);

}  // namespace espalier::doctor
