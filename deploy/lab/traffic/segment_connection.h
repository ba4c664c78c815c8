#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "common/base/address/ip_address.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "common/loop/asio_event_loop.h"

namespace espalier::traffic {

struct Segment {
  std::uint64_t sequence = 0;
  std::int64_t length = 0;
};

// One TCP connection of a flow, from one source port. It sends segments one after another, and the
// receiver acknowledges them in the same order. Closing resets the connection, so that its port can
// be reused at once.
// Thread safety: the loop's thread. It may be closed, but not destroyed, inside its handlers.
class SegmentConnection {
 public:
  struct Options {
    std::uint32_t flow = 0;  // WorkloadFlow::index
    IpAddress source;
    IpAddress destination;
    std::uint16_t port = 0;
    bool steered = false;  // the agent chose the port
    int paths = 1;         // of the flow, each with a connection
  };
  struct Handlers {
    std::function<void(const Segment&)> on_acknowledged;
    std::function<void()> on_ready;   // the kernel has all pushed segments: push more
    std::function<void()> on_broken;  // the connection failed or was reset
  };

  // Begins to connect. Errors: kAlreadyExists if another connection has these addresses and
  // ports, else those of the system.
  static Result<std::unique_ptr<SegmentConnection>> Open(io::AsioEventLoop& loop,
                                                         const Options& options, Handlers handlers);
  ~SegmentConnection() { Close(); }

  const Options& options() const { return options_; }
  // True if the kernel has all pushed segments.
  bool IsReady() const { return writing_.empty(); }
  void Push(const Segment& segment);
  // The segments that were pushed and are not acknowledged, in order.
  std::vector<Segment> Unacknowledged() const;
  void Close();
  // Limits the rate, in bits per second, by the kernel's pacing; 0: no limit.
  void LimitRate(std::uint64_t rate_bps);

  // Bytes given to the kernel in segments that are not acknowledged as a whole.
  std::int64_t BytesWithKernel() const { return written_ - completed_; }
  std::int64_t BytesArrived() const;  // the part of these that TCP has acknowledged
  // Bytes that have arrived since the connection was opened.
  std::int64_t BytesEverArrived() const { return completed_ + BytesArrived(); }
  // The last call of Watch at which new bytes had arrived, or none were outstanding.
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

  // A segment that is being written to the kernel, with the headers before it.
  struct Writing {
    Segment segment;
    std::int64_t done = 0;  // bytes of headers and payload
    std::int64_t header_bytes = 0;
  };

  io::AsioEventLoop& loop_;
  const Options options_;
  const Handlers handlers_;
  UniqueFd socket_;
  UniqueFd write_side_;  // the same socket, as each watch needs its own descriptor
  TimerPtr readable_;
  TimerPtr writable_;
  std::uint64_t max_rate_bps_ = 0;
  bool connected_ = false;
  bool any_pushed_ = false;
  std::deque<Writing> writing_;
  std::deque<Writing> unacknowledged_;  // written segments
  std::int64_t written_ = 0;            // bytes of the stream, headers included
  std::int64_t completed_ = 0;          // bytes of the stream in acknowledged segments
  std::uint64_t ack_ = 0;
  std::size_t ack_bytes_ = 0;
  TimePoint last_progress_;
  std::int64_t last_arrived_ = 0;
};

}  // namespace espalier::traffic
