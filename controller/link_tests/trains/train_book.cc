#include "controller/link_tests/trains/train_book.h"

#include <algorithm>
#include <bit>

#include "common/fabric/ecmp/train_token.h"

namespace espalier::controller {
namespace {

constexpr std::int64_t kLongestDelayUs = std::int64_t{1} << 50U;  // 36 years, as clocks may differ

std::uint64_t DigestOf(const std::string& key, std::uint64_t number, std::uint16_t mask) {
  std::uint64_t digest = 0;
  for (std::uint8_t i = 0; i < wire::kMaxTrainPackets; ++i) {
    if ((mask >> i & 1U) != 0) digest ^= fabric::TrainToken(key, number, i);
  }
  return digest;
}

}  // namespace

void TrainBook::Expect(std::uint64_t number, Planned train) {
  by_time_.emplace(std::pair(train.at, number), number);
  Train& added = trains_[number];
  static_cast<Planned&>(added) = std::move(train);
}

std::optional<TrainOutcome> TrainBook::HandleSent(AgentId agent, const wire::SentTrain& sent) {
  const auto found = trains_.find(sent.number);
  if (found == trains_.end() || found->second.sender != agent) return std::nullopt;
  found->second.sent = sent;
  return Finish(sent.number, found->second);
}

std::optional<TrainOutcome> TrainBook::HandleReceived(AgentId agent,
                                                      const wire::ReceivedTrain& received) {
  const auto found = trains_.find(received.number);
  if (found == trains_.end() || found->second.receiver != agent) return std::nullopt;
  found->second.received = received;
  // A hostile packet may carry any time.
  for (std::int64_t& delay : found->second.received->delays_us) {
    delay = std::clamp(delay, -kLongestDelayUs, kLongestDelayUs);
  }
  return Finish(received.number, found->second);
}

std::optional<TrainOutcome> TrainBook::Finish(std::uint64_t number, Train& train) {
  if (!train.sent || !train.received) return std::nullopt;
  const Train done = std::move(train);
  trains_.erase(number);
  by_time_.erase({done.at, number});
  const wire::ReceivedTrain& received = *done.received;
  const std::uint16_t arrived = received.arrived_mask & done.sent->sent_mask;
  if (received.digest != DigestOf(done.key, number, received.arrived_mask) ||
      arrived != received.arrived_mask) {
    ++forged_;
    return std::nullopt;
  }
  if (done.sent->sent_mask == 0 || received.overflowed) return std::nullopt;
  const TestPair& pair = routes_.PairOf(done.route);
  TrainOutcome outcome{.at = done.at,
                       .sender = done.sender,
                       .receiver = done.receiver,
                       .protocol = done.protocol,
                       .port = done.port,
                       .route = done.route,
                       .sent = static_cast<std::uint8_t>(std::popcount(done.sent->sent_mask)),
                       .arrived = static_cast<std::uint8_t>(std::popcount(arrived)),
                       .uplink = pair.uplink,
                       .downlink = pair.downlink,
                       .hops = routes_.HopsOf(done.route)};
  NoteDelays(done);
  CountPackets(done, outcome);
  return outcome;
}

void TrainBook::NoteDelays(const Train& train) {
  const TestPair& pair = routes_.PairOf(train.route);
  const auto& delays = train.received->delays_us;
  if (delays.empty()) return;
  const std::int64_t least = *std::ranges::min_element(delays);
  const auto [entry, is_new] = delays_.try_emplace({pair.source, pair.destination});
  Delays& of = entry->second;
  if (is_new) {
    of = {train.at, least, std::nullopt};
  } else if (train.at - of.period >= kDelayMemory) {
    // What is older than two periods says nothing any more.
    const bool is_fresh = train.at - of.period < 2 * kDelayMemory;
    of = {train.at, least, is_fresh ? std::optional(of.present) : std::nullopt};
  } else {
    of.present = std::min(of.present, least);
  }
}

std::optional<std::int64_t> TrainBook::LeastBack(const Train& train) const {
  const TestPair& pair = routes_.PairOf(train.route);
  const auto found = delays_.find({pair.destination, pair.source});
  if (found == delays_.end() || train.at - found->second.period >= 2 * kDelayMemory) {
    return std::nullopt;
  }
  const Delays& of = found->second;
  return std::min(of.present, of.last.value_or(of.present));
}

void TrainBook::CountPackets(const Train& train, TrainOutcome& outcome) const {
  const auto back = LeastBack(train);
  if (!back) return;
  const wire::ReceivedTrain& received = *train.received;
  const std::uint16_t sent = train.sent->sent_mask;
  const std::int64_t limit = MicrosecondsOf(options_.short_queue);
  const auto span = static_cast<std::int64_t>(
      std::min(train.sent->span_us, static_cast<std::uint64_t>(INT32_MAX)));
  std::optional<int> next;      // the packet after the one that is considered
  std::int64_t next_queue = 0;  // at most as long was the queue for it
  auto delay = received.delays_us.rbegin();
  for (int i = options_.packets - 1; i >= 0; --i) {
    const std::uint16_t bit = static_cast<std::uint16_t>(1U << static_cast<unsigned>(i));
    const bool has_arrived = (received.arrived_mask & bit) != 0;
    const std::int64_t queue = has_arrived ? *delay++ + *back : 0;
    if (has_arrived && (outcome.queue_us < 0 || queue < outcome.queue_us)) {
      outcome.queue_us = std::max<std::int64_t>(queue, 0);
    }
    if ((sent & bit) == 0) continue;
    if (next) {
      const std::int64_t apart = span * (*next - i) / std::max(1, options_.packets - 1);
      const bool follows =
          (received.arrived_mask >> *next & 1) != 0 && (received.marked_mask >> *next & 1) == 0;
      if (follows && next_queue + apart <= limit) {
        ++outcome.counted;
        if (!has_arrived) ++outcome.lost;
      }
    }
    next = i;
    next_queue = queue;
  }
}

void TrainBook::Expire(TimePoint now) {
  while (!by_time_.empty() && now - by_time_.begin()->first.first >= kPatience) {
    const auto train = trains_.find(by_time_.begin()->second);
    if (train != trains_.end()) {
      ++lost_reports_;
      trains_.erase(train);
    }
    by_time_.erase(by_time_.begin());
  }
}

}  // namespace espalier::controller
