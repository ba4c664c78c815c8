#include "controller/telemetry/polls/workers.h"

#include <utility>

namespace espalier::telemetry {

void Workers::Run(std::function<void()> work, std::function<void()> done) {
  waiting_.push_back({std::move(work), std::move(done)});
  StartNext();
}

void Workers::StartNext() {
  if (waiting_.empty()) return;
  if (idle_.empty()) {
    if (threads_.size() >= most_) return;
    idle_.push_back(threads_.size());
    threads_.push_back(std::make_unique<io::Background>(loop_));
  }
  const std::size_t thread = idle_.back();
  idle_.pop_back();
  Piece piece = std::move(waiting_.front());
  waiting_.pop_front();
  threads_[thread]->Run(std::move(piece.work), [this, thread, done = std::move(piece.done)] {
    idle_.push_back(thread);
    StartNext();
    done();
  });
}

}  // namespace espalier::telemetry
