#pragma once

#include <string_view>

namespace espalier::controller {

// Something that can be asked over HTTP; the description of the API names each.
struct Route {
  std::string_view method;
  std::string_view path;
};

}  // namespace espalier::controller
