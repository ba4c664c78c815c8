#include "collective/transport/base/fork_guard.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <vector>

namespace espalier::transport {
namespace {

// One list for the process, because pthread_atfork(3) handlers have no context argument. It is
// never destroyed, because threads may fork while the process ends.
struct Guarded {
  std::mutex mutex;
  std::vector<int> descriptors;
};

Guarded& All() {
  static auto* const all = new Guarded;
  return *all;
}

void BeforeFork() { All().mutex.lock(); }
void AfterForkInParent() { All().mutex.unlock(); }

// Uses only what is safe in a forked child: system calls.
void AfterForkInChild() {
  const int nowhere = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int descriptor : All().descriptors) {
    if (nowhere >= 0) {
      ::dup3(nowhere, descriptor, O_CLOEXEC);
    } else {
      ::close(descriptor);
    }
  }
  if (nowhere >= 0) ::close(nowhere);
  All().descriptors.clear();
  All().mutex.unlock();
}

}  // namespace

ForkGuard::ForkGuard(int descriptor) : descriptor_(descriptor) {
  static const int registered = ::pthread_atfork(BeforeFork, AfterForkInParent, AfterForkInChild);
  static_cast<void>(registered);
  const std::lock_guard lock(All().mutex);
  All().descriptors.push_back(descriptor);
}

ForkGuard::~ForkGuard() {
  const std::lock_guard lock(All().mutex);
  std::vector<int>& descriptors = All().descriptors;
  const auto found = std::find(descriptors.begin(), descriptors.end(), descriptor_);
  if (found == descriptors.end()) return;  // in a child
  *found = descriptors.back();
  descriptors.pop_back();
}

}  // namespace espalier::transport
