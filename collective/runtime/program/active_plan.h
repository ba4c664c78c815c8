#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <memory_resource>
#include <string>
#include <utility>

#include "collective/program/program.h"
#include "collective/program/verifier/verifier.h"
#include "collective/runtime/calls/collective_plan.h"
#include "collective/runtime/calls/medium.h"
#include "collective/runtime/program/interpreter.h"
#include "collective/transport/base/rendezvous_store.h"
#include "collective/transport/base/transport.h"
#include "collective/transport/rendezvous/group_credentials.h"
#include "collective/transport/rendezvous/tcp_socket.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace espalier::runtime {

// Verifies the program for `size` ranks, on the slots that transports have, and finds its root
// where a file does not name it.
// Errors: kInvalidArgument for no program, one of another number of ranks, or one that is not right
// (in the verifier's words) or that takes more than `budget` to verify.
Result<CollectivePlan> CheckCollectivePlan(CollectivePlan plan, int size,
                                           std::int64_t budget = program::VerifyOptions().budget);

// A plan in force: its program, prepared on connections of its own.
class ActivePlan {
 public:
  struct Place {
    transport::RendezvousStore& store;
    std::string group;
    int rank = 0;
    int size = 1;
    Medium medium = Medium::kShared;
    std::string address;                       // over TCP and verbs
    transport::GroupCredentials members;       // over TCP and verbs
    std::shared_ptr<const UniqueFd> listener;  // over TCP
    std::pmr::memory_resource* memory = std::pmr::get_default_resource();
    // Asked now and then while it waits for the others; an error ends that.
    transport::WaitCheck check;
  };

  // All ranks do it at the same time. Of a plan that CheckCollectivePlan accepts.
  // Errors: those of the transports (kAlreadyExists for a source port that is taken) and of
  // Interpreter::Prepare.
  static Result<std::unique_ptr<ActivePlan>> Prepare(CollectivePlan plan, const Place& place,
                                                     transport::Deadline deadline);

  const CollectivePlan& plan() const { return plan_; }
  // Whether it is meant for such a call; `bytes`: of the data of all ranks together, as files count
  // it.
  bool Serves(const CallSignature& call, std::size_t bytes) const;
  // As Interpreter::Run.
  Result<void> Run(const Operands& operands, const CallSignature& call,
                   const transport::WaitLimit& limit) {
    return interpreter_->Run(operands, call, limit);
  }

 private:
  ActivePlan(CollectivePlan plan, std::unique_ptr<transport::Transport> transport,
             std::unique_ptr<Interpreter> interpreter)
      : plan_(std::move(plan)),
        transport_(std::move(transport)),
        interpreter_(std::move(interpreter)) {}

  CollectivePlan plan_;
  std::unique_ptr<transport::Transport> transport_;
  std::unique_ptr<Interpreter> interpreter_;
};

}  // namespace espalier::runtime
