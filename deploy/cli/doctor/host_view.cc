#include "deploy/cli/doctor/host_view.h"

#include <fmt/format.h>
#include <sys/timex.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>

#include "common/http/http_client.h"
#include "common/os/command.h"
#include "common/verbs/roce_address.h"

extern char** environ;

namespace espalier::doctor {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostBytes = 64 * 1024;
constexpr std::size_t kMostOfProcess = 8U << 20U;  // of its environment, and of its mappings
constexpr std::size_t kMostNames = 1'024;
constexpr std::size_t kMostVariables = 4'096;
constexpr auto kAgentLimit = std::chrono::seconds(3);

// The file's bytes; none if it cannot be read or is larger than `most`.
std::optional<std::string> ReadBytes(const std::string& path, std::size_t most) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return std::nullopt;  // a pipe would block
  std::ifstream file(path, std::ios::binary);
  std::string text(most + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad() || (!file && !file.eof())) return std::nullopt;
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > most) return std::nullopt;
  return text;
}

void AddVariable(std::map<std::string, std::string>& environment, std::string_view entry) {
  const std::size_t equals = entry.find('=');
  if (equals == std::string_view::npos || environment.size() >= kMostVariables) return;
  environment.emplace(entry.substr(0, equals), entry.substr(equals + 1));
}

Result<std::map<std::string, std::string>> EnvironmentOf(int process) {
  std::map<std::string, std::string> environment;
  if (process == 0) {
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
      AddVariable(environment, *entry);
    }
    return environment;
  }
  const std::string path = fmt::format("/proc/{}/environ", process);
  const auto text = ReadBytes(path, kMostOfProcess);
  if (!text) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("cannot read {} (is there such a process, and is it yours?)", path));
  }
  std::string_view rest = *text;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\0'), rest.size());
    AddVariable(environment, rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return environment;
}

// A program that hangs is ended after five seconds.
Result<std::string> RunProgram(const std::vector<std::string>& argv) {
  std::vector<std::string> limited = {"timeout", "5"};
  limited.insert(limited.end(), argv.begin(), argv.end());
  Result<CommandOutput> done =
      RunCommand({.argv = std::move(limited), .environment = {}, .node = ""});
  if (!done) return Propagate(done);
  if (done->exit_code == 126 || done->exit_code == 127) {
    return Fail(ErrorCode::kNotFound, fmt::format("{} is not installed", argv.front()));
  }
  if (done->exit_code != 0) {
    const std::string why = done->err.substr(0, std::min(done->err.find('\n'), kMostBytes));
    return Fail(ErrorCode::kUnsupported, fmt::format("{}: {}", argv.front(), why));
  }
  return std::move(done->out);
}

std::vector<DeviceTrial> TryDevices() {
  std::vector<DeviceTrial> trials;
  for (const verbs::RoceAddress& address : verbs::ListRoceAddresses()) {
    const bool is_known = !trials.empty() && trials.back().device == address.device &&
                          trials.back().port == address.port;
    if (is_known) continue;
    DeviceTrial trial{.device = address.device, .port = address.port, .control = {}, .error = ""};
    auto tried = verbs::TryPathControl(address);
    if (tried) {
      trial.control = std::move(*tried);
    } else {
      trial.error = tried.error().message;
    }
    trials.push_back(std::move(trial));
  }
  for (auto& [device, control] : verbs::ListDevicesWithoutPathControl()) {
    trials.push_back({.device = device, .port = 1, .control = std::move(control), .error = ""});
  }
  return trials;
}

Result<ClockState> ReadClock() {
  timex clock{};
  const int state = ::adjtimex(&clock);
  if (state < 0) return Fail(ErrorCode::kUnsupported, "adjtimex is not allowed here");
  return ClockState{.is_synchronised = state != TIME_ERROR && (clock.status & STA_UNSYNC) == 0,
                    .max_error_seconds = static_cast<double>(clock.maxerror) / 1e6};
}

}  // namespace

std::optional<std::string> HostView::Read(const std::string& path) const {
  auto text = ReadBytes(root + path, kMostBytes);
  if (!text) return std::nullopt;
  text->resize(text->find_last_not_of(" \t\r\n") + 1);
  return text;
}

std::optional<std::uint64_t> HostView::ReadNumber(const std::string& path) const {
  const auto text = Read(path);
  return text ? ParseNumber(*text) : std::nullopt;
}

std::vector<std::string> HostView::List(const std::string& folder) const {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(root + folder, error), end;
       !error && at != end && names.size() < kMostNames; at.increment(error)) {
    names.push_back(at->path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

bool HostView::Exists(const std::string& path) const {
  std::error_code error;
  return fs::exists(root + path, error);
}

std::string HostView::LinkName(const std::string& path) const {
  std::error_code error;
  const fs::path target = fs::read_symlink(root + path, error);
  return error ? "" : target.filename().string();
}

std::string HostView::Variable(const std::string& name) const {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

Result<HostView> ViewOfThisHost(const std::string& agent_address, int process) {
  auto environment = EnvironmentOf(process);
  if (!environment) return Propagate(environment);
  HostView view;
  view.is_root = ::geteuid() == 0;
  view.environment = std::move(*environment);
  if (process != 0) {
    view.environment_of = fmt::format("process {}", process);
    const auto maps = ReadBytes(fmt::format("/proc/{}/maps", process), kMostOfProcess);
    if (maps) view.loads_shim = maps->find("libespalier-") != std::string::npos;
  }
  view.run = RunProgram;
  view.try_devices = TryDevices;
  view.read_clock = ReadClock;
  view.agent_address = agent_address;
  view.ask_agent = [agent_address](const std::string& target) -> Result<std::string> {
    auto answer = io::HttpFetch(agent_address, "GET", target, "", kAgentLimit);
    if (!answer) return Propagate(answer);
    if (answer->status != 200) {
      return Fail(ErrorCode::kUnavailable,
                  fmt::format("{} answered with HTTP status {}", agent_address, answer->status));
    }
    return std::move(answer->body);
  };
  view.wait = [] { std::this_thread::sleep_for(std::chrono::seconds(1)); };
  return view;
}

std::string TextIn(const io::JsonValue& object, std::string_view key) {
  const io::JsonValue* const value = object.Find(key);
  return value == nullptr ? "" : value->text;
}

std::optional<std::uint64_t> ParseNumber(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> MetricOf(std::string_view metrics, std::string_view name) {
  while (!metrics.empty()) {
    const std::size_t end = std::min(metrics.find('\n'), metrics.size());
    std::string_view line = metrics.substr(0, end);
    metrics.remove_prefix(std::min(end + 1, metrics.size()));
    if (!line.starts_with(name) || line.size() <= name.size() || line[name.size()] != ' ') continue;
    line.remove_prefix(name.size() + 1);
    double value = 0;
    const auto [rest, error] = std::from_chars(line.data(), line.data() + line.size(), value);
    if (error == std::errc{} && rest != line.data()) return value;
    return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace espalier::doctor
