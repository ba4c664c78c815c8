#pragma once

#include "proto/messages.h"
#include "proto/rules.h"

namespace espalier::v1 {
class TrainOrder;
class TrainReport;
}  // namespace espalier::v1

namespace espalier::wire {

// Each function fills the body from its protobuf form, overwriting all of it and keeping its
// capacity. If the form breaks a rule, `rules` has the first error and the body is unspecified.
void DecodeBody(const v1::TrainOrder& from, Rules& rules, TrainOrder& to);
void DecodeBody(const v1::TrainReport& from, Rules& rules, TrainReport& to);

}  // namespace espalier::wire
