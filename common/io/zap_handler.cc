#include "common/io/zap_handler.h"

#include <zmq.h>

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/io/zmq_socket.h"

namespace espalier::io {
namespace {

constexpr const char* kZapEndpoint = "inproc://zeromq.zap.01";
constexpr std::string_view kZapVersion = "1.0";
constexpr std::size_t kKeyBytes = 32;

// The frames of a request, behind the routing id of the connection that asks.
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
  Handler(AsioEventLoop& loop, NameOfKey name_of_key, OnRefusal on_refusal)
      : socket_(loop, ZmqSocket::Type::kRouter),
        name_of_key_(std::move(name_of_key)),
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
    // It comes from libzmq itself, not from a peer.
    ESPALIER_CHECK(request.size() >= kCredentials, "frames={}", request.size());
    const std::string key = KeyOf(request);
    const bool may = !key.empty() && name_of_key_(key).has_value();
    const std::array<std::string_view, 8> answer{asker,
                                                 "",
                                                 kZapVersion,
                                                 request[kRequestId],
                                                 may ? "200" : "400",
                                                 may ? "" : "this key may not connect",
                                                 may ? std::string_view(key) : "",
                                                 ""};
    socket_.Send(answer);  // whoever has gone meanwhile needs no answer
    if (!may) on_refusal_(WithoutMapping(request[kAddress]), key);
    return true;
  }

  // An IPv4 address as it is, though the socket is of both families.
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
  OnRefusal on_refusal_;
  ZmqFrame frame_;
};

}  // namespace

Result<std::unique_ptr<ZapHandler>> ZapHandler::Start(AsioEventLoop& loop, NameOfKey name_of_key,
                                                      OnRefusal on_refusal) {
  auto handler = std::make_unique<Handler>(loop, std::move(name_of_key), std::move(on_refusal));
  if (Result<void> bound = handler->Bind(); !bound) return Propagate(bound);
  return handler;
}

}  // namespace espalier::io
