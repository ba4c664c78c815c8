#pragma once

#include "common/base/result.h"
#include "deploy/lab/lab_layout.h"
#include "deploy/lab/namespaces.h"

namespace espalier::lab {

// FRR in a lab: its daemons zebra, bgpd and bfdd run in the namespace of every switch, with their
// files in /run/frr/<switch> of the lab, until the lab ends.

// Checks that FRR is installed. Errors: kNotFound, with the remedy.
Result<void> CheckFrr();
// Lets the daemons run as the lab's root: they insist on a user and a group of their own, which a
// user namespace does not have. Runs in the lab's mount namespace, and changes nothing outside.
Result<void> CoverFrrAccounts();
// Starts the daemons of all switches, and returns when every kernel has all next hops. Errors:
// kUnavailable if it has not after a minute, naming a switch; those of the commands.
Result<void> StartFrr(const LabLayout& layout, const NamespaceContext& door);

}  // namespace espalier::lab
