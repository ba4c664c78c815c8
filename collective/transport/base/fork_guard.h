#pragma once

namespace espalier::transport {

// Keeps a descriptor from staying open in forked processes: in the child it refers to /dev/null.
// Peers detect a rank's death by its sockets and locks, which a forked data loader would otherwise
// hold open. Whatever the child does with the descriptor, even closing it, is harmless.
// The guard must live as long as the descriptor is open. The constructor may throw std::bad_alloc.
// Thread safety: any thread. Children of posix_spawn and vfork need no guard, as exec closes the
// descriptors.
class ForkGuard {
 public:
  explicit ForkGuard(int descriptor);
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;
  ~ForkGuard();

 private:
  const int descriptor_;
};

}  // namespace espalier::transport
