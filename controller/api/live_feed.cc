#include "controller/api/live_feed.h"

#include <chrono>
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

  std::vector<Client*> clients;
  LiveJournal journal;
  Counter& pieces;
};

class LiveFeed::Client : public io::HttpStream {
 public:
  explicit Client(std::shared_ptr<Shared> shared)
      : shared_(std::move(shared)), last_piece_(shared_->journal.Now()) {
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
    if (shared_->journal.is_closed()) return nullptr;
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

 private:
  std::shared_ptr<Shared> shared_;
  std::uint64_t change_ = 0;  // the latest change that it has
  TimePoint last_piece_;
};

void LiveFeed::Shared::WakeAll() {
  const std::vector<Client*> woken = clients;
  for (Client* client : woken) {
    if (client->wake) client->wake();
  }
}

LiveFeed::LiveFeed(Controller& controller, Metrics& metrics)
    : shared_(std::make_shared<Shared>(controller, metrics)) {}

LiveFeed::~LiveFeed() { shared_->journal.Close(); }

std::shared_ptr<io::HttpStream> LiveFeed::Connect() {
  if (shared_->clients.size() >= kMaxClients) return nullptr;
  return std::make_shared<Client>(shared_);
}

}  // namespace espalier::controller
