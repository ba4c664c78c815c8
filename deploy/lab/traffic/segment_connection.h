#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "common/base/ip_address.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "common/loop/asio_event_loop.h"

namespace espalier::traffic {

struct Segment {
  std::uint64_t sequence = 0;
  std::int64_t length = 0;
};

// One TCP connection of a flow, from one source port: segments go out one after the other, the
// receiver's acknowledgements come back in the same order. Closing it resets it, so that its port
// can be used again at once.
// Thread safety: the loop's thread. May be closed, not destroyed, inside its handlers.
class SegmentConnection {
 public:
  struct Options {
    std::uint32_t flow = 0;  // WorkloadFlow::index
    IpAddress source;
    IpAddress destination;
    std::uint16_t port = 0;
    bool steered = false;  // the agent chose the port
  };
  struct Handlers {
    std::function<void(const Segment&)> on_acknowledged;
    std::function<void()> on_ready;   // all that was pushed is with the kernel: push more
    std::function<void()> on_broken;  // could not connect, or was cut off
  };

  // Begins to connect. Errors: kAlreadyExists if another connection has these addresses and
  // ports, else what the system says.
  static Result<std::unique_ptr<SegmentConnection>> Open(io::AsioEventLoop& loop,
                                                         const Options& options, Handlers handlers);
  ~SegmentConnection() { Close(); }

  const Options& options() const { return options_; }
  // All that was pushed is with the kernel.
  bool IsReady() const { return writing_.empty(); }
  void Push(const Segment& segment);
  // Pushed and not acknowledged, in order.
  std::vector<Segment> Unacknowledged() const;
  void Close();
  // What it may send, bits a second, by the kernel's pacing; 0: no limit.
  void LimitRate(std::uint64_t rate_bps);

  // Of what was pushed and not acknowledged as whole segments, in bytes.
  std::int64_t BytesWithKernel() const { return written_ - completed_; }
  std::int64_t BytesArrived() const;  // of those, acknowledged by TCP
  // Since it was opened.
  std::int64_t BytesEverArrived() const { return completed_ + BytesArrived(); }
  // The last time that something arrived (or that there was nothing to wait for), as seen by the
  // calls of Watch.
  TimePoint last_progress() const { return last_progress_; }
  void Watch();
  struct Transport {
    std::uint32_t retries = 0;
    std::uint32_t rtt_us = 0;
  };
  Transport ReadTransport() const;

 private:
  SegmentConnection(io::AsioEventLoop& loop, const Options& options, Handlers handlers);

  bool Connect();
  void HandleWritable();
  bool FinishConnecting();
  bool WriteSome();
  void HandleReadable();
  void HandleAck();

  // A segment on its way into the kernel, with the headers that go before it.
  struct Writing {
    Segment segment;
    std::int64_t done = 0;  // of headers and payload
    std::int64_t header_bytes = 0;
  };

  io::AsioEventLoop& loop_;
  const Options options_;
  const Handlers handlers_;
  UniqueFd socket_;
  UniqueFd write_side_;  // the same socket, as a descriptor takes one watch
  TimerPtr readable_;
  TimerPtr writable_;
  std::uint64_t max_rate_bps_ = 0;
  bool connected_ = false;
  bool any_pushed_ = false;
  std::deque<Writing> writing_;
  std::deque<Writing> unacknowledged_;  // those written
  std::int64_t written_ = 0;            // of the stream, headers too
  std::int64_t completed_ = 0;          // of the stream: segments acknowledged
  std::uint64_t ack_ = 0;
  std::size_t ack_bytes_ = 0;
  TimePoint last_progress_;
  std::int64_t last_arrived_ = 0;
};

}  // namespace espalier::traffic
