#include "collective/transport/stores/tcp_store.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "collective/transport/base/fork_guard.h"
#include "collective/transport/rendezvous/handshake.h"
#include "collective/transport/stores/file_store.h"
#include "collective/transport/stores/folder_meeting.h"

namespace espalier::transport {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::uint32_t kMagic = 0x32535345;
constexpr std::uint32_t kMaxKeyBytes = 1024;
constexpr std::uint32_t kMaxValueBytes = 64 << 10;
// The most bytes of all keys and values: the endpoints of a thousand ranks in hundreds of groups.
constexpr std::size_t kMaxStoredBytes = 16 << 20;
constexpr std::size_t kMaxClients = 4096;
// The most clients without a complete request: they may be anybody, and each takes memory.
constexpr std::size_t kMaxSilent = 512;
// The most clients accepted at a time, so that earlier ones are read before they may be dropped.
constexpr std::size_t kMaxAtOnce = kMaxSilent / 4;
constexpr milliseconds kRetryPause{5};
constexpr char kSet = 's';
constexpr char kGet = 'g';
constexpr char kComeAgain = 'a';  // an answer: the key is not of the group that is served
constexpr milliseconds kComePause{20};
constexpr milliseconds kHungUpPatience{1'000};
constexpr std::string_view kScheme = "tcp://";

constexpr std::string_view kAsks = "espalier store 2 ask";
constexpr std::string_view kAnswers = "espalier store 2 answer";

// The server's first message on every connection.
struct Greeting {
  std::uint32_t magic = kMagic;
  std::uint32_t is_keyed = 0;
  Nonce nonce = {};
};
// The header of a request, which is followed by the key and, for kSet, the value; and of an answer,
// which is followed by the value. The code is HMAC(job key, purpose, server's nonce, the request or
// answer without its code). The frame's nonce is the client's; an answer repeats it.
struct Frame {
  std::uint32_t magic = kMagic;
  std::uint32_t kind = 0;
  std::uint32_t key_bytes = 0;
  std::uint32_t value_bytes = 0;
  Nonce nonce = {};
  Mac code = {};
};

Mac CodeOf(const std::optional<JobKey>& secret, std::string_view purpose, const Nonce& server,
           Frame frame, std::string_view key, std::string_view value) {
  if (!secret) return {};
  frame.code = {};
  return secret->Sign(purpose,
                      {std::as_bytes(std::span(server)), std::as_bytes(std::span(&frame, 1)),
                       std::as_bytes(std::span(key)), std::as_bytes(std::span(value))});
}

std::string ToBytes(const Frame& frame, std::string_view key, std::string_view value) {
  std::string bytes(reinterpret_cast<const char*>(&frame), sizeof(frame));
  bytes += key;
  bytes += value;
  return bytes;
}

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
        thread_([this] { Serve(); }) {}
  ~Server() override {
    ::eventfd_write(stop_.get(), 1);
    thread_.join();
  }

  std::uint16_t port() const override { return port_; }

 private:
  struct Client {
    Client(UniqueFd of, const Nonce& greeted)
        : socket(std::move(of)), guard(socket.get()), nonce(greeted) {}
    // Whether it has not sent a complete, authenticated request.
    bool IsSilent() const { return !has_asked; }

    UniqueFd socket;
    const ForkGuard guard;
    const Nonce nonce;  // of the server, for this client
    std::string received;
    std::string to_send;
    bool has_asked = false;
    Nonce asked_with{};   // of the client
    std::string awaited;  // the key for which it waits
    steady_clock::time_point since = steady_clock::now();
  };

  void Serve();
  void AcceptClients();
  void DropSilent();
  bool HasRoom();
  int WaitLimit() const;
  bool Read(Client& client);
  bool Answer(Client& client);
  void Reply(Client& client, char kind, const std::string& value) const;
  bool StoreValue(const std::string& key, std::string value);
  static bool Write(Client& client);

  UniqueFd listener_;
  const ForkGuard guard_;
  UniqueFd stop_;
  std::uint16_t port_;
  const std::optional<JobKey> key_;
  const TcpStoreLimits limits_;
  std::map<std::string, std::string> values_;
  std::size_t stored_bytes_ = 0;
  std::vector<std::unique_ptr<Client>> clients_;
  std::thread thread_;  // last: it uses the other members
};

void Server::Serve() {
  std::vector<pollfd> polled;
  while (true) {
    polled.assign({{stop_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}});
    for (const auto& client : clients_) {
      const int events = POLLIN | (client->to_send.empty() ? 0 : POLLOUT);
      polled.push_back({client->socket.get(), static_cast<short>(events), 0});
    }
    if (::poll(polled.data(), polled.size(), WaitLimit()) < 0) continue;
    if (polled[0].revents != 0) return;
    for (std::size_t i = 0; i + 2 < polled.size(); ++i) {
      const bool is_well = (polled[i + 2].revents & ~POLLOUT) == 0 || Read(*clients_[i]);
      if (!is_well || !Write(*clients_[i])) clients_[i].reset();
    }
    clients_.erase(std::remove(clients_.begin(), clients_.end(), nullptr), clients_.end());
    DropSilent();
    if (polled[1].revents != 0) AcceptClients();
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
    const Greeting greeting = {.is_keyed = key_ ? 1U : 0U, .nonce = DrawNonce()};
    if (!SendAtOnce(socket.get(), greeting)) continue;
    clients_.push_back(std::make_unique<Client>(std::move(socket), greeting.nonce));
  }
}

// Reads from a client. Returns false if it must be disconnected.
bool Server::Read(Client& client) {
  char part[4096];
  while (true) {
    const ssize_t received = ::recv(client.socket.get(), part, sizeof(part), MSG_DONTWAIT);
    if (received < 0) return errno == EAGAIN || errno == EINTR ? Answer(client) : false;
    if (received == 0) return false;
    client.received.append(part, static_cast<std::size_t>(received));
    if (client.received.size() > sizeof(Frame) + kMaxKeyBytes + kMaxValueBytes) return false;
  }
}

bool Server::Answer(Client& client) {
  if (client.has_asked) return client.received.empty();
  if (client.received.size() < sizeof(Frame)) return true;
  Frame frame;
  std::memcpy(&frame, client.received.data(), sizeof(frame));
  const bool is_set = frame.kind == static_cast<std::uint32_t>(kSet);
  const bool is_known = is_set || frame.kind == static_cast<std::uint32_t>(kGet);
  if (frame.magic != kMagic || !is_known || frame.key_bytes > kMaxKeyBytes ||
      frame.value_bytes > kMaxValueBytes) {
    return false;
  }
  const std::size_t whole = sizeof(frame) + frame.key_bytes + frame.value_bytes;
  if (client.received.size() < whole) return true;
  const std::string key = client.received.substr(sizeof(frame), frame.key_bytes);
  std::string value = client.received.substr(sizeof(frame) + frame.key_bytes, frame.value_bytes);
  client.received.erase(0, whole);
  if (!client.received.empty()) return false;
  if (!IsSame(frame.code, CodeOf(key_, kAsks, client.nonce, frame, key, value))) return false;
  client.has_asked = true;
  client.asked_with = frame.nonce;
  if (!key.starts_with(limits_.prefix)) {
    Reply(client, kComeAgain, {});
    return true;
  }
  if (is_set) {
    if (!StoreValue(key, std::move(value))) return false;
    Reply(client, kSet, {});
    return true;
  }
  const auto found = values_.find(key);
  if (found == values_.end()) {
    client.awaited = key;
  } else {
    Reply(client, kGet, found->second);
  }
  return true;
}

void Server::Reply(Client& client, char kind, const std::string& value) const {
  Frame frame = {.kind = static_cast<std::uint32_t>(kind),
                 .value_bytes = static_cast<std::uint32_t>(value.size()),
                 .nonce = client.asked_with};
  frame.code = CodeOf(key_, kAnswers, client.nonce, frame, {}, value);
  client.to_send += ToBytes(frame, {}, value);
}

bool Server::StoreValue(const std::string& key, std::string value) {
  if (values_.size() >= limits_.keys && !values_.contains(key)) return false;
  const auto known = values_.find(key);
  const std::size_t before = known == values_.end() ? 0 : key.size() + known->second.size();
  const std::size_t after = key.size() + value.size();
  if (stored_bytes_ - before > kMaxStoredBytes - after) return false;
  stored_bytes_ += after - before;
  const std::string& stored = values_[key] = std::move(value);
  for (const auto& client : clients_) {
    if (client == nullptr || client->awaited != key) continue;
    client->awaited.clear();
    Reply(*client, kGet, stored);
    // Bytes that the socket does not take now are sent later.
    Write(*client);
  }
  return true;
}

bool Server::Write(Client& client) {
  while (!client.to_send.empty()) {
    const ssize_t sent = ::send(client.socket.get(), client.to_send.data(), client.to_send.size(),
                                MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) return errno == EAGAIN || errno == EINTR;
    client.to_send.erase(0, static_cast<std::size_t>(sent));
  }
  return true;
}

struct Place {
  std::string address;
  std::uint16_t port = 0;
};

Result<Place> ParsePlace(const std::string& place) {
  std::string_view rest = std::string_view(place).substr(kScheme.size());
  const std::size_t colon = rest.rfind(':');
  Place parsed;
  bool is_right = colon != std::string_view::npos;
  if (is_right) {
    const std::string_view digits = rest.substr(colon + 1);
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), parsed.port);
    is_right =
        read.ec == std::errc() && read.ptr == digits.data() + digits.size() && parsed.port != 0;
    rest = rest.substr(0, colon);
    if (rest.size() > 2 && rest.front() == '[' && rest.back() == ']') {
      rest = rest.substr(1, rest.size() - 2);
    }
    parsed.address = rest;
  }
  if (is_right) return parsed;
  return Fail(
      ErrorCode::kInvalidArgument,
      fmt::format("\"{}\" is not a rendezvous store (write tcp://ADDRESS:PORT, or a folder)",
                  place));
}

