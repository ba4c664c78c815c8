#pragma once

#include <cstddef>
#include <cstdint>

#include "common/base/event_loop.h"
#include "common/base/token_bucket.h"
#include "proto/message_cost.h"
#include "proto/messages.h"

namespace espalier::agent {

// What messages are to an agent that may not send all that it has to say, the most important first.
enum class MessageClass {
  kVital,     // Hello, heartbeats, acknowledgements, its NICs: always sent
  kFlows,     // reports of flows: what is not sent now is in the next one
  kFindings,  // verdicts on paths, answers to probes
  kAccounts,  // what ranks say of their collectives
};
MessageClass ClassOf(const wire::Body& body);

// What an agent may still send: kAgentShare of what the controller takes of it, in messages, bytes
// and entries (proto/message_cost.h). Programs and the host decide how much there is to tell; this
// decides that it never gets the host sent away. The less important a message, the earlier it finds
// no room, so a flood of one class leaves room for those above it.
//
// One message may be owed, so that a full report of any size can be sent.
// Thread safety: none.
class SendBudget {
 public:
  explicit SendBudget(TimePoint now);

  // What the controller says that it takes; 0: the default of wire::AgentLimits.
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
    double capacity;  // a second's
    TokenBucket bucket;
  };

  Share messages_;
  Share bytes_;
  Share entries_;
};

}  // namespace espalier::agent
