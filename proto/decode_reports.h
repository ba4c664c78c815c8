#pragma once

#include "proto/messages.h"
#include "proto/rules.h"

namespace espalier::v1 {
class FlowReport;
class PathHealth;
class PathPush;
class ProbeReport;
}  // namespace espalier::v1

namespace espalier::wire {

// Each function fills the body from its protobuf form, overwriting all of it and keeping its
// capacity. If the form breaks a rule, `rules` has the first error and the body is unspecified.
void DecodeBody(const v1::FlowReport& from, Rules& rules, FlowReport& to);
void DecodeBody(const v1::PathPush& from, Rules& rules, PathPush& to);
void DecodeBody(const v1::ProbeReport& from, Rules& rules, ProbeReport& to);
void DecodeBody(const v1::PathHealth& from, Rules& rules, PathHealth& to);

}  // namespace espalier::wire
