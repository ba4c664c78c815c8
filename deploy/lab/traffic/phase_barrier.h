#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "common/loop/asio_event_loop.h"

namespace espalier::traffic {

// Lets the hosts of a phased job wait for one another at the end of each phase. Every host tells
// the first host of the job, which then releases all: two messages a host, over unix sockets that
// all hosts of a lab reach, so that waiting puts nothing on the fabric, like a barrier over a
// cluster's management network.
//
// Thread safety: the loop's thread.
class PhaseBarrier {
 public:
  // Called when all hosts have arrived at the end of `step`, never inside Arrive.
  using OnReleased = std::function<void(int job, int step)>;

  // The sockets of a run are files `PREFIX.HOST`. Errors: kInvalidArgument for a path that is too
  // long, those of binding.
  static Result<std::unique_ptr<PhaseBarrier>> Open(io::AsioEventLoop& loop,
                                                    const std::string& prefix,
                                                    const std::string& host,
                                                    OnReleased on_released);
  ~PhaseBarrier();

  // Names the hosts of a job, the same and in the same order at each of them.
  void AddJob(int job, std::vector<std::string> hosts) { jobs_[job].hosts = std::move(hosts); }
  // Says that this host has ended a step of the job.
  void Arrive(int job, int step);

 private:
  struct Message {
    std::int32_t is_release = 0;
    std::int32_t job = 0;
    std::int32_t step = 0;
  };
  struct Job {
    std::vector<std::string> hosts;
    std::size_t arrived = 0;
  };

  PhaseBarrier(io::AsioEventLoop& loop, std::string prefix, std::string host,
               OnReleased on_released);

  std::string PathOf(std::string host) const {
    std::ranges::replace(host, '/', '-');  // in the name of a NIC
    return prefix_ + "." + host;
  }
  Result<void> Bind();
  void Send(const std::string& host, const Message& message);
  void Receive();
  void HandleArrival(const Message& message);

  io::AsioEventLoop& loop_;
  const std::string prefix_;
  const std::string host_;
  const OnReleased on_released_;
  UniqueFd socket_;
  TimerPtr watch_;
  std::map<int, Job> jobs_;
};

}  // namespace espalier::traffic
