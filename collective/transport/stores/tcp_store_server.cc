#include "collective/transport/stores/tcp_store_server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <map>
#include <new>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "collective/transport/base/fork_guard.h"
#include "collective/transport/base/rendezvous_store.h"
#include "collective/transport/rendezvous/tcp_socket.h"
#include "collective/transport/stores/store_frames.h"

namespace espalier::transport {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using Text = std::pmr::string;

// The most bytes of all keys and values: the endpoints of a thousand ranks in hundreds of groups.
constexpr std::size_t kMaxStoredBytes = 16 << 20;
// The most bytes of replaced values that are kept for clients that have not read them.
constexpr std::size_t kMaxOwedBytes = 4 << 20;
// What the system keeps for a client that does not read; it may double this.
constexpr int kSendBufferBytes = 4 << 10;
constexpr std::size_t kMaxClients = 4096;
// The most clients without a complete request: they may be anybody, and each takes memory.
constexpr std::size_t kMaxSilent = 512;
// The most clients accepted at a time, so that earlier ones are read before they may be dropped.
constexpr std::size_t kMaxAtOnce = kMaxSilent / 4;

class Server : public TcpStoreServer {
 public:
  Server(UniqueFd listener, UniqueFd stop, std::uint16_t port, const std::optional<JobKey>& key,
         const TcpStoreLimits& limits)
      : listener_(std::move(listener)),
        guard_(listener_.get()),
        stop_(std::move(stop)),
        port_(port),
        key_(key),
        limits_(limits),
        values_(limits.memory),
        thread_([this] { Serve(); }) {}
  ~Server() override {
    ::eventfd_write(stop_.get(), 1);
    thread_.join();
  }

  std::uint16_t port() const override { return port_; }

 private:
  // A value in the store, also as long as clients have not read all of it.
  struct Value {
    Value(std::string_view of, std::pmr::memory_resource* memory) : text(of, memory) {}
    const Text text;
    bool is_replaced = false;
  };
  struct Answer {
    StoreFrame frame;
    std::shared_ptr<const Value> value;
    steady_clock::time_point since = steady_clock::now();
  };
  struct Client {
    Client(UniqueFd of, const Nonce& greeted, std::pmr::memory_resource* memory)
        : socket(std::move(of)),
          guard(socket.get()),
          nonce(greeted),
          received(memory),
          awaited(memory) {}
    // Whether it has not sent a complete, authenticated request.
    bool IsSilent() const { return !has_asked; }

    bool HasToSend() const {
      return answer && sent < sizeof(StoreFrame) + answer->value->text.size();
    }

    UniqueFd socket;
    const ForkGuard guard;
    const Nonce nonce;  // of the server, for this client
    Text received;
    bool has_asked = false;
    bool has_to_go = false;
    Nonce asked_with{};  // of the client
    Text awaited;        // the key for which it waits
    std::optional<Answer> answer;
    std::size_t sent = 0;  // bytes of the answer
    steady_clock::time_point since = steady_clock::now();
  };

  void Serve();
  void AcceptClients();
  void DropSilent();
  bool HasRoom();
  int WaitLimit() const;
  bool Serve(Client& client, short events);
  bool Read(Client& client);
  bool AnswerTo(Client& client);
  std::shared_ptr<Value> MakeValue(std::string_view text) const;
  void Reply(Client& client, char kind, std::shared_ptr<const Value> value) const;
  bool StoreValue(std::string_view key, std::string_view text);
  static bool Write(Client& client);
  void DropDebts();

