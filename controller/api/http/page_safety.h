#pragma once

#include "common/http/http.h"

namespace espalier::controller {

// What keeps pages of other servers away from this one's, and from the cookie. Browsers send the
// origin of the page that makes a request; other clients send none.
// Thread safety: any thread.

// Whether the request comes from a page of this server.
bool IsFromOwnPage(const io::HttpRequest& request);
// Whether it comes from a page of another server, such as another port of this host.
bool IsFromForeignPage(const io::HttpRequest& request);

// Keeps foreign content out of the page, and the page out of caches, where it would outlive its
// version.
void AddPageSafety(io::HttpResponse& response);

}  // namespace espalier::controller
