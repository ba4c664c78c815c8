#pragma once

#include <map>
#include <memory>
#include <memory_resource>
#include <string>
#include <string_view>
#include <utility>

#include "collective/runtime/calls/backend.h"
#include "collective/runtime/choice/algorithm_choice.h"
#include "collective/runtime/program/interpreter.h"
#include "collective/transport/base/transport.h"

namespace espalier::runtime {

// Runs collectives as programs over any transport. The algorithm is chosen by the call's size; its
// program is made, verified and connected when first needed, and kept. Unequal parts go around a
// ring, over one connection to each peer.
class ProgramCollectives : public Backend {
 public:
  // `connections`: parallel connections to each peer for large data. `algorithm`: forced for its
  // collective at every size; empty: none. `memory`: source of the memory that calls need. `hosts`:
  // over which hosts the ranks are spread, if they share memory within them.
  ProgramCollectives(std::unique_ptr<transport::Transport> transport, int connections,
                     const Costs& costs, std::string algorithm,
                     std::pmr::memory_resource* memory = std::pmr::get_default_resource(),
                     const HostLayout& hosts = {})
      : transport_(std::move(transport)),
        connections_(connections),
        choice_(costs, transport_->size(), transport_->slots(), transport_->message_bytes(), hosts),
        algorithm_(std::move(algorithm)),
        memory_(memory) {}

  Result<void> Run(const Operands& operands, const CallSignature& call,
                   const transport::WaitLimit& limit) override;
  Result<void> Enter(const CallSignature& call, const transport::WaitLimit& limit) override;
  MessagePath Messages() override { return {*transport_, ChannelsOf(connections_)}; }
  // The most channels of the programs between two ranks of a group with so many connections. The
  // channels of messages come after them.
  static int ChannelsOf(int connections) { return kChannels * connections; }
  Result<void> Check() override { return transport_->Check(); }
  void Abort(const Error& cause) override { transport_->Abort(cause); }
  Result<std::byte*> Allocate(std::size_t bytes) override;
  Result<void> Release(std::byte* memory) override;

 private:
  // The channels of programs between two ranks, for each connection.
  static constexpr int kChannels = 8;

  Result<Interpreter*> Find(std::string_view algorithm, int root, int instances,
                            transport::Deadline deadline);
  Result<std::string_view> Choose(program::CollectiveKind kind, const Operands& operands);

  std::unique_ptr<transport::Transport> transport_;
  int connections_;
  AlgorithmChoice choice_;
  std::string algorithm_;
  std::pmr::memory_resource* memory_;
  std::map<std::pair<std::string, int>, std::unique_ptr<Interpreter>> interpreters_;
};

}  // namespace espalier::runtime