  UniqueFd listener_;
  const ForkGuard guard_;
  UniqueFd stop_;
  std::uint16_t port_;
  const std::optional<JobKey> key_;
  const TcpStoreLimits limits_;
  std::pmr::map<Text, std::shared_ptr<Value>, std::less<>> values_;
  std::size_t stored_bytes_ = 0;
  std::vector<std::unique_ptr<Client>> clients_;
  std::thread thread_;  // last: it uses the other members
};

void Server::Serve() {
  std::vector<pollfd> polled;
  while (true) {
    polled.assign({{stop_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}});
    for (const auto& client : clients_) {
      const int events = POLLIN | (client->HasToSend() ? POLLOUT : 0);
      polled.push_back({client->socket.get(), static_cast<short>(events), 0});
    }
    if (::poll(polled.data(), polled.size(), WaitLimit()) < 0) continue;
    if (polled[0].revents != 0) return;
    for (std::size_t i = 0; i + 2 < polled.size(); ++i) {
      Client& client = *clients_[i];
      if (!Serve(client, polled[i + 2].revents)) client.has_to_go = true;
    }
    std::erase_if(clients_, [](const auto& client) { return client->has_to_go; });
    DropSilent();
    if (polled[1].revents != 0) AcceptClients();
  }
}

// Returns false if the client must be disconnected.
bool Server::Serve(Client& client, short events) {
  try {
    if (client.has_to_go || ((events & ~POLLOUT) != 0 && !Read(client))) return false;
    return Write(client);
  } catch (const std::bad_alloc&) {
    return false;
  }
}

// Drops those that have let replaced values wait longest while too much waits. The poll that
// notices the shutdown removes them.
void Server::DropDebts() {
  std::vector<Client*> debtors;
  std::size_t owed = 0;
  const auto part_of = [](const Client& client) {  // in a value that several may wait for
    const auto& value = client.answer->value;
    return value->text.size() / static_cast<std::size_t>(value.use_count()) + 1;
  };
  for (const auto& client : clients_) {
    if (!client->HasToSend() || !client->answer->value->is_replaced) continue;
    debtors.push_back(client.get());
    owed += part_of(*client);
  }
  if (owed <= kMaxOwedBytes) return;
  std::ranges::sort(debtors, {}, [](const Client* client) { return client->answer->since; });
  for (Client* client : debtors) {
    if (owed <= kMaxOwedBytes) return;
    owed -= std::min(owed, part_of(*client));
    client->answer.reset();
    client->has_to_go = true;
    ::shutdown(client->socket.get(), SHUT_RDWR);
  }
}

void Server::DropSilent() {
  const auto now = steady_clock::now();
  std::erase_if(clients_, [&](const auto& client) {
    return client->IsSilent() && now - client->since >= limits_.silence;
  });
}

// Drops the oldest silent client if there are too many clients. Returns whether one more fits.
bool Server::HasRoom() {
  const auto is_silent = [](const auto& client) { return client->IsSilent(); };
  const auto silent = static_cast<std::size_t>(std::ranges::count_if(clients_, is_silent));
  if (silent >= kMaxSilent || (silent > 0 && clients_.size() >= kMaxClients)) {
    clients_.erase(std::ranges::find_if(clients_, is_silent));
  }
  return clients_.size() < kMaxClients;
}

// The poll timeout: limited while there are silent clients, which may have to be dropped.
int Server::WaitLimit() const {
  const bool some_are_silent =
      std::ranges::any_of(clients_, [](const auto& client) { return client->IsSilent(); });
  const auto look = std::max(limits_.silence / 10, milliseconds(1));
  return some_are_silent ? static_cast<int>(look.count()) : -1;
}

void Server::AcceptClients() {
  for (std::size_t i = 0; i < kMaxAtOnce; ++i) {
    UniqueFd socket = Accept(listener_.get());
    if (!socket) return;
    if (!HasRoom()) continue;
    ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDBUF, &kSendBufferBytes, sizeof(kSendBufferBytes));
    const StoreGreeting greeting = {.is_keyed = key_ ? 1U : 0U, .nonce = DrawNonce()};
    if (!SendAtOnce(socket.get(), greeting)) continue;
    clients_.push_back(std::make_unique<Client>(std::move(socket), greeting.nonce, limits_.memory));
  }
}

// Reads from a client. Returns false if it must be disconnected.
bool Server::Read(Client& client) {
  char part[4096];
  while (true) {
    const ssize_t received = ::recv(client.socket.get(), part, sizeof(part), MSG_DONTWAIT);
    if (received < 0) return errno == EAGAIN || errno == EINTR ? AnswerTo(client) : false;
    if (received == 0) return false;
    client.received.append(part, static_cast<std::size_t>(received));
    if (client.received.size() > sizeof(StoreFrame) + kMaxStoreKeyBytes + kMaxStoreValueBytes)
      return false;
  }
}

