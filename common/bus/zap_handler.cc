#include "common/bus/zap_handler.h"

#include <zmq.h>

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/bus/zmq_socket.h"

namespace espalier::io {
namespace {

constexpr const char* kZapEndpoint = "inproc://zeromq.zap.01";
constexpr std::string_view kZapVersion = "1.0";
constexpr std::size_t kKeyBytes = 32;

// The frames of a request, after the routing id of the connection.
enum Frame : std::size_t {
  kDelimiter,
  kVersion,
  kRequestId,
  kDomain,
  kAddress,
  kIdentity,
  kMechanism,
  kCredentials,
  kFrames
};

class Handler : public ZapHandler {
 public:
  Handler(ZmqSocket socket, NameOfKey name_of_key, Admit admit, OnRefusal on_refusal)
      : socket_(std::move(socket)),
        name_of_key_(std::move(name_of_key)),
        admit_(std::move(admit)),
        on_refusal_(std::move(on_refusal)) {}

  Result<void> Bind() {
    if (Result<void> bound = socket_.Bind(kZapEndpoint); !bound) return bound;
    socket_.OnReadable([this] { return TakeRequest(); });
    return {};
  }

 private:
  bool TakeRequest() {
    if (!socket_.Receive(frame_)) return false;
    const std::string asker(frame_.bytes());
    std::vector<std::string> request;
    while (frame_.HasMore() && socket_.Receive(frame_)) request.emplace_back(frame_.bytes());
    // The request comes from libzmq itself, not from a peer.
    ESPALIER_CHECK(request.size() >= kCredentials, "frames={}", request.size());
    const std::string key = KeyOf(request);
    const std::optional<std::string> name = key.empty() ? std::nullopt : name_of_key_(key);
    const bool may = name && admit_(*name);
    const std::array<std::string_view, 8> answer{asker,
                                                 "",
                                                 kZapVersion,
                                                 request[kRequestId],
                                                 StatusOf(name.has_value(), may),
                                                 may ? "" : "this key may not connect now",
                                                 may ? std::string_view(key) : "",
                                                 ""};
    socket_.Send(answer);  // a connection that is gone needs no answer
    if (!name) on_refusal_(WithoutMapping(request[kAddress]), key);
    return true;
  }

  // The ZAP status codes: a temporary failure makes the other end try again, a permanent one gives
  // it the reason.
  static std::string_view StatusOf(bool is_known, bool may) {
    if (may) return "200";
    return is_known ? "300" : "400";
  }

  // Removes the IPv4-mapped prefix, as the socket serves both address families.
  static std::string WithoutMapping(const std::string& address) {
    constexpr std::string_view kMapped = "::ffff:";
    return address.starts_with(kMapped) ? address.substr(kMapped.size()) : address;
  }

  static std::string KeyOf(const std::vector<std::string>& request) {
    if (request.size() != kFrames || request[kVersion] != kZapVersion ||
        request[kMechanism] != "CURVE" || request[kCredentials].size() != kKeyBytes) {
      return "";
    }
    std::array<char, 41> text{};
    zmq_z85_encode(text.data(), reinterpret_cast<const std::uint8_t*>(request[kCredentials].data()),
                   kKeyBytes);
    return text.data();
  }

  ZmqSocket socket_;
  NameOfKey name_of_key_;
  Admit admit_;
  OnRefusal on_refusal_;
  ZmqFrame frame_;
};

}  // namespace

Result<std::unique_ptr<ZapHandler>> ZapHandler::Start(AsioEventLoop& loop, NameOfKey name_of_key,
                                                      Admit admit, OnRefusal on_refusal) {
  Result<ZmqSocket> socket = ZmqSocket::Open(loop, ZmqSocket::Type::kRouter);
  if (!socket) return Propagate(socket);
  auto handler = std::make_unique<Handler>(std::move(*socket), std::move(name_of_key),
                                           std::move(admit), std::move(on_refusal));
  if (Result<void> bound = handler->Bind(); !bound) return Propagate(bound);
  return handler;
}

}  // namespace espalier::io
