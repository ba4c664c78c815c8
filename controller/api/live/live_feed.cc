#include "controller/api/live/live_feed.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <utility>

namespace espalier::controller {
namespace {

constexpr Duration kPingInterval = std::chrono::seconds(5);

}  // namespace

// The state that the clients and the feed share; it lives as long as any of them.
struct LiveFeed::Shared {
  Shared(Controller& controller, Metrics& metrics)
      : journal(controller, metrics, [this] { WakeAll(); }),
        pieces(metrics.MakeCounter(
            "espalier_controller_feed_pieces_total",
            "Pieces of the live feed sent to clients: updates, snapshots and pings")) {}
  void WakeAll();
  // Ends a stream of the caller that has the most of them; returns false if that is this one.
  bool MakeRoom(const std::string& caller);

  std::vector<Client*> clients;  // oldest first
  LiveJournal journal;
  Counter& pieces;
};

class LiveFeed::Client : public io::HttpStream {
 public:
  Client(std::shared_ptr<Shared> shared, std::string caller)
      : shared_(std::move(shared)),
        caller_(std::move(caller)),
        last_piece_(shared_->journal.Now()) {
    shared_->clients.push_back(this);
    shared_->journal.Follow();
  }
  ~Client() override {
    std::erase(shared_->clients, this);
    if (shared_->clients.empty()) shared_->journal.Rest();
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  std::shared_ptr<const std::string> Next() override {
    if (shared_->journal.is_closed() || has_ended_) return nullptr;
    const TimePoint now = shared_->journal.Now();
    LiveJournal::Piece piece = shared_->journal.Take(change_);
    if (!piece.text) {
      if (now - last_piece_ < kPingInterval) return nullptr;
      // Only a write shows that a client is gone.
      piece.text = std::make_shared<const std::string>(": nothing new\n\n");
    }
    change_ = piece.change;
    last_piece_ = now;
    shared_->pieces.Add();
    return piece.text;
  }

  const std::string& caller() const { return caller_; }
  void End() {
    has_ended_ = true;
    std::erase(shared_->clients, this);
    const std::function<void()> copy = end;  // as this may be destroyed
    if (copy) copy();
  }

 private:
  std::shared_ptr<Shared> shared_;
  const std::string caller_;
  bool has_ended_ = false;
  std::uint64_t change_ = 0;  // the latest change that it has
  TimePoint last_piece_;
};

void LiveFeed::Shared::WakeAll() {
  const std::vector<Client*> woken = clients;
  for (Client* client : woken) {
    if (client->wake) client->wake();
  }
}

bool LiveFeed::Shared::MakeRoom(const std::string& caller) {
  std::map<std::string, std::size_t> streams;
  for (const Client* client : clients) ++streams[client->caller()];
  const auto most =
      std::max_element(streams.begin(), streams.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == streams.end() || most->second <= streams[caller] + 1) return false;
  const auto oldest = std::find_if(clients.begin(), clients.end(), [&](const Client* client) {
    return client->caller() == most->first;
  });
  (*oldest)->End();
  return true;
}

LiveFeed::LiveFeed(Controller& controller, Metrics& metrics)
    : shared_(std::make_shared<Shared>(controller, metrics)) {}

LiveFeed::~LiveFeed() { shared_->journal.Close(); }

std::shared_ptr<io::HttpStream> LiveFeed::Connect(const std::string& caller) {
  if (shared_->clients.size() >= kMaxClients && !shared_->MakeRoom(caller)) return nullptr;
  return std::make_shared<Client>(shared_, caller);
}

}  // namespace espalier::controller
