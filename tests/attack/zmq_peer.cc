#include "tests/attack/zmq_peer.h"

#include <zmq.h>

#include <cstdint>
#include <cstring>

namespace espalier::attack {
namespace {

constexpr const char* kEvents = "inproc://events";

void Set(void* socket, int option, int value) {
  zmq_setsockopt(socket, option, &value, sizeof value);
}

}  // namespace

ZmqPeer::ZmqPeer(const std::string& endpoint, const Keys& keys, std::string_view routing_id)
    : context_(zmq_ctx_new()),
      dealer_(zmq_socket(context_, ZMQ_DEALER)),
      events_(zmq_socket(context_, ZMQ_PAIR)) {
  Set(dealer_, ZMQ_LINGER, 0);
  Set(dealer_, ZMQ_RECONNECT_IVL, -1);
  Set(dealer_, ZMQ_SNDHWM, 100'000);
  if (!routing_id.empty()) SetText(ZMQ_ROUTING_ID, routing_id);
  SetText(ZMQ_CURVE_SERVERKEY, keys.server_public_key);
  SetText(ZMQ_CURVE_PUBLICKEY, keys.public_key);
  SetText(ZMQ_CURVE_SECRETKEY, keys.secret_key);
  zmq_socket_monitor(dealer_, kEvents, ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED);
  Set(events_, ZMQ_LINGER, 0);
  zmq_connect(events_, kEvents);
  zmq_connect(dealer_, endpoint.c_str());
}

ZmqPeer::~ZmqPeer() {
  zmq_socket_monitor(dealer_, nullptr, 0);
  zmq_close(events_);
  zmq_close(dealer_);
  zmq_ctx_term(context_);
}

bool ZmqPeer::Send(std::string_view frame, bool more) {
  const int flags = ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0);
  return zmq_send(dealer_, frame.data(), frame.size(), flags) >= 0;
}

bool ZmqPeer::is_connected() {
  TakeEvents();
  return is_connected_ && !is_disconnected_;
}

bool ZmqPeer::is_disconnected() {
  TakeEvents();
  return is_disconnected_;
}

void ZmqPeer::SetText(int option, std::string_view text) {
  zmq_setsockopt(dealer_, option, text.data(), text.size());
}

void ZmqPeer::TakeEvents() {
  zmq_msg_t frame;
  zmq_msg_init(&frame);
  while (zmq_msg_recv(&frame, events_, ZMQ_DONTWAIT) >= 0) {
    std::uint16_t event = 0;
    std::memcpy(&event, zmq_msg_data(&frame), sizeof event);
    zmq_msg_recv(&frame, events_, 0);  // the endpoint
    is_connected_ |= event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED;
    is_disconnected_ |= event == ZMQ_EVENT_DISCONNECTED;
  }
  zmq_msg_close(&frame);
}

}  // namespace espalier::attack
