#pragma once

#include <string>
#include <string_view>

#include "controller/intents/intent.h"

namespace espalier::controller {

// The values of intents as text: for the store, and for people. A job is all but its name, of which
// docs/formats.md has the form; a weight a number; a policy as in policy.h; nothing is "".

std::string FormatIntentValue(const IntentValue& value);
// Of the intent of this kind (a member of Intents) and id. What has another form than its kind is
// an UnreadableValue.
IntentValue ParseIntentValue(IntentById Intents::*kind, const std::string& id,
                             std::string_view text);

}  // namespace espalier::controller