Result<void> CheckMeetsAt(const std::string& digits, const GroupCredentials& members) {
  const auto address = IpAddress::Parse(digits);
  if (!address) return tl::unexpected(address.error());
  return members.CheckMeetsAt(*address);
}

class ServedStore : public RendezvousStore {
 public:
  ServedStore(std::unique_ptr<TcpStoreServer> server, std::unique_ptr<RendezvousStore> store)
      : server_(std::move(server)), store_(std::move(store)) {}
  Result<void> Set(const std::string& key, const std::string& value) override {
    return store_->Set(key, value);
  }
  Result<std::string> Get(const std::string& key, Deadline deadline) override {
    return store_->Get(key, deadline);
  }

 private:
  std::unique_ptr<TcpStoreServer> server_;
  std::unique_ptr<RendezvousStore> store_;
};

}  // namespace

Result<std::unique_ptr<TcpStoreServer>> TcpStoreServer::Listen(const std::string& address,
                                                               std::uint16_t port,
                                                               const GroupCredentials& members,
                                                               const TcpStoreLimits& limits) {
  if (auto allowed = CheckMeetsAt(address, members); !allowed) return Propagate(allowed);
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

Result<std::unique_ptr<TcpStore>> TcpStore::At(const std::string& address, std::uint16_t port,
                                               milliseconds patience,
                                               const GroupCredentials& members) {
  if (auto allowed = CheckMeetsAt(address, members); !allowed) return Propagate(allowed);
  const auto server = ParseAddress(address, port);
  if (!server) return tl::unexpected(server.error());
  return std::unique_ptr<TcpStore>(
      new TcpStore(*server, fmt::format("{}:{}", address, port), patience, members.key));
}

Result<std::string> TcpStore::Ask(char kind, const std::string& key, const std::string& value,
                                  Deadline deadline) {
  if (key.empty() || key.size() > kMaxKeyBytes || value.size() > kMaxValueBytes) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("key \"{}\" or its value is empty or too long", key));
  }
  SocketAddress any = server_;
  std::memset(&any.storage, 0, sizeof(any.storage));
  any.storage.ss_family = server_.storage.ss_family;
  bool served_others = false;
  const auto fail = [&](const Error& error) {
    return Fail(error.code,
                fmt::format("rendezvous store at {}: {}{} (key {})", name_, error.message,
                            served_others ? "; it has served another group" : "", key));
  };
  std::optional<Error> hung_up;  // the first time
  Deadline end = deadline;       // of new attempts
  while (true) {
    Error error{ErrorCode::kUnavailable, "timed out"};
    milliseconds pause = kRetryPause;
    if (auto socket = Dial(any, server_, end); !socket) {
      error = socket.error();
      error.message += "; rank 0, which serves it, has not started or has left";
    } else {
      auto answer = AskOn(socket->get(), kind, key, value, deadline);
      if (answer && *answer) return std::move(**answer);
      served_others = served_others || answer;
      if (!answer && answer.error().code != ErrorCode::kUnavailable) return fail(answer.error());
      if (!answer && !hung_up) {
        hung_up = answer.error();
        end = std::min(deadline, steady_clock::now() + kHungUpPatience);
      }
      pause = kComePause;
    }
    if (steady_clock::now() >= end) return fail(hung_up.value_or(error));
    std::this_thread::sleep_for(pause);
  }
}

