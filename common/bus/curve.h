#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace espalier::io {

// CURVE (CurveZMQ, RFC 26): both ends of a connection prove that they have the secret key to a
// public one, and all that they say is encrypted under keys made for that connection. Keys are
// Z85 text of 40 characters.
struct CurveKeys {
  std::string public_key;
  std::string secret_key;
};

CurveKeys MakeCurveKeys();
bool IsCurveKey(std::string_view text);
// The public key that belongs to a secret one, which must be a key.
std::string PublicKeyOf(const std::string& secret_key);

// The name that a public key is bound to now, or none: whoever has it is refused.
using NameOfKey = std::function<std::optional<std::string>(std::string_view public_key)>;

// The controller's end of encrypted connections.
struct CurveServer {
  std::string secret_key;
  NameOfKey name_of_key;  // asked on the loop's thread
};

// An agent's end. It takes the other end for its controller only if that has the secret to one of
// these public keys; they are tried in turn while none answers.
struct CurveClient {
  CurveKeys own;
  std::vector<std::string> server_public_keys;
};

}  // namespace espalier::io
