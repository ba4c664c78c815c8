#pragma once

#include <string>

#include "proto/messages.h"

namespace espalier::wire {

// Returns the bytes of a message. The caller must keep to the limits of limits.h and to the rules
// of Decoder, as the peer refuses other messages. Texts for people (reason, detail, error) may come
// from anywhere, so they are made printable and cut to kMaxTextBytes here.
// Complexity: linear; thread-safe.
std::string Encode(const Message& message);

}  // namespace espalier::wire
