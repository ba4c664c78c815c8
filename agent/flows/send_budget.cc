#include "agent/flows/send_budget.h"

#include <variant>

namespace espalier::agent {
namespace {

// The fraction of a second's share that must be left for a message of this class to be sent.
double Reserve(MessageClass kind) {
  switch (kind) {
    case MessageClass::kVital:
      return 0;
    case MessageClass::kFlows:
      return 1.0 / 8;
    case MessageClass::kFindings:
      return 1.0 / 4;
    case MessageClass::kAccounts:
      return 1.0 / 2;
  }
  return 0;
}

double Or(std::uint64_t told, double otherwise) {
  return told == 0 ? otherwise : static_cast<double>(told);
}

}  // namespace

MessageClass ClassOf(const wire::Body& body) {
  if (std::holds_alternative<wire::FlowReport>(body)) return MessageClass::kFlows;
  if (std::holds_alternative<wire::ProbeReport>(body)) return MessageClass::kFindings;
  if (std::holds_alternative<wire::PathHealth>(body)) return MessageClass::kFindings;
  if (std::holds_alternative<wire::TrainReport>(body)) return MessageClass::kFindings;
  if (std::holds_alternative<wire::CollectiveReport>(body)) return MessageClass::kAccounts;
  return MessageClass::kVital;
}

SendBudget::SendBudget(TimePoint now)
    : messages_(wire::AgentLimits{}.messages_per_second, now),
      bytes_(wire::AgentLimits{}.bytes_per_second, now),
      entries_(wire::AgentLimits{}.entries_per_second, now) {}

void SendBudget::SetLimits(const wire::Welcome& welcome, TimePoint now) {
  const wire::AgentLimits otherwise;
  messages_.SetLimit(Or(welcome.max_messages_per_second, otherwise.messages_per_second), now);
  bytes_.SetLimit(Or(welcome.max_bytes_per_second, otherwise.bytes_per_second), now);
  entries_.SetLimit(Or(welcome.max_entries_per_second, otherwise.entries_per_second), now);
}

bool SendBudget::HasRoomFor(MessageClass kind, TimePoint now) {
  if (kind == MessageClass::kVital) return true;
  const double reserve = Reserve(kind);
  const auto has_room = [&](Share& share) {
    return share.bucket.Level(now) > reserve * share.capacity;
  };
  return has_room(messages_) && has_room(bytes_) && has_room(entries_);
}

void SendBudget::Charge(std::size_t bytes, std::int64_t entries, TimePoint now) {
  messages_.bucket.Take(1, now);
  bytes_.bucket.Take(static_cast<double>(bytes), now);
  entries_.bucket.Take(static_cast<double>(entries), now);
}

}  // namespace espalier::agent
