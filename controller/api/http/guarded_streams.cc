#include "controller/api/http/guarded_streams.h"

#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace espalier::controller {

struct GuardedStreams::Shared {
  MayRead may_read;  // empty: the guard is gone
  std::unordered_set<One*> open;
};

class GuardedStreams::One : public io::HttpStream {
 public:
  One(std::shared_ptr<Shared> shared, std::shared_ptr<io::HttpStream> stream,
      const io::HttpRequest& request)
      : shared_(std::move(shared)), stream_(std::move(stream)), request_(request) {
    stream_->wake = [this] {
      if (wake) wake();
    };
    stream_->end = [this] { End(); };
    shared_->open.insert(this);
  }
  ~One() override {
    shared_->open.erase(this);
    stream_->wake = {};
    stream_->end = {};
  }
  One(const One&) = delete;
  One& operator=(const One&) = delete;

  std::shared_ptr<const std::string> Next() override {
    if (MayRead()) return stream_->Next();
    End();
    return nullptr;
  }

  bool MayRead() const { return shared_->may_read && shared_->may_read(request_); }
  void End() const {
    const std::function<void()> copy = end;  // as this may be destroyed
    if (copy) copy();
  }

 private:
  const std::shared_ptr<Shared> shared_;
  const std::shared_ptr<io::HttpStream> stream_;
  const io::HttpRequest request_;
};

GuardedStreams::GuardedStreams(MayRead may_read)
    : shared_(std::make_shared<Shared>(Shared{std::move(may_read), {}})) {}

GuardedStreams::~GuardedStreams() { shared_->may_read = {}; }

std::shared_ptr<io::HttpStream> GuardedStreams::Guard(std::shared_ptr<io::HttpStream> stream,
                                                      const io::HttpRequest& request) {
  return std::make_shared<One>(shared_, std::move(stream), request);
}

void GuardedStreams::Recheck() {
  const std::vector<One*> open(shared_->open.begin(), shared_->open.end());
  for (const One* one : open) {
    if (!one->MayRead()) one->End();
  }
}

}  // namespace espalier::controller
