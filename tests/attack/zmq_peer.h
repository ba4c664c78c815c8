#pragma once

#include <string>
#include <string_view>

namespace espalier::attack {

// A peer that talks to a controller through libzmq directly, optionally with a valid key. Unlike an
// agent, it does not reconnect and ignores requests to disconnect.
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

  // Sends a frame; returns false if libzmq has no room now. more: the message continues after it.
  bool Send(std::string_view frame, bool more = false);
  bool is_connected();
  // True if the other side has closed the connection.
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
