#pragma once

namespace espalier::transport {

// Keeps a descriptor from living on in processes that this one forks: in the child it leads to
// /dev/null. Peers know a rank by its sockets and locks, which a forked data loader would otherwise
// hold open after the rank has died. What the child does with the number, closing it included,
// harms nobody.
// The guard lives for as long as the descriptor is open. Where it finds no memory it throws
// std::bad_alloc. Thread safety: any thread. Children of posix_spawn and vfork close what is
// close-on-exec by themselves.
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
