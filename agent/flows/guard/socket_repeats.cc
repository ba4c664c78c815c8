#include "agent/flows/guard/socket_repeats.h"

#include <algorithm>
#include <tuple>

namespace espalier::agent {

void SocketRepeats::HandleMeasures(TimePoint now, std::span<const FlowMeasure> flows,
                                   const PortTable& ports) {
  if (!readers_.sockets) return;
  if (now >= next_) {
    next_ = now + kInterval;
    std::vector<Subject> subjects = FindSubjects(flows, ports);
    ForgetOthers(subjects);
    Choose(std::move(subjects));
  }
  ReadDue();
}

std::vector<SocketRepeats::Subject> SocketRepeats::FindSubjects(std::span<const FlowMeasure> flows,
                                                                const PortTable& ports) {
  std::vector<Subject> subjects;
  for (const FlowMeasure& flow : flows) {
    const FlowSample& sample = *flow.sample;
    const wire::PathSet* const set =
        sample.protocol == wire::kProtocolTcp ? ports.Find(sample.id) : nullptr;
    if (set == nullptr || sample.announced.user == kUnknownUser) continue;
    for (const wire::FlowPath& path : set->paths) {
      subjects.push_back({.key = {sample.id, path.source_port},
                          .user = sample.announced.user,
                          .payer = PayerOf(sample),
                          .connection = ConnectionOf(sample, path.source_port)});
    }
  }
  std::ranges::sort(subjects, {},
                    [](const Subject& each) { return std::tie(each.payer, each.key); });
  return subjects;
}

void SocketRepeats::ForgetOthers(std::span<const Subject> subjects) {
  std::vector<Key> present;
  for (const Subject& subject : subjects) present.push_back(subject.key);
  std::ranges::sort(present);
  std::erase_if(readings_, [&](const auto& reading) {
    return !std::ranges::binary_search(present, reading.first);
  });
  std::erase_if(latest_, [&](const auto& user) {
    return !std::ranges::binary_search(subjects, user.first, {}, &Subject::payer);
  });
}

void SocketRepeats::Choose(std::vector<Subject> subjects) {
  due_.clear();
  // Each user's subjects, beginning behind the one that was due last.
  std::vector<std::span<const Subject>> of_users;
  for (auto first = subjects.begin(); first != subjects.end();) {
    const auto end = std::upper_bound(
        first, subjects.end(), first->payer,
        [](std::uint64_t payer, const Subject& each) { return payer < each.payer; });
    if (const auto latest = latest_.find(first->payer); latest != latest_.end()) {
      const auto next =
          std::upper_bound(first, end, latest->second,
                           [](const Key& key, const Subject& each) { return key < each.key; });
      std::rotate(first, next, end);
    }
    of_users.emplace_back(first, end);
    first = end;
  }
  for (std::size_t i = 0; due_.size() < kMostSockets; ++i) {
    const std::size_t before = due_.size();
    for (const std::span<const Subject> subjects_of : of_users) {
      if (i >= subjects_of.size() || due_.size() >= kMostSockets) continue;
      due_.push_back(subjects_of[i]);
      latest_[subjects_of[i].payer] = subjects_of[i].key;
    }
    if (due_.size() == before) break;
  }
}

void SocketRepeats::ReadDue() {
  if (due_.empty()) return;
  const std::size_t count = std::min(due_.size(), kMostAtOnce);
  const std::span<const Subject> subjects = std::span(due_).last(count);
  std::vector<TcpConnection> connections;
  for (const Subject& subject : subjects) connections.push_back(subject.connection);
  const auto sockets = readers_.sockets(connections);
  for (std::size_t i = 0; i < count; ++i) {
    Handle(subjects[i], i < sockets.size() ? sockets[i] : std::nullopt);
  }
  due_.resize(due_.size() - count);
}

void SocketRepeats::Handle(const Subject& subject, const std::optional<TcpSocket>& socket) {
  if (!socket || !IsSocketOf(subject.user, *socket)) {
    readings_.erase(subject.key);
    return;
  }
  Reading& reading = readings_[subject.key];
  if (reading.cookie == socket->cookie) {
    reading.count.repeats += GrowthOf(reading.total, socket->repeats);
  }
  reading.cookie = socket->cookie;
  reading.total = socket->repeats;
  reading.count.rtt_us = socket->rtt_us;
}

std::optional<SocketRepeats::Count> SocketRepeats::Take(wire::LocalFlowId flow,
                                                        std::uint16_t port) {
  const auto reading = readings_.find({flow, port});
  if (reading == readings_.end()) return std::nullopt;
  const Count count = reading->second.count;
  reading->second.count.repeats = 0;
  return count;
}

}  // namespace espalier::agent
