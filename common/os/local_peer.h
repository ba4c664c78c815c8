#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/users/user_budget.h"

namespace espalier {

// The process at the other end of a Unix socket, as the kernel recorded it at connect.
struct LocalPeer {
  uid_t user = 0;
  pid_t process = 0;  // 0: this process cannot see it, because it is in another PID namespace
  // The user who pays for it: its pod; else the owner of its user id if that is a subordinate one;
  // else its user id.
  BudgetOwner payer = 0;
  // "" for a process of this host: it is in this process's own user and PID namespaces, and in no
  // pod but this process's own. Else a name of the container in which it runs.
  std::string container;
  // It could trace this process, so nothing is kept from it: it is of this host, runs as root or as
  // this process's user, and has every capability of this process or CAP_SYS_PTRACE.
  bool controls_host = false;
};

// The container of processes that this process cannot examine.
inline constexpr const char* kUnknownContainer = "?";

// Identifies the processes that connect to a Unix socket. A user id alone is no identity: a pod may
// run as root or as any other user of the host, and each user of a host has thousands of
// subordinate ids (subuid(5)). So it reads /proc/PID, which the file system must not hide
// (hidepid), and in which the process sees others only from their PID namespace or one above. It
// reads local files only, never a directory server. What happens if the process ends meanwhile and
// another one gets its number: nothing before Linux 6.5; from then on its container is unknown.
// Thread safety: one thread. Complexity: a few system calls for each peer.
class LocalPeers {
 public:
  struct Files {
    std::string subordinate_ids = "/etc/subuid";
    std::string users = "/etc/passwd";
  };
  LocalPeers() : LocalPeers(Files{}) {}
  explicit LocalPeers(Files files);

  // None if the kernel does not tell.
  std::optional<LocalPeer> Of(int socket);
  // The container of a process, as in LocalPeer.
  std::string ContainerOf(pid_t process) const;
  // The user who pays for a user id: the owner of a subordinate id, else the id itself. An owner
  // that the files do not number gets a number above all user ids.
  BudgetOwner OwnerOf(uid_t user);

 private:
  struct Range {
    std::uint64_t first = 0;
    std::uint64_t count = 0;
    BudgetOwner owner = 0;
  };
  // A process as /proc shows it.
  struct Place {
    bool is_here = false;  // in this process's own user and PID namespaces
    std::string pod;
    std::string cgroup;
    std::uint64_t capabilities = 0;
  };

  std::optional<Place> PlaceOf(pid_t process) const;
  static std::string NameOf(const std::optional<Place>& place, const Place& own);
  void ReadRanges();

  const Files files_;
  const std::string own_users_;  // the map of this process's user namespace
  const std::optional<Place> own_;
  std::int64_t changed_ = -1;  // the files' times of change when they were read, added up
  std::vector<Range> ranges_;
};

// The pod in the contents of /proc/PID/cgroup: the part of the path that kubelet names after the
// pod; "" outside pods. No user but root can make such a part, as users' groups are below others.
std::string PodOfCgroup(std::string_view cgroup);

}  // namespace espalier
