#pragma once

#include <string>

#include "common/base/result.h"
#include "common/http/http.h"

namespace espalier::controller {

// Answers of the API. Thread safety: any thread.

// The answer 200 with this JSON.
io::HttpResponse Ok(std::string body);
// The answer to a request that fails: {"error": {"code", "message"}}, with the status of its code.
io::HttpResponse Failed(const Error& error);

}  // namespace espalier::controller
