#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"
#include "deploy/lab/lab.h"

namespace espalier::lab {

// Which interface of a link is taken down. The other end loses its carrier either way; so the
// two switches (or the host) of the link notice, and nobody else does: for flows from other
// leaves this is a far link, which their leaf goes on using.
enum class LinkEnd { kA, kB };

// All return when the kernel has acted at both ends.

// Takes a link of the topology down ("leaf0--spine1", "h0--leaf0"), or a host's management link
// ("mgmt-h0"), which cuts its agent off from the controller. False if it was down already.
// Errors: kNotFound for an unknown link.
Result<bool> FailLink(const Lab& lab, const std::string& link, LinkEnd end = LinkEnd::kB);
// Both ends up again, with the routes that the kernel dropped. False if it was up already.
Result<bool> RestoreLink(const Lab& lab, const std::string& link);
// Links with an end that was taken down, in the order of the topology; management links last.
Result<std::vector<std::string>> FailedLinks(const Lab& lab);

}  // namespace espalier::lab
