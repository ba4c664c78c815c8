#pragma once

#include <optional>

#include "collective/runtime/choice/cost_model.h"
#include "collective/runtime/choice/online_tuner.h"
#include "collective/runtime/shared/area/shared_context.h"
#include "collective/runtime/shared/area/shared_protocol_kind.h"

namespace espalier::runtime {

// Chooses the protocol for calls between private buffers, alike on all ranks.
//
// Problem: the fastest protocol depends on the size, the machine and the moment, and all ranks must
// take the same one without an extra exchange. Idea: small allreduces are chosen by the cost model,
// from costs that all ranks share. For a long call one rank, the chooser, compares two candidates
// by online tuning and publishes its choice with its description of the call. Invariant: the
// protocol depends only on the call's signature, the common costs and what ranks have published
// before they arrive, so all ranks come to the same result. Cost: O(ranks) flags, which are read
// anyway; where ranks share cores, a barrier in each call that is timed.
// Thread safety: one thread at a time.
class ProtocolChoice {
 public:
  // `forced`: the protocol of all calls that can use it; none: the fastest is chosen.
  ProtocolChoice(const SharedContext& context, const Costs& costs,
                 std::optional<SharedProtocolKind> forced);

  // Whether a call uses the small protocol.
  bool IsSmall(const Operands& operands, const CallSignature& call) const;
  // This rank's choice for a long call, to be published; only the chooser's counts.
  SharedProtocolKind Choose(const Operands& operands, const CallSignature& call);
  // Whether this rank must Record the duration of the call for which it has chosen.
  bool is_timed() const { return is_timed_; }
  void Record(double seconds) { times_.Record(seconds); }
  // The rank whose choice all follow: the one that is busy for most of the call.
  int ChooserOf(const CallSignature& call) const;
  // The protocol of the long call in progress, after all ranks have arrived; never kSmall.
  SharedProtocolKind ProtocolOfAll(const CallSignature& call) const;

 private:
  const SharedContext& context_;
  Costs costs_;
  std::optional<SharedProtocolKind> forced_;
  OnlineTuner times_;
  bool is_timed_ = false;
};

}  // namespace espalier::runtime
