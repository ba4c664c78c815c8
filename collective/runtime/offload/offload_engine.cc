#include "collective/runtime/offload/offload_engine.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "collective/runtime/cost_table.h"
#include "collective/runtime/offload/offload_session.h"
#include "common/base/message_socket.h"

namespace espalier::runtime {
namespace {

// One thread takes callers and sees programs go; each session has a thread of its own.
class Engine : public OffloadEngine {
 public:
  Engine(UniqueFd listener, UniqueFd stop, std::string path, const OffloadOptions& options)
      : listener_(std::move(listener)),
        stop_(std::move(stop)),
        path_(std::move(path)),
        options_(options),
        thread_([this] { Serve(); }) {}
  ~Engine() override {
    ::eventfd_write(stop_.get(), 1);
    thread_.join();
    ::unlink(path_.c_str());
  }

 private:
  void Serve();
  void TakeCaller();

  UniqueFd listener_;
  UniqueFd stop_;
  std::string path_;
  OffloadOptions options_;
  std::vector<std::unique_ptr<OffloadSession>> sessions_;
  std::thread thread_;  // the last: it uses the others
};

void Engine::Serve() {
  std::vector<pollfd> polled;
  while (true) {
    polled.assign({{stop_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}});
    for (const auto& session : sessions_) {
      // A session that is over is no more watched, only waited for.
      const int socket = session->is_over() ? -1 : session->socket();
      polled.push_back({socket, POLLRDHUP, 0});
    }
    const bool some_are_over = std::any_of(sessions_.begin(), sessions_.end(),
                                           [](const auto& session) { return session->is_over(); });
    constexpr int kReapMilliseconds = 20;
    if (::poll(polled.data(), polled.size(), some_are_over ? kReapMilliseconds : -1) < 0) continue;
    if (polled[0].revents != 0) break;
    for (std::size_t i = 0; i < sessions_.size(); ++i) {
      if (polled[i + 2].revents != 0) sessions_[i]->End("its program has gone");
    }
    sessions_.erase(std::remove_if(sessions_.begin(), sessions_.end(),
                                   [](const auto& session) { return session->has_ended(); }),
                    sessions_.end());
    if (polled[1].revents != 0) TakeCaller();
  }
  for (const auto& session : sessions_) session->End("the engine stops");
  sessions_.clear();
}

void Engine::TakeCaller() {
  UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket || sessions_.size() >= options_.most_sessions) return;
  sessions_.push_back(std::make_unique<OffloadSession>(std::move(socket), options_));
}

}  // namespace

Result<std::unique_ptr<OffloadEngine>> OffloadEngine::Listen(const std::string& path,
                                                             const OffloadOptions& options) {
  if (!options.costs_file.empty()) {
    auto costs = ReadCostsFile(options.costs_file);
    if (!costs) return Propagate(costs);
  }
  auto listener = ListenOnPath(path);
  if (!listener) return Propagate(listener);
  UniqueFd stop(::eventfd(0, EFD_CLOEXEC));
  if (!stop) return Fail(ErrorCode::kUnavailable, "no event for the engine");
  return std::make_unique<Engine>(std::move(*listener), std::move(stop), path, options);
}

}  // namespace espalier::runtime
