#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/base/time/event_loop.h"
#include "common/http/http.h"

namespace espalier::io {

// The caller's token, the authorities that it trusts, and how long an answer it accepts.
struct HttpAccess {
  std::vector<std::pair<std::string, std::string>> headers{};
  std::string ca_file{};                 // PEM; "": the system's authorities
  std::uint64_t most_bytes = 256 << 20;  // of the body
};
// Sends one request and blocks until it is answered; for command-line tools and tests. `address` is
// that of an HttpServer, or "https://host:port", whose certificate must be valid for the host.
// Errors: kInvalidArgument for a malformed address; kUnavailable, with the address, if nothing
// answers within the timeout or the answer is too long; kPermissionDenied for a certificate that is
// not trusted.
Result<HttpResponse> HttpFetch(const std::string& address, const std::string& method,
                               const std::string& target, const std::string& body, Duration timeout,
                               const HttpAccess& access = {});

}  // namespace espalier::io
