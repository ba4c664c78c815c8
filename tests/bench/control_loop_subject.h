#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/bus/curve.h"

namespace espalier::bench {

// Runs one subject of the measurement in its own process:
//   "bare"        libzmq's ROUTER in a poll loop, which decodes every message and answers a report
//                 that opens flows by a push of the same size: the cost of transport and parser
//   "bus"         the same answers from the product's event loop and bus
//   "controller"  the product
//   "bus+curve", "controller+curve"  the same with encryption and a key for every agent
// Prints its endpoint on standard output first, and runs until it is killed. Returns false for
// another name.
bool ServeSubject(const std::string& name, int agents);

// A subject in a child process, which is killed when this object is destroyed.
class SubjectProcess {
 public:
  SubjectProcess(const std::string& name, int agents);
  ~SubjectProcess();
  SubjectProcess(const SubjectProcess&) = delete;
  SubjectProcess& operator=(const SubjectProcess&) = delete;

  const std::string& endpoint() const { return endpoint_; }
  // The keys of agent "h0", "h1", ...; none if the subject uses none.
  std::optional<io::CurveClient> KeysOf(int agent) const;

  struct Usage {
    double cpu_seconds = 0;   // of all threads, from the start
    double loop_seconds = 0;  // of the thread that runs the loop
    double resident_mib = 0;  // current
  };
  Usage Measure() const;
  // Makes an operator of the controller drain four spines, or end that. Switches go on to hash over
  // them, as they would not if the spines had failed.
  void ChangeSpines() const;
  // The controller's metrics, in the Prometheus text format. Other subjects have none and abort.
  std::string Metrics() const;

 private:
  pid_t pid_ = 0;
  int output_ = -1;  // its standard output
  std::string endpoint_;
  std::string public_key_;
  std::vector<io::CurveKeys> agent_keys_;
};

}  // namespace espalier::bench
