#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "deploy/lab/lab_layout.h"

namespace espalier::lab {

// A lab that was started, as recorded in its file lab.json.
struct LabRecord {
  LabOptions options;
  pid_t pid = 0;        // of the holder
  std::string started;  // the kernel's start time of that process, as pids are reused
  std::string token;    // identifies the lab's processes
  bool alive = false;   // determined when the record is read
};

// The labs of this user by name: one folder each, with lab.json and topology.json, in
// $XDG_RUNTIME_DIR/espalier/labs or /tmp/espalier-<uid>/labs.
class LabRegistry {
 public:
  // Creates the folder if it is missing.
  // Errors: kPermissionDenied if it belongs to another user.
  static Result<LabRegistry> Open();

  // All labs, ascending by name, dead ones included.
  std::vector<LabRecord> List() const;
  // Errors: kNotFound, naming the labs that exist.
  Result<LabRecord> Find(const std::string& name) const;

  // Reserves the name and removes the remains of a dead lab of that name. Until the claim is
  // destroyed, all other claims wait. Errors: kAlreadyExists.
  Result<UniqueFd> Claim(const std::string& name) const;
  // Writes the record, and sets its fields `started` and `alive`.
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
