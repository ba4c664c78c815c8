#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/result.h"
#include "common/fabric/topology.h"
#include "controller/controller.h"
#include "controller/operations/topology_keeper.h"

namespace espalier::controller {

// The topology that operators have applied to a running controller, in the file
// STATE_FILE.topology: one line with the digest of the configured topology file as it was then, and
// the topology. It is in force while the configured file is unchanged. Once that is edited, the
// configured file is in force again, and the applied topology is discarded.
// Thread safety: one thread.
class AppliedTopology final : public TopologyKeeper {
 public:
  AppliedTopology(std::string topology_file, const std::string& state_file)
      : topology_file_(std::move(topology_file)), file_(state_file + ".topology") {}

  struct Loaded {
    fabric::Topology topology;
    bool is_applied = false;  // it is the applied one
    bool is_stale = false;    // an applied one exists, but the configured file has changed since
  };
  // Returns the topology that a controller starts with. Errors: those of the files.
  Result<Loaded> Load() const;
  // Does what follows from a start with this topology: forgets intents that an applied topology
  // does not have the objects of, or discards an applied topology that is no longer in force.
  void HandleStart(const Loaded& loaded, Controller& controller) const;

  bool has_prepared() const override { return !prepared_.empty(); }
  Result<void> Prepare(std::string_view text) override;
  void Abandon() override { prepared_.clear(); }
  Result<void> Commit() override;
  // Whether Commit has put a topology in force since the start.
  bool has_committed() const { return has_committed_; }
  // `on_commit` is called by Commit: the daemon must start again.
  void OnCommit(std::function<void()> on_commit) { on_commit_ = std::move(on_commit); }

 private:
  const std::string topology_file_;
  const std::string file_;
  std::string NextFile() const { return file_ + ".next"; }

  std::string prepared_;  // "": none
  std::function<void()> on_commit_ = [] {};
  bool has_committed_ = false;
};

}  // namespace espalier::controller
