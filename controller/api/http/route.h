#pragma once

#include <string_view>

namespace espalier::controller {

// A method and path that the HTTP server answers; openapi.json describes each.
struct Route {
  std::string_view method;
  std::string_view path;
};

}  // namespace espalier::controller
