#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace espalier::cli {

// A controller that an operator works with, under a name of their own.
struct Context {
  std::string name;
  std::string controller;  // address
  std::string token_file;  // "": none
  std::string ca_file;     // "": the system's authorities
};

// The contexts of a user, in a file:
//   {"current": "west", "contexts": [{"name": "west", "controller": "https://ctl-west:9180",
//                                     "token_file": "/home/eve/.west-token", "ca_file": ""}]}
struct Contexts {
  std::string current;  // "": none is chosen
  std::vector<Context> all;

  // Null: there is none of this name.
  const Context* Find(std::string_view name) const;
};

// $ESPALIER_CONTEXTS, else ~/.config/espalier/contexts.json; "" without a home.
std::string ContextsFile();
// Reads the user's file; none: no context. Errors: kInvalidArgument, with line and column, for a
// file of another form, and kPermissionDenied.
Result<Contexts> ReadContexts();
// Replaces the user's file, readable by its owner only, and makes its folder if there is none.
Result<void> WriteContexts(const Contexts& contexts);

}  // namespace espalier::cli
