#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"
#include "deploy/lab/lab.h"

namespace espalier::lab {

// The end of a link that is taken down. The other end loses its carrier in either case. Only the
// two switches (or the host) of the link notice: for flows from other leaves it is a far link,
// which their leaf continues to use.
enum class LinkEnd { kA, kB };

// All functions return when the kernel has acted at both ends.

// Takes a link of the topology down ("leaf0--spine1", "h0--leaf0"), or a host's management link
// ("mgmt-h0"), which disconnects its agent from the controller. Returns false if it was down
// already.
// Errors: kNotFound for an unknown link.
Result<bool> FailLink(const Lab& lab, const std::string& link, LinkEnd end = LinkEnd::kB);
// Brings both ends up and restores the routes that the kernel dropped. Returns false if it was up
// already.
Result<bool> RestoreLink(const Lab& lab, const std::string& link);
// Limits a link between switches to this rate in each direction, in place of the lab's limit.
// Errors: kNotFound for an unknown link, kUnsupported for a link of a host.
Result<void> LimitLink(const Lab& lab, const std::string& link, BitsPerSecond rate);
// The links with an end that was taken down, in the order of the topology; management links last.
Result<std::vector<std::string>> FailedLinks(const Lab& lab);

}  // namespace espalier::lab
