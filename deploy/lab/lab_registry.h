#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "deploy/lab/lab_layout.h"

namespace espalier::lab {

// A lab that was started, as its file lab.json tells.
struct LabRecord {
  LabOptions options;
  pid_t pid = 0;        // of the holder
  std::string started;  // the kernel's start time of that process: pids are used again
  std::string token;    // marks the lab's processes
  bool alive = false;   // found when it was read
};

// The labs of this user by name: one folder each, with lab.json and topology.json, in
// $XDG_RUNTIME_DIR/espalier/labs or /tmp/espalier-<uid>/labs.
class LabRegistry {
 public:
  // Makes the folder where it is missing.
  // Errors: kPermissionDenied if it belongs to someone else.
  static Result<LabRegistry> Open();

  // Ascending by name; dead ones too.
  std::vector<LabRecord> List() const;
  // Errors: kNotFound, naming the labs that there are.
  Result<LabRecord> Find(const std::string& name) const;

  // Reserves the name, and with it all names until the claim is destroyed. What a dead lab of
  // that name left is removed. Errors: kAlreadyExists.
  Result<UniqueFd> Claim(const std::string& name) const;
  // Sets started and alive.
  Result<void> Write(LabRecord record) const;
  void Remove(const std::string& name) const;

  std::string Folder(const std::string& name) const { return root_ + "/" + name; }
  std::string TopologyFile(const std::string& name) const {
    return Folder(name) + "/topology.json";
  }

 private:
  explicit LabRegistry(std::string root) : root_(std::move(root)) {}

  std::string root_;
};

}  // namespace espalier::lab
