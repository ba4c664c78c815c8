#pragma once

#include <sys/types.h>

#include <string>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "deploy/lab/lab_layout.h"

namespace espalier::lab {

// The process that keeps a lab up. It runs in its own mount and network namespace (and user
// namespace, unless root needs none), creates one network namespace for every node, and waits. The
// lab ends with it: on SIGTERM, with its starter if the options say so, or if its starter destroys
// this object before Keep. At its end it kills every process of the lab and removes `folder`.
class LabHolder {
 public:
  // Starts the process and waits until the empty namespaces exist.
  // Errors: kPermissionDenied, kUnsupported if this machine allows no namespaces.
  static Result<LabHolder> Start(const LabLayout& layout, const std::string& folder,
                                 const std::string& token);

  pid_t pid() const { return pid_; }
  // Keeps the process running after this object is destroyed.
  void Keep();

 private:
  LabHolder(pid_t pid, UniqueFd go) : pid_(pid), go_(std::move(go)) {}

  pid_t pid_;
  UniqueFd go_;
};

}  // namespace espalier::lab