bool Server::AnswerTo(Client& client) {
  if (client.has_asked) return client.received.empty();
  if (client.received.size() < sizeof(StoreFrame)) return true;
  StoreFrame frame;
  std::memcpy(&frame, client.received.data(), sizeof(frame));
  const bool is_set = frame.kind == static_cast<std::uint32_t>(kSetValue);
  const bool is_once = frame.kind == static_cast<std::uint32_t>(kSetOnce);
  const bool is_known = is_set || is_once || frame.kind == static_cast<std::uint32_t>(kGetValue);
  if (frame.magic != kStoreMagic || !is_known || frame.key_bytes > kMaxStoreKeyBytes ||
      frame.value_bytes > kMaxStoreValueBytes) {
    return false;
  }
  const std::size_t whole = sizeof(frame) + frame.key_bytes + frame.value_bytes;
  if (client.received.size() < whole) return true;
  if (client.received.size() > whole) return false;
  const Text request = std::move(client.received);
  client.received.clear();
  const std::string_view key = std::string_view(request).substr(sizeof(frame), frame.key_bytes);
  const std::string_view value = std::string_view(request).substr(sizeof(frame) + frame.key_bytes);
  if (!IsSame(frame.code, CodeOfFrame(key_, kStoreAsks, client.nonce, frame, key, value)))
    return false;
  client.has_asked = true;
  client.asked_with = frame.nonce;
  if (!key.starts_with(limits_.prefix)) {
    Reply(client, kComeAgain, MakeValue({}));
    return true;
  }
  if (is_set) {
    if (!StoreValue(key, value)) return false;
    Reply(client, kSetValue, MakeValue({}));
    return true;
  }
  if (is_once) {
    if (!values_.contains(key) && !StoreValue(key, value)) return false;
    Reply(client, kSetOnce, values_.find(key)->second);
    return true;
  }
  const auto found = values_.find(key);
  if (found == values_.end()) {
    client.awaited = key;
  } else {
    Reply(client, kGetValue, found->second);
  }
  return true;
}

std::shared_ptr<Server::Value> Server::MakeValue(std::string_view text) const {
  return std::allocate_shared<Value>(std::pmr::polymorphic_allocator<Value>(limits_.memory), text,
                                     limits_.memory);
}

void Server::Reply(Client& client, char kind, std::shared_ptr<const Value> value) const {
  StoreFrame frame = {.kind = static_cast<std::uint32_t>(kind),
                      .value_bytes = static_cast<std::uint32_t>(value->text.size()),
                      .nonce = client.asked_with};
  frame.code = CodeOfFrame(key_, kStoreAnswers, client.nonce, frame, {}, value->text);
  client.answer = {frame, std::move(value)};
}

bool Server::StoreValue(std::string_view key, std::string_view text) {
  const auto known = values_.find(key);
  if (values_.size() >= limits_.keys && known == values_.end()) return false;
  const std::size_t before = known == values_.end() ? 0 : key.size() + known->second->text.size();
  const std::size_t after = key.size() + text.size();
  if (stored_bytes_ - before > kMaxStoredBytes - after) return false;
  const std::shared_ptr<Value> value = MakeValue(text);
  if (known == values_.end()) {
    values_.emplace(key, value);
  } else {
    std::exchange(known->second, value)->is_replaced = true;
  }
  stored_bytes_ += after - before;
  for (const auto& client : clients_) {
    if (client->has_to_go || client->awaited != key) continue;
    client->awaited.clear();
    Reply(*client, kGetValue, value);
    // Bytes that the socket does not take now are sent later.
    Write(*client);
  }
  DropDebts();
  return true;
}

bool Server::Write(Client& client) {
  while (client.HasToSend()) {
    const StoreFrame& frame = client.answer->frame;
    const Text& text = client.answer->value->text;
    const std::size_t of_frame = std::min(client.sent, sizeof(frame));
    const std::size_t of_text = client.sent - of_frame;
    std::array<iovec, 2> parts = {
        {{const_cast<char*>(reinterpret_cast<const char*>(&frame)) + of_frame,
          sizeof(frame) - of_frame},
         {const_cast<char*>(text.data()) + of_text, text.size() - of_text}}};
    msghdr message = {};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    const ssize_t sent = ::sendmsg(client.socket.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) return errno == EAGAIN || errno == EINTR;
    client.sent += static_cast<std::size_t>(sent);
  }
  client.answer.reset();
  return true;
}

}  // namespace

Result<std::unique_ptr<TcpStoreServer>> TcpStoreServer::Listen(const std::string& address,
                                                               std::uint16_t port,
                                                               const GroupCredentials& members,
                                                               const TcpStoreLimits& limits) {
  if (auto allowed = CheckStoreAt(address, members); !allowed) return Propagate(allowed);
  const auto place = ParseAddress(address, port);
  if (!place) return tl::unexpected(place.error());
  auto listener = transport::Listen(*place);
  if (!listener) return Propagate(listener);
  const auto own_port = LocalPort(listener->get());
  if (!own_port) return tl::unexpected(own_port.error());
  UniqueFd stop(::eventfd(0, EFD_CLOEXEC));
  if (!stop) return Fail(ErrorCode::kUnavailable, "cannot create an event descriptor");
  return std::make_unique<Server>(std::move(*listener), std::move(stop), *own_port, members.key,
                                  limits);
}

}  // namespace espalier::transport
