#pragma once

#include "proto/messages.h"
#include "proto/rules.h"

namespace espalier::v1 {
class Ack;
class CollectiveReport;
class Heartbeat;
class Hello;
class LinkEvent;
class ProbeOrder;
class RankPlan;
class Welcome;
}  // namespace espalier::v1

namespace espalier::wire {

// Each function fills the body from its protobuf form, overwriting all of it and keeping its
// capacity. If the form breaks a rule, `rules` has the first error and the body is unspecified.
void DecodeBody(const v1::Hello& from, Rules& rules, Hello& to);
void DecodeBody(const v1::Welcome& from, Rules& rules, Welcome& to);
void DecodeBody(const v1::Heartbeat& from, Rules& rules, Heartbeat& to);
void DecodeBody(const v1::Ack& from, Rules& rules, Ack& to);
void DecodeBody(const v1::ProbeOrder& from, Rules& rules, ProbeOrder& to);
void DecodeBody(const v1::LinkEvent& from, Rules& rules, LinkEvent& to);
void DecodeBody(const v1::RankPlan& from, Rules& rules, RankPlan& to);
void DecodeBody(const v1::CollectiveReport& from, Rules& rules, CollectiveReport& to);

}  // namespace espalier::wire
