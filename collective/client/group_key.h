#pragma once

#include <string>

#include "collective/runtime/calls/medium.h"
#include "collective/transport/rendezvous/group_credentials.h"
#include "common/base/result.h"

namespace espalier::client {

// Finds the credentials of a group that got no key from a controller. The first source that exists
// is taken:
//   $ESPALIER_JOB_KEY_FILE  a file of 64 hexadecimal digits, which only its owner can read
//   $ESPALIER_JOB_KEY       the digits themselves
//   store                   if it is a folder and the group does not use shared memory: a key file
//                           there, which the first rank creates
// Errors: kInvalidArgument for other text; kPermissionDenied for a file that others can read or
// this user cannot; kUnavailable for a folder that cannot be written.
Result<transport::GroupCredentials> FindMembership(const std::string& store,
                                                   runtime::Medium medium);

// Whether $ESPALIER_INSECURE_GROUPS is 1, which allows groups without a key at any address.
bool TrustsNetwork();

}  // namespace espalier::client
