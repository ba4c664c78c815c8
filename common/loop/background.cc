#include "common/loop/background.h"

#include <sys/resource.h>

#include <utility>

namespace espalier::io {

Background::Background(EventLoop& loop, Priority priority) : loop_(loop) {
  if (priority == Priority::kNormal) return;
  constexpr int kNicer = 5;  // a third of the weight: it must not starve, either
  // In Linux, of this thread alone. If it fails, the work is only less considerate.
  thread_.Post([] { setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + kNicer); });
}

void Background::Run(std::function<void()> work, std::function<void()> done) {
  thread_.Post([this, work = std::move(work), done = std::move(done)]() mutable {
    work();
    loop_.Post(std::move(done));
  });
}

}  // namespace espalier::io
