#pragma once

#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

namespace espalier {

// Puts this thread, and those that it starts from now on, into a new network namespace that it may
// configure, with nothing but a loopback device that is down: as root, or as the root of a user
// namespace of its own. Empty when that went well, else why not.
inline std::string EnterOwnNetwork() {
  if (::unshare(CLONE_NEWNET) == 0) return "";
  const std::string uid = std::to_string(::geteuid());
  const std::string gid = std::to_string(::getegid());
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
    return std::string("no network namespaces here: ") + std::strerror(errno);
  }
  const auto write = [](const char* path, const std::string& text) {
    return (std::ofstream(path) << text << std::flush).good();
  };
  write("/proc/self/setgroups", "deny");
  if (!write("/proc/self/uid_map", "0 " + uid + " 1") ||
      !write("/proc/self/gid_map", "0 " + gid + " 1")) {
    return "no user mapping allowed";
  }
  return "";
}

}  // namespace espalier
