#pragma once

#include <cstddef>
#include <cstdint>

#include "common/base/time/event_loop.h"
#include "common/base/time/token_bucket.h"
#include "proto/message_cost.h"
#include "proto/messages.h"

namespace espalier::agent {

// Priority of a message when an agent may not send everything, the most important first.
enum class MessageClass {
  kVital,     // Hello, heartbeats, acknowledgements, link events: always sent
  kFlows,     // flow reports: what is not sent is part of the next one
  kFindings,  // verdicts on paths, probe answers, probe trains
  kAccounts,  // collective reports of ranks
};
MessageClass ClassOf(const wire::Body& body);

// Limits what an agent sends to kAgentShare of what the controller accepts from it, in messages,
// bytes and entries (proto/message_cost.h) a second. Programs decide how much there is to report;
// the budget keeps the controller from disconnecting the host because of them. Less important
// messages run out of room earlier, so a flood of one class leaves room for the classes above it.
//
// A message may exceed what is left, so that a full report of any size can be sent; the budget
// recovers before the next one.
// Thread safety: none.
class SendBudget {
 public:
  explicit SendBudget(TimePoint now);

  // Sets what the controller accepts; 0: the default of wire::AgentLimits.
  void SetLimits(const wire::Welcome& welcome, TimePoint now);
  bool HasRoomFor(MessageClass kind, TimePoint now);
  void Charge(std::size_t bytes, std::int64_t entries, TimePoint now);

 private:
  struct Share {
    explicit Share(double limit, TimePoint now)
        : capacity(limit * wire::kAgentShare), bucket(capacity, capacity, now) {}
    void SetLimit(double limit, TimePoint now) {
      capacity = limit * wire::kAgentShare;
      bucket.SetRate(capacity, capacity, now);
    }
    double capacity;  // for one second
    TokenBucket bucket;
  };

  Share messages_;
  Share bytes_;
  Share entries_;
};

}  // namespace espalier::agent
