#include "common/os/local_peer.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <functional>
#include <map>
#include <utility>

#include "common/base/unique_fd.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

namespace espalier {
namespace {

constexpr std::size_t kMaxFileBytes = 1 << 20;
// Owners that are no user ids.
constexpr BudgetOwner kPod = BudgetOwner{1} << 63U;
constexpr BudgetOwner kUnnumbered = BudgetOwner{1} << 62U;

std::string ReadFile(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  std::array<char, 4096> block;
  while (file && text.size() < kMaxFileBytes) {
    const ssize_t size = ::read(file.get(), block.data(), block.size());
    if (size <= 0) break;
    text.append(block.data(), static_cast<std::size_t>(size));
  }
  return text;
}

// Removes the text up to the separator (or the end) from the front and returns it.
std::string_view TakeUntil(std::string_view& text, char separator) {
  const std::size_t end = text.find(separator);
  const std::string_view taken = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return taken;
}

std::optional<std::uint64_t> NumberIn(std::string_view text, int base = 10) {
  std::uint64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number, base);
  const bool is_right = read.ec == std::errc() && read.ptr == text.data() + text.size();
  return is_right && !text.empty() ? std::optional(number) : std::nullopt;
}

// The value of a line of /proc/PID/status; "" if there is none.
std::string_view Field(std::string_view status, std::string_view name) {
  while (!status.empty()) {
    std::string_view line = TakeUntil(status, '\n');
    if (TakeUntil(line, ':') == name && line.starts_with('\t')) return line.substr(1);
  }
  return {};
}

// The path of the unified hierarchy, or else the first one below the root.
std::string_view PathOfCgroup(std::string_view cgroup) {
  std::string_view first;
  while (!cgroup.empty()) {
    std::string_view line = TakeUntil(cgroup, '\n');
    const bool is_unified = line.starts_with("0::");
    TakeUntil(line, ':');
    TakeUntil(line, ':');
    if (line.size() < 2) continue;
    if (is_unified) return line;
    if (first.empty()) first = line;
  }
  return first;
}

// A descriptor that stands for the peer; none before Linux 6.5.
UniqueFd PinOf(int socket, bool& is_supported) {
  int pin = -1;
  socklen_t size = sizeof(pin);
  const int failed = ::getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &pin, &size);
  is_supported = failed == 0 || errno != ENOPROTOOPT;
  return UniqueFd(failed == 0 ? pin : -1);
}

bool HasEnded(const UniqueFd& pin) {
  pollfd ended = {pin.get(), POLLIN, 0};
  return ::poll(&ended, 1, 0) != 0;
}

std::int64_t ChangeOf(const std::string& path) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) return 0;
  return std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}

}  // namespace

std::string PodOfCgroup(std::string_view cgroup) {
  std::string_view path = PathOfCgroup(cgroup);
  bool is_below_kubelet = false;
  for (bool is_first = true; !path.empty();) {
    const std::string_view part = TakeUntil(path, '/');
    if (part.empty() || part == "..") continue;  // above the cgroup namespace of this process
    const bool is_pod = part.starts_with("pod") || part.find("-pod") != std::string_view::npos;
    if (std::exchange(is_first, false)) {
      is_below_kubelet = part.starts_with("kubepods") || part.starts_with("pod") ||
                         part == "besteffort" || part == "burstable" || part == "kubelet.slice";
    }
    if (!is_below_kubelet) return {};
    if (is_pod) return std::string(part);
  }
  return {};
}

LocalPeers::LocalPeers(Files files)
    : files_(std::move(files)),
      own_users_(ReadFile("/proc/self/uid_map")),
      own_(PlaceOf(::getpid())) {}

