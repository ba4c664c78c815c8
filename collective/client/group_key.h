#pragma once

#include <string>

#include "collective/runtime/calls/medium.h"
#include "collective/transport/rendezvous/group_credentials.h"
#include "common/base/result.h"

namespace espalier::client {

// By what the ranks of a group know one another that no controller has given a key. The first of
// these that there is:
//   $ESPALIER_JOB_KEY_FILE  a file of 64 hexadecimal digits, which only its owner can read
//   $ESPALIER_JOB_KEY       the digits themselves
//   store                   where that is a folder, and the medium no memory: the key in it, which
//                           the first rank there makes
// Errors: kInvalidArgument for other text; kPermissionDenied for a file that others can read, or
// this user cannot; kUnavailable for a folder that cannot be written.
Result<transport::GroupCredentials> FindMembership(const std::string& store,
                                                   runtime::Medium medium);

// Whether $ESPALIER_INSECURE_GROUPS is 1: groups without a key may meet anywhere.
bool TrustsNetwork();

}  // namespace espalier::client
