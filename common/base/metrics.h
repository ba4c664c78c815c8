#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
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

using MetricLabels = std::map<std::string, std::string>;

// Gauges of one name that differ in their labels, such as one for each link. Thread-safe against
// Metrics::Text; its own calls come from one thread.
class GaugeFamily {
 public:
  using Labels = MetricLabels;

  // Sets the gauge with these labels. False: there are as many gauges as the family may have, and
  // this one is left out.
  bool Set(const Labels& labels, double value);
  // Removes the gauges that were not set since the last call.
  void EndRound();

  struct Impl;
  explicit GaugeFamily(std::unique_ptr<Impl> impl);
  ~GaugeFamily();
  GaugeFamily(const GaugeFamily&) = delete;
  GaugeFamily& operator=(const GaugeFamily&) = delete;

 private:
  std::unique_ptr<Impl> impl_;
};

// The metrics of one daemon (or of one simulated agent), named
// espalier_<module>_<what>_<unit>. Text() is the body of /metrics (Prometheus text format 0.0.4).
// A second request for a name, with the same labels, returns the same metric. The references stay
// valid as long as this object.
class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  Counter& MakeCounter(const std::string& name, const std::string& help);
  Gauge& MakeGauge(const std::string& name, const std::string& help);
  // `most`: so many gauges at most, whatever labels others choose.
  GaugeFamily& MakeGauges(const std::string& name, const std::string& help, std::size_t most);
  LatencyHistogram& MakeLatency(const std::string& name, const std::string& help,
                                const MetricLabels& labels = {});
  std::string Text() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace espalier
