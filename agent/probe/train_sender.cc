#include "agent/probe/train_sender.h"

#include <algorithm>
#include <utility>

#include "common/fabric/ecmp/train_token.h"

namespace espalier::agent {
namespace {

// Returns a duration of any number of microseconds, at most `limit` and something.
Duration Microseconds(std::uint64_t microseconds, Duration limit) {
  const auto most = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(limit).count());
  return std::chrono::microseconds(std::min(microseconds, most + 1));
}

bool IsUnicast(const IpAddress& address) {
  if (address.IsNone()) return false;
  if (!address.IsV4()) return address.bytes()[0] != 0xFF;
  const std::uint32_t v4 = address.V4();
  constexpr std::uint32_t kFirstMulticast = 0xE000'0000;  // above are reserved and broadcast
  return v4 != 0 && v4 < kFirstMulticast;
}

std::uint8_t TrafficClass(const wire::Train& train) {
  // Kernels do not mark control segments of TCP as capable of ECN, so a train does neither.
  const std::uint8_t ecn = train.protocol == wire::kProtocolUdp ? kEcnCapable : std::uint8_t{0};
  return static_cast<std::uint8_t>(train.dscp << 2 | ecn);
}

}  // namespace

TrainSender::TrainSender(const TrainSenderOptions& options, EventLoop& loop, TrainSocket& socket,
                         Metrics& metrics, IsOwnAddress is_own, OnSent on_sent)
    : options_(options),
      loop_(loop),
      socket_(socket),
      is_own_(std::move(is_own)),
      on_sent_(std::move(on_sent)),
      sent_(metrics.MakeCounter("espalier_agent_train_packets_sent_total",
                                "Packets of probe trains sent")),
      budget_(options.packets_per_second, options.burst, loop.Now()) {}

void TrainSender::Start(const wire::TrainOrder& order) {
  const TimePoint now = loop_.Now();
  const auto terms =
      std::make_shared<const Terms>(Terms{.key = order.key,
                                          .destination_port = order.destination_port,
                                          .packets = order.packets,
                                          .gap = Microseconds(order.gap_us, options_.max_span),
                                          .urgent = order.urgent});
  for (const wire::Train& train : order.trains) {
    OpenTrain open{.terms = terms,
                   .train = train,
                   .source = order.addresses[train.source],
                   .destination = order.addresses[train.destination]};
    if (due_.size() < options_.max_trains && IsAllowed(*terms, open)) {
      due_.emplace(now + Microseconds(train.start_us, options_.max_start), std::move(open));
    } else {
      Report(open);
    }
  }
  SendDue();
}

bool TrainSender::IsAllowed(const Terms& terms, const OpenTrain& train) const {
  return terms.destination_port >= options_.min_destination_port &&
         (terms.packets - 1) * terms.gap <= options_.max_span &&
         Microseconds(train.train.start_us, options_.max_start) <= options_.max_start &&
         train.source.IsV4() == train.destination.IsV4() && IsUnicast(train.destination) &&
         is_own_(train.source);
}

void TrainSender::Forget() {
  due_.clear();
  timer_.reset();
}

void TrainSender::SendDue() {
  timer_.reset();
  const TimePoint now = loop_.Now();
  while (!due_.empty() && due_.begin()->first <= now) {
    auto node = due_.extract(due_.begin());
    if (SendSome(node.mapped())) {
      // Counted from the packet's sending, so that a late one is not followed by a burst.
      node.key() = loop_.Now() + node.mapped().terms->gap;
      due_.insert(std::move(node));
    } else {
      Report(node.mapped());
    }
  }
  if (due_.empty()) return;
  timer_ =
      loop_.After(std::max(Duration::zero(), due_.begin()->first - now), [this] { SendDue(); });
}

bool TrainSender::SendSome(OpenTrain& train) {
  const Terms& terms = *train.terms;
  if (train.next == 0) {
    const TimePoint now = loop_.Now();
    if (budget_.Level(now) < terms.packets) return false;
    budget_.Take(terms.packets, now);
  }
  do SendNext(train);
  while (train.next < terms.packets && terms.gap < options_.min_gap);
  return train.next < terms.packets;
}

void TrainSender::SendNext(OpenTrain& train) {
  const TimePoint now = loop_.Now();
  const std::uint8_t index = train.next++;
  const std::uint64_t number = train.train.number;
  const Result<void> sent =
      socket_.Send({.source = train.source,
                    .destination = train.destination,
                    .source_port = train.train.source_port,
                    .destination_port = train.terms->destination_port,
                    .protocol = train.train.protocol,
                    .traffic_class = TrafficClass(train.train),
                    .ttl = options_.ttl,
                    .number = number,
                    .index = index,
                    .token = fabric::TrainToken(train.terms->key, number, index)});
  if (!sent) return;
  sent_.Add();
  if (train.sent_mask == 0) train.first = now;
  train.last = now;
  train.sent_mask = static_cast<std::uint16_t>(train.sent_mask | 1U << index);
}

void TrainSender::Report(const OpenTrain& train) {
  const auto span = std::chrono::duration_cast<std::chrono::microseconds>(train.last - train.first);
  on_sent_({.number = train.train.number,
            .sent_mask = train.sent_mask,
            .span_us = static_cast<std::uint64_t>(span.count())},
           train.terms->urgent);
}

}  // namespace espalier::agent