std::optional<LocalPeers::Place> LocalPeers::PlaceOf(pid_t process) const {
  if (process <= 0) return std::nullopt;
  const std::string folder = "/proc/" + std::to_string(process);
  const std::string status = ReadFile(folder + "/status");
  const std::string users = ReadFile(folder + "/uid_map");
  const std::string cgroup = ReadFile(folder + "/cgroup");
  const std::string_view numbers = Field(status, "NSpid");
  if (numbers.empty() || cgroup.empty()) return std::nullopt;
  Place place;
  // One number for each PID namespace from that of /proc down to that of the process.
  place.is_here =
      numbers.find('\t') == std::string_view::npos && !users.empty() && users == own_users_;
  place.pod = PodOfCgroup(cgroup);
  place.cgroup = PathOfCgroup(cgroup);
  place.capabilities = NumberIn(Field(status, "CapEff"), 16).value_or(0);
  return place;
}

std::string LocalPeers::NameOf(const std::optional<Place>& place, const Place& own) {
  if (!place) return kUnknownContainer;
  if (place->is_here && (place->pod.empty() || place->pod == own.pod)) return {};
  if (!place->pod.empty()) return place->pod;
  return place->cgroup.empty() ? kUnknownContainer : place->cgroup;
}

std::string LocalPeers::ContainerOf(pid_t process) const {
  return NameOf(PlaceOf(process), own_.value_or(Place{}));
}

std::optional<LocalPeer> LocalPeers::Of(int socket) {
  ucred credentials = {};
  socklen_t size = sizeof(credentials);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return std::nullopt;
  LocalPeer peer{.user = credentials.uid, .process = credentials.pid};
  bool has_pins = false;
  const UniqueFd pin = PinOf(socket, has_pins);
  std::optional<Place> place = PlaceOf(peer.process);
  if (has_pins && (!pin || HasEnded(pin))) place.reset();
  peer.container = NameOf(place, own_.value_or(Place{}));
  const bool is_pod = place && !place->pod.empty() && !peer.container.empty();
  peer.payer = is_pod ? kPod | std::hash<std::string>()(place->pod) : OwnerOf(peer.user);
  if (!place || !own_ || !peer.container.empty()) return peer;
  constexpr std::uint64_t kTrace = std::uint64_t{1} << CAP_SYS_PTRACE;
  const bool can_trace =
      (place->capabilities & kTrace) != 0 || (own_->capabilities & ~place->capabilities) == 0;
  peer.controls_host = can_trace && (peer.user == 0 || peer.user == ::geteuid());
  return peer;
}

BudgetOwner LocalPeers::OwnerOf(uid_t user) {
  ReadRanges();
  const auto in = [user](const Range& range) {
    return user >= range.first && user - range.first < range.count;
  };
  const auto found = std::ranges::find_if(ranges_, in);
  return found == ranges_.end() ? user : found->owner;
}

void LocalPeers::ReadRanges() {
  const std::int64_t changed = ChangeOf(files_.subordinate_ids) + ChangeOf(files_.users);
  if (changed == changed_) return;
  changed_ = changed;
  ranges_.clear();
  std::map<std::string, std::uint64_t, std::less<>> numbers;
  const std::string users = ReadFile(files_.users);
  for (std::string_view rest = users; !rest.empty();) {
    std::string_view line = TakeUntil(rest, '\n');
    const std::string_view name = TakeUntil(line, ':');
    TakeUntil(line, ':');
    if (const auto number = NumberIn(TakeUntil(line, ':'))) numbers.emplace(name, *number);
  }
  const std::string ids = ReadFile(files_.subordinate_ids);
  for (std::string_view rest = ids; !rest.empty();) {
    std::string_view line = TakeUntil(rest, '\n');
    const std::string_view name = TakeUntil(line, ':');
    const auto first = NumberIn(TakeUntil(line, ':'));
    const auto count = NumberIn(line);
    if (name.empty() || !first || !count) continue;
    // The same user's ranges get the same number.
    const auto known =
        numbers.try_emplace(std::string(name), NumberIn(name).value_or(kUnnumbered | *first));
    ranges_.push_back({*first, *count, known.first->second});
  }
}

}  // namespace espalier
