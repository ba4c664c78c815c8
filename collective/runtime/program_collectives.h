#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "collective/runtime/backend.h"
#include "collective/runtime/interpreter.h"
#include "collective/transport/transport.h"

namespace espalier::runtime {

// The algorithm for a call of so many bytes: few steps for small data, few bytes for large.
std::string_view ChooseAlgorithm(program::CollectiveKind kind, std::size_t bytes);

// Collectives as programs over any transport: the algorithm of the call is made, verified and
// prepared when it is first needed, and kept.
class ProgramCollectives : public Backend {
 public:
  // Large data moves over `connections` connections to each peer at the same time.
  ProgramCollectives(std::unique_ptr<transport::Transport> transport, int connections)
      : transport_(std::move(transport)), connections_(connections) {}

  Result<void> Run(const Operands& operands, const CallSignature& call,
                   const transport::Patience& patience) override;
  Result<void> Check() override { return transport_->Check(); }
  void Abort(const Error& cause) override { transport_->Abort(cause); }
  Result<std::byte*> Allocate(std::size_t bytes) override;
  Result<void> Release(std::byte* memory) override;

 private:
  Result<Interpreter*> Find(std::string_view algorithm, int root, int instances,
                            transport::Deadline deadline);

  std::unique_ptr<transport::Transport> transport_;
  int connections_;
  std::map<std::pair<std::string, int>, std::unique_ptr<Interpreter>> interpreters_;
};

}  // namespace espalier::runtime
