#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/bus/curve.h"

namespace espalier::bench {

// What is measured, each in a process of its own:
//   "bare"        libzmq's ROUTER in a poll loop; decodes every message and answers a report that
//                 opens flows by a push of the same size: what the transport and the parser cost
//   "bus"         the same answers from the event loop and the bus of the product
//   "controller"  the product
//   "bus+curve", "controller+curve"  the same, encrypted: every agent has a key of its own
// Runs until it is killed; prints its endpoint on standard output first.
// Errors: false for another name.
bool ServeSubject(const std::string& name, int agents);

// A subject that runs in a child process, killed with this object.
class SubjectProcess {
 public:
  SubjectProcess(const std::string& name, int agents);
  ~SubjectProcess();
  SubjectProcess(const SubjectProcess&) = delete;
  SubjectProcess& operator=(const SubjectProcess&) = delete;

  const std::string& endpoint() const { return endpoint_; }
  // Of the agent "h0", "h1", ...; none where the subject wants none.
  std::optional<io::CurveClient> KeysOf(int agent) const;

  struct Usage {
    double cpu_seconds = 0;   // of all threads, so far
    double loop_seconds = 0;  // of the thread that runs the loop
    double resident_mib = 0;  // now
  };
  Usage Measure() const;

 private:
  pid_t pid_ = 0;
  std::string endpoint_;
  std::string public_key_;
  std::vector<io::CurveKeys> agent_keys_;
};

}  // namespace espalier::bench
