#include "controller/api/http/page_safety.h"

#include <string>
#include <string_view>

namespace espalier::controller {

bool IsFromOwnPage(const io::HttpRequest& request) {
  return request.headers.contains("origin") && !IsFromForeignPage(request);
}

bool IsFromForeignPage(const io::HttpRequest& request) {
  const auto origin = request.headers.find("origin");
  if (origin == request.headers.end()) return false;
  const auto host = request.headers.find("host");
  const std::string_view text = origin->second;
  const std::size_t scheme = text.find("://");
  return host == request.headers.end() || host->second.empty() ||
         scheme == std::string_view::npos || text.substr(scheme + 3) != host->second;
}

void AddPageSafety(io::HttpResponse& response) {
  response.headers.insert(
      response.headers.end(),
      {{"Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
       {"X-Content-Type-Options", "nosniff"},
       {"Referrer-Policy", "no-referrer"},
       {"Cache-Control", "no-store"}});
}

}  // namespace espalier::controller
