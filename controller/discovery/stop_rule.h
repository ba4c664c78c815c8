#pragma once

#include <cstddef>

namespace espalier::discovery {

// The stopping rule of multipath detection (Veitch et al., "Failure control in multipath route
// tracing", INFOCOM 2009). It supposes that flows choose next hops independently and with equal
// shares; a next hop with a smaller share is missed more often than stated.

// The chance that so many answers have shown only `next_hops` although there is one more of equal
// share: at most (k+1) (k/(k+1))^n. 1 for no next hop.
double ChanceOfOneMore(std::size_t next_hops, std::size_t answers);

// The number of answers after which that chance is at most `alpha`, which is in (0, 1).
std::size_t AnswersNeeded(std::size_t next_hops, double alpha);

}  // namespace espalier::discovery
