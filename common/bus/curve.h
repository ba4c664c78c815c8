#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace espalier::io {

// A key pair of CURVE (CurveZMQ, ZeroMQ RFC 26), by which both ends of a connection prove that they
// have the secret key of a public one and encrypt everything under keys made for that connection.
// Keys are Z85 text of 40 characters.
struct CurveKeys {
  std::string public_key;
  std::string secret_key;
};

CurveKeys MakeCurveKeys();
bool IsCurveKey(std::string_view text);
// The public key of a secret key, which must be well-formed.
std::string PublicKeyOf(const std::string& secret_key);

// Returns the name that a public key is bound to now. None: its holder is refused.
using NameOfKey = std::function<std::optional<std::string>(std::string_view public_key)>;

// The keys of the controller's end of encrypted connections.
struct CurveServer {
  std::string secret_key;
  NameOfKey name_of_key;  // called on the loop's thread
};

// The keys of an agent's end. It accepts a controller only if that has the secret key of one of
// these public keys; it tries them in turn while none answers.
struct CurveClient {
  CurveKeys own;
  std::vector<std::string> server_public_keys;
};

}  // namespace espalier::io
