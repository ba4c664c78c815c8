#include "controller/cli/exit_code.h"

#include <fmt/format.h>

#include <cstdio>

namespace espalier::cli {

int Complain(const Error& error) {
  constexpr int kFailed = 1;
  constexpr int kBadInput = 2;
  fmt::print(stderr, "espalier: {}\n", error.message);
  const bool is_input = error.code == ErrorCode::kInvalidArgument ||
                        error.code == ErrorCode::kNotFound ||
                        error.code == ErrorCode::kAlreadyExists;
  return is_input ? kBadInput : kFailed;
}

}  // namespace espalier::cli
