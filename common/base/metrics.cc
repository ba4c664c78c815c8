#include "common/base/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <deque>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace espalier {
namespace {

const prometheus::Histogram::BucketBoundaries& LatencyBuckets() {
  static const prometheus::Histogram::BucketBoundaries buckets = {
      1e-6, 2.5e-6, 5e-6,   1e-5, 2.5e-5, 5e-5,   1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3,
      5e-3, 1e-2,   2.5e-2, 5e-2, 1e-1,   2.5e-1, 5e-1, 1.0,    2.5,  5.0,  10.0};
  return buckets;
}

}  // namespace

struct GaugeFamily::Impl {
  struct Member {
    prometheus::Gauge* gauge = nullptr;
    bool is_set = false;  // in this round
  };
  prometheus::Family<prometheus::Gauge>* family = nullptr;
  std::size_t most = 0;
  std::map<Labels, Member> members;
};

GaugeFamily::GaugeFamily(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
GaugeFamily::~GaugeFamily() = default;

bool GaugeFamily::Set(const Labels& labels, double value) {
  auto found = impl_->members.find(labels);
  if (found == impl_->members.end()) {
    if (impl_->members.size() >= impl_->most) return false;
    found = impl_->members.emplace(labels, Impl::Member{&impl_->family->Add(labels)}).first;
  }
  found->second.gauge->Set(value);
  found->second.is_set = true;
  return true;
}

void GaugeFamily::EndRound() {
  std::erase_if(impl_->members, [&](const auto& member) {
    if (!member.second.is_set) impl_->family->Remove(member.second.gauge);
    return !member.second.is_set;
  });
  for (auto& [labels, member] : impl_->members) member.is_set = false;
}

struct Metrics::Impl {
  prometheus::Registry registry;
  std::mutex mutex;
  std::map<std::string, Counter*> counters;
  std::map<std::string, Gauge*> gauges;
  std::map<std::pair<std::string, MetricLabels>, LatencyHistogram*> histograms;
  std::deque<Counter> counter_storage;
  std::deque<Gauge> gauge_storage;
  std::deque<LatencyHistogram> histogram_storage;
  std::map<std::string, std::unique_ptr<GaugeFamily>> families;
};

void Counter::Add(std::int64_t n) {
  static_cast<prometheus::Counter*>(impl_)->Increment(static_cast<double>(n));
}
std::int64_t Counter::Value() const {
  return static_cast<std::int64_t>(static_cast<prometheus::Counter*>(impl_)->Value());
}
void Gauge::Set(double value) { static_cast<prometheus::Gauge*>(impl_)->Set(value); }
double Gauge::Value() const { return static_cast<prometheus::Gauge*>(impl_)->Value(); }
void LatencyHistogram::ObserveSeconds(double seconds) {
  static_cast<prometheus::Histogram*>(impl_)->Observe(seconds);
}

Metrics::Metrics() : impl_(std::make_unique<Impl>()) {}
Metrics::~Metrics() = default;

Counter& Metrics::MakeCounter(const std::string& name, const std::string& help) {
  const std::lock_guard lock(impl_->mutex);
  Counter*& slot = impl_->counters[name];
  if (slot == nullptr) {
    auto& family = prometheus::BuildCounter().Name(name).Help(help).Register(impl_->registry);
    slot = &impl_->counter_storage.emplace_back(Counter(&family.Add({})));
  }
  return *slot;
}

Gauge& Metrics::MakeGauge(const std::string& name, const std::string& help) {
  const std::lock_guard lock(impl_->mutex);
  Gauge*& slot = impl_->gauges[name];
  if (slot == nullptr) {
    auto& family = prometheus::BuildGauge().Name(name).Help(help).Register(impl_->registry);
    slot = &impl_->gauge_storage.emplace_back(Gauge(&family.Add({})));
  }
  return *slot;
}

GaugeFamily& Metrics::MakeGauges(const std::string& name, const std::string& help,
                                 std::size_t most) {
  const std::lock_guard lock(impl_->mutex);
  std::unique_ptr<GaugeFamily>& slot = impl_->families[name];
  if (slot == nullptr) {
    auto family = std::make_unique<GaugeFamily::Impl>();
    family->family = &prometheus::BuildGauge().Name(name).Help(help).Register(impl_->registry);
    family->most = most;
    slot = std::make_unique<GaugeFamily>(std::move(family));
  }
  return *slot;
}

LatencyHistogram& Metrics::MakeLatency(const std::string& name, const std::string& help,
                                       const MetricLabels& labels) {
  const std::lock_guard lock(impl_->mutex);
  LatencyHistogram*& slot = impl_->histograms[{name, labels}];
  if (slot == nullptr) {
    auto& family = prometheus::BuildHistogram().Name(name).Help(help).Register(impl_->registry);
    slot = &impl_->histogram_storage.emplace_back(
        LatencyHistogram(&family.Add(labels, LatencyBuckets())));
  }
  return *slot;
}

std::string Metrics::Text() const {
  return prometheus::TextSerializer().Serialize(impl_->registry.Collect());
}

}  // namespace espalier
