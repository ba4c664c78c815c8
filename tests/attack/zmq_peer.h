#pragma once

#include <string>
#include <string_view>

namespace espalier::attack {

// Whoever speaks ZeroMQ to a controller by libzmq's own interface: with a good key where it has
// one, and without the manners of our agents. It does not come back by itself, and takes nothing
// that it is sent for a request to go.
class ZmqPeer {
 public:
  struct Keys {
    std::string server_public_key;
    std::string public_key;
    std::string secret_key;
  };

  ZmqPeer(const std::string& endpoint, const Keys& keys, std::string_view routing_id = "");
  ~ZmqPeer();
  ZmqPeer(const ZmqPeer&) = delete;
  ZmqPeer& operator=(const ZmqPeer&) = delete;

  // False where libzmq has no room for it now. more: the message does not end with this frame.
  bool Send(std::string_view frame, bool more = false);
  bool is_connected();
  // The other side has closed the connection.
  bool is_disconnected();

 private:
  void SetText(int option, std::string_view text);
  void TakeEvents();

  void* const context_;
  void* const dealer_;
  void* const events_;
  bool is_connected_ = false;
  bool is_disconnected_ = false;
};

}  // namespace espalier::attack
