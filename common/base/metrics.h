#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace espalier {

// A number that only grows. Thread-safe, wait-free.
class Counter {
 public:
  void Add(std::int64_t n = 1);
  std::int64_t Value() const;

 private:
  friend class Metrics;
  explicit Counter(void* impl) : impl_(impl) {}
  void* impl_;
};

// A number that goes up and down. Thread-safe.
class Gauge {
 public:
  void Set(double value);
  double Value() const;

 private:
  friend class Metrics;
  explicit Gauge(void* impl) : impl_(impl) {}
  void* impl_;
};

// A distribution of seconds, in buckets from 1 us to 10 s. Thread-safe.
class LatencyHistogram {
 public:
  void ObserveSeconds(double seconds);

 private:
  friend class Metrics;
  explicit LatencyHistogram(void* impl) : impl_(impl) {}
  void* impl_;
};

// The metrics of one daemon (or of one simulated agent), named
// espalier_<module>_<what>_<unit>. Text() is the body of /metrics (Prometheus text format 0.0.4);
// it repeats renamed metrics under their deprecated names. A second request for a name returns
// the same metric. The references stay valid as long as this object.
class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  Counter& MakeCounter(const std::string& name, const std::string& help);
  Gauge& MakeGauge(const std::string& name, const std::string& help);
  LatencyHistogram& MakeLatency(const std::string& name, const std::string& help);
  std::string Text() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace espalier
