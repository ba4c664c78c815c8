#pragma once

#include <string>
#include <string_view>

#include "controller/intents/intent.h"

namespace espalier::controller {

// Converts the values of intents to text, for the store and for people, and back. docs/formats.md
// has the form of a job, which leaves out its name. A weight is a number, a policy is as in
// policy.h, steering is "on", "off" or "25%", a
// window has its beginning, kind, state and id, and the values of links and nodes are "".

std::string FormatIntentValue(const IntentValue& value);
// `kind` is the member of Intents that holds the intent, `id` its key there. A text that has not
// the form of its kind becomes an UnreadableValue.
IntentValue ParseIntentValue(IntentById Intents::*kind, const std::string& id,
                             std::string_view text);

}  // namespace espalier::controller
