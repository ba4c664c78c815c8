#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <memory_resource>
#include <string>
#include <utility>
#include <vector>

#include "collective/program/program.h"
#include "collective/program/verifier/verifier.h"
#include "collective/runtime/calls/collective_plan.h"
#include "collective/runtime/calls/medium.h"
#include "collective/runtime/program/interpreter.h"
#include "collective/transport/base/rendezvous_store.h"
#include "collective/transport/base/send_observer.h"
#include "collective/transport/base/transport.h"
#include "collective/transport/hosts/host_map.h"
#include "collective/transport/rendezvous/group_credentials.h"
#include "collective/transport/rendezvous/tcp_socket.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace espalier::runtime {

// Verifies a plan's program for `size` ranks with the number of slots that transports have, and
// fills in the root if the program's file does not name it. Of a program of which only the part of
// `rank` is here, it checks what concerns this rank (program::CheckPart).
// Errors: kInvalidArgument if there is no program, if it is for another number of ranks or the part
// of another rank, if it is incorrect (with the verifier's message), or if its verification exceeds
// `budget`.
Result<CollectivePlan> CheckCollectivePlan(CollectivePlan plan, int rank, int size,
                                           std::int64_t budget = program::VerifyOptions().budget);

// A collective plan in force: its program, with open connections of its own.
class ActivePlan {
 public:
  struct Place {
    transport::RendezvousStore& store;
    std::string group;
    int rank = 0;
    int size = 1;
    Medium medium = Medium::kShared;
    transport::HostMap hosts;                                     // of kHosts
    std::string address;                                          // TCP and verbs
    transport::GroupCredentials members;                          // TCP and verbs
    std::shared_ptr<const UniqueFd> listener;                     // TCP
    std::vector<std::shared_ptr<const UniqueFd>> more_listeners;  // TCP: TcpOptions::more_listeners
    std::pmr::memory_resource* memory = std::pmr::get_default_resource();
    transport::SendObserver* observer = nullptr;  // TCP: TcpOptions::observer
    // Called periodically while Prepare waits for other ranks; an error ends the wait.
    transport::WaitCheck check;
  };

  // Opens the connections of a plan that CheckCollectivePlan has accepted. All ranks call it at the
  // same time. Errors: those of the transports (kAlreadyExists for a source port in use) and of
  // Interpreter::Prepare.
  static Result<std::unique_ptr<ActivePlan>> Prepare(CollectivePlan plan, const Place& place,
                                                     transport::Deadline deadline);

  const CollectivePlan& plan() const { return plan_; }
  // Whether the plan applies to a call. `bytes`: the data of all ranks together, as program files
  // count it.
  bool Serves(const CallSignature& call, std::size_t bytes) const;
  // As Interpreter::Run.
  Result<void> Run(const Operands& operands, const CallSignature& call,
                   const transport::WaitLimit& limit) {
    EnterCall(*transport_, call);
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
