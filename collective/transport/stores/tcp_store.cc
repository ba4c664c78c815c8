#include "collective/transport/stores/tcp_store.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <thread>
#include <utility>

#include "collective/transport/stores/file_store.h"
#include "collective/transport/stores/folder_meeting.h"
#include "collective/transport/stores/store_frames.h"
#include "collective/transport/stores/tcp_store_server.h"

namespace espalier::transport {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kRetryPause{5};
constexpr milliseconds kComePause{20};
constexpr milliseconds kHungUpPatience{1'000};
constexpr std::string_view kScheme = "tcp://";

std::string ToBytes(const StoreFrame& frame, std::string_view key, std::string_view value) {
  std::string bytes(reinterpret_cast<const char*>(&frame), sizeof(frame));
  bytes += key;
  bytes += value;
  return bytes;
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

class ServedStore : public RendezvousStore {
 public:
  ServedStore(std::unique_ptr<TcpStoreServer> server, std::unique_ptr<RendezvousStore> store)
      : server_(std::move(server)), store_(std::move(store)) {}
  Result<void> Set(const std::string& key, const std::string& value, Deadline deadline) override {
    return store_->Set(key, value, deadline);
  }
  Result<std::string> Get(const std::string& key, Deadline deadline) override {
    return store_->Get(key, deadline);
  }
  Result<std::string> SetOnce(const std::string& key, const std::string& value,
                              Deadline deadline) override {
    return store_->SetOnce(key, value, deadline);
  }

 private:
  std::unique_ptr<TcpStoreServer> server_;
  std::unique_ptr<RendezvousStore> store_;
};

}  // namespace

Result<std::unique_ptr<TcpStore>> TcpStore::At(const std::string& address, std::uint16_t port,
                                               const GroupCredentials& members) {
  if (auto allowed = CheckStoreAt(address, members); !allowed) return Propagate(allowed);
  const auto server = ParseAddress(address, port);
  if (!server) return tl::unexpected(server.error());
  return std::unique_ptr<TcpStore>(
      new TcpStore(*server, fmt::format("{}:{}", address, port), members.key));
}

Result<std::string> TcpStore::Ask(char kind, const std::string& key, const std::string& value,
                                  Deadline deadline) {
  if (key.empty() || key.size() > kMaxStoreKeyBytes || value.size() > kMaxStoreValueBytes) {
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
    const auto socket = Dial(any, server_, end);
    if (!socket) {
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
    // That nobody serves it any more says more than that a connection broke before.
    if (steady_clock::now() >= end) return fail(socket ? hung_up.value_or(error) : error);
    std::this_thread::sleep_for(pause);
  }
}

Result<std::optional<std::string>> TcpStore::AskOn(int socket, char kind, const std::string& key,
                                                   const std::string& value, Deadline deadline) {
  StoreGreeting greeting;
  auto done = ReceiveWhole(socket, &greeting, sizeof(greeting), deadline);
  if (!done) return Propagate(done);
  const auto not_ours = [] {
    return Fail(ErrorCode::kUnavailable, "something other than a rendezvous store answers");
  };
  if (greeting.magic != kStoreMagic) return not_ours();
  if ((greeting.is_keyed != 0) != key_.has_value()) {
    return Fail(ErrorCode::kPermissionDenied,
                key_ ? "it has no job key, but this rank has one (give all ranks the same key)"
                     : "it has a job key, but this rank has none (set ESPALIER_JOB_KEY_FILE)");
  }
  StoreFrame request = {.kind = static_cast<std::uint32_t>(kind),
                        .key_bytes = static_cast<std::uint32_t>(key.size()),
                        .value_bytes = static_cast<std::uint32_t>(value.size()),
                        .nonce = DrawNonce()};
  request.code = CodeOfFrame(key_, kStoreAsks, greeting.nonce, request, key, value);
  const std::string bytes = ToBytes(request, key, value);
  done = SendWhole(socket, bytes.data(), bytes.size(), deadline);
  if (!done) return Propagate(done);
  StoreFrame answer;
  done = ReceiveWhole(socket, &answer, sizeof(answer), deadline);
  if (!done) {
    if (steady_clock::now() < deadline && key_) {
      done.error().message += " (it may have another job key than this rank, or be full)";
    }
    return Propagate(done);
  }
  if (answer.magic != kStoreMagic || answer.value_bytes > kMaxStoreValueBytes) return not_ours();
  std::string text(answer.value_bytes, '\0');
  done = ReceiveWhole(socket, text.data(), text.size(), deadline);
  if (!done) return Propagate(done);
  const bool is_right =
      answer.nonce == request.nonce && answer.key_bytes == 0 &&
      IsSame(answer.code, CodeOfFrame(key_, kStoreAnswers, greeting.nonce, answer, {}, text));
  if (is_right && answer.kind == static_cast<std::uint32_t>(kComeAgain)) return std::nullopt;
  if (is_right && answer.kind == request.kind) return text;
  return Fail(ErrorCode::kPermissionDenied,
              "the process that answered does not have this job's key");
}

Result<void> TcpStore::Set(const std::string& key, const std::string& value, Deadline deadline) {
  auto answer = Ask(kSetValue, key, value, deadline);
  if (!answer) return Propagate(answer);
  return {};
}

Result<std::string> TcpStore::Get(const std::string& key, Deadline deadline) {
  return Ask(kGetValue, key, {}, deadline);
}

Result<std::string> TcpStore::SetOnce(const std::string& key, const std::string& value,
                                      Deadline deadline) {
  return Ask(kSetOnce, key, value, deadline);
}

Result<IpAddress> AddressTowardsStore(const std::string& place) {
  auto parsed = ParsePlace(place);
  if (!parsed) return Propagate(parsed);
  auto server = ParseAddress(parsed->address, parsed->port);
  if (!server) return Propagate(server);
  return AddressTowards(*server);
}

Result<std::unique_ptr<RendezvousStore>> OpenStore(const std::string& place, int rank,
                                                   const GroupCredentials& members,
                                                   const TcpStoreLimits& limits) {
  if (!place.starts_with(kScheme)) {
    auto checked = CheckFolder(place);
    if (!checked) return Propagate(checked);
    return std::make_unique<FileStore>(place);
  }
  auto parsed = ParsePlace(place);
  if (!parsed) return Propagate(parsed);
  auto store = TcpStore::At(parsed->address, parsed->port, members);
  if (!store) return Propagate(store);
  if (rank != 0) return std::move(*store);
  auto server = TcpStoreServer::Listen(parsed->address, parsed->port, members, limits);
  if (!server) return Propagate(server);
  return std::make_unique<ServedStore>(std::move(*server), std::move(*store));
}

}  // namespace espalier::transport
