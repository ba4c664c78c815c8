#pragma once

#include <functional>
#include <memory>

#include "common/http/http.h"

namespace espalier::controller {

// The streams that callers read, each for as long as its caller may: this is checked before each
// piece, and for all of them in Recheck, as a stream without news has no pieces.
// Thread safety: the controller's loop thread. Streams may outlive this, and end then.
class GuardedStreams {
 public:
  // Whether the caller of this request may still read.
  using MayRead = std::function<bool(const io::HttpRequest& request)>;

  explicit GuardedStreams(MayRead may_read);
  ~GuardedStreams();
  GuardedStreams(const GuardedStreams&) = delete;
  GuardedStreams& operator=(const GuardedStreams&) = delete;

  // The stream for this request, which ends with the caller's right.
  std::shared_ptr<io::HttpStream> Guard(std::shared_ptr<io::HttpStream> stream,
                                        const io::HttpRequest& request);
  // Ends the streams of callers who may no longer read.
  void Recheck();

 private:
  class One;
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace espalier::controller
