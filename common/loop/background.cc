#include "common/loop/background.h"

#include <utility>

namespace espalier::io {

void Background::Run(std::function<void()> work, std::function<void()> done) {
  thread_.Post([this, work = std::move(work), done = std::move(done)]() mutable {
    work();
    loop_.Post(std::move(done));
  });
}

}  // namespace espalier::io