Result<std::optional<std::string>> TcpStore::AskOn(int socket, char kind, const std::string& key,
                                                   const std::string& value, Deadline deadline) {
  Greeting greeting;
  auto done = ReceiveWhole(socket, &greeting, sizeof(greeting), deadline);
  if (!done) return Propagate(done);
  const auto not_ours = [] {
    return Fail(ErrorCode::kUnavailable, "something other than a rendezvous store answers");
  };
  if (greeting.magic != kMagic) return not_ours();
  if ((greeting.is_keyed != 0) != key_.has_value()) {
    return Fail(ErrorCode::kPermissionDenied,
                key_ ? "it has no job key, but this rank has one (give all ranks the same key)"
                     : "it has a job key, but this rank has none (set ESPALIER_JOB_KEY_FILE)");
  }
  Frame request = {.kind = static_cast<std::uint32_t>(kind),
                   .key_bytes = static_cast<std::uint32_t>(key.size()),
                   .value_bytes = static_cast<std::uint32_t>(value.size()),
                   .nonce = DrawNonce()};
  request.code = CodeOf(key_, kAsks, greeting.nonce, request, key, value);
  const std::string bytes = ToBytes(request, key, value);
  done = SendWhole(socket, bytes.data(), bytes.size(), deadline);
  if (!done) return Propagate(done);
  Frame answer;
  done = ReceiveWhole(socket, &answer, sizeof(answer), deadline);
  if (!done) {
    if (steady_clock::now() < deadline && key_) {
      done.error().message += " (it may have another job key than this rank, or be full)";
    }
    return Propagate(done);
  }
  if (answer.magic != kMagic || answer.value_bytes > kMaxValueBytes) return not_ours();
  std::string text(answer.value_bytes, '\0');
  done = ReceiveWhole(socket, text.data(), text.size(), deadline);
  if (!done) return Propagate(done);
  const bool is_right =
      answer.nonce == request.nonce && answer.key_bytes == 0 &&
      IsSame(answer.code, CodeOf(key_, kAnswers, greeting.nonce, answer, {}, text));
  if (is_right && answer.kind == static_cast<std::uint32_t>(kComeAgain)) return std::nullopt;
  if (is_right && answer.kind == request.kind) return text;
  return Fail(ErrorCode::kPermissionDenied,
              "the process that answered does not have this job's key");
}

Result<void> TcpStore::Set(const std::string& key, const std::string& value) {
  auto answer = Ask(kSet, key, value, steady_clock::now() + patience_);
  if (!answer) return Propagate(answer);
  return {};
}

Result<std::string> TcpStore::Get(const std::string& key, Deadline deadline) {
  return Ask(kGet, key, {}, deadline);
}

Result<std::unique_ptr<RendezvousStore>> OpenStore(const std::string& place, int rank,
                                                   milliseconds patience,
                                                   const GroupCredentials& members,
                                                   const std::string& prefix) {
  if (!place.starts_with(kScheme)) {
    auto checked = CheckFolder(place);
    if (!checked) return Propagate(checked);
    return std::make_unique<FileStore>(place);
  }
  auto parsed = ParsePlace(place);
  if (!parsed) return Propagate(parsed);
  auto store = TcpStore::At(parsed->address, parsed->port, patience, members);
  if (!store) return Propagate(store);
  if (rank != 0) return std::move(*store);
  auto server = TcpStoreServer::Listen(parsed->address, parsed->port, members, {.prefix = prefix});
  if (!server) return Propagate(server);
  return std::make_unique<ServedStore>(std::move(*server), std::move(*store));
}

}  // namespace espalier::transport
