#pragma once

#include <optional>

#include "collective/runtime/choice/cost_model.h"
#include "collective/runtime/choice/online_tuner.h"
#include "collective/runtime/shared/shared_context.h"
#include "collective/runtime/shared/shared_protocol_kind.h"

namespace espalier::runtime {

// Chooses how calls between private buffers go through shared memory, alike on all ranks: small
// calls by the model of costs; of long ones one rank times two ways in the calls themselves, says
// with each call which it is, and the others follow.
// Thread safety: one thread at a time.
class ProtocolChoice {
 public:
  // `way`: for all calls that can take it; none: the fastest.
  ProtocolChoice(const SharedContext& context, const Costs& costs,
                 std::optional<SharedProtocolKind> way);

  // Whether a call goes the small way.
  bool IsSmall(const Operands& operands, const CallSignature& call) const;
  // This rank's choice for a long call that begins, for the others to see.
  SharedProtocolKind Choose(const Operands& operands, const CallSignature& call);
  // Whether this rank is to Record how long the call takes that it has chosen a way for.
  bool is_timed() const { return is_timed_; }
  void Record(double seconds) { times_.Record(seconds); }
  // The rank whose choice all follow: the one who sees most of a call.
  int ChooserOf(const CallSignature& call) const;
  // The way of the call under way, once all ranks have arrived: never the small one.
  SharedProtocolKind ProtocolOfAll(const CallSignature& call) const;

 private:
  const SharedContext& context_;
  Costs costs_;
  std::optional<SharedProtocolKind> way_;
  OnlineTuner times_;
  bool is_timed_ = false;
};

}  // namespace espalier::runtime
