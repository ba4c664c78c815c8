#pragma once

#include <sys/types.h>

#include <string>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "deploy/lab/lab_layout.h"

namespace espalier::lab {

// The process that keeps a lab up: it lives in its own mount and network namespace (and user
// namespace, unless root can do without), has made one network namespace for every node, and
// waits. With it goes the lab: it ends by SIGTERM, with its starter if the options say so, or
// when its starter drops it before Keep. At its end it kills every process of the lab and
// removes `folder`.
class LabHolder {
 public:
  // Starts the process and waits until the empty namespaces stand.
  // Errors: kPermissionDenied, kUnsupported where this machine allows no namespaces.
  static Result<LabHolder> Start(const LabLayout& plan, const std::string& folder,
                                 const std::string& token);

  pid_t pid() const { return pid_; }
  // From now on it lives on without this object.
  void Keep();

 private:
  LabHolder(pid_t pid, UniqueFd go) : pid_(pid), go_(std::move(go)) {}

  pid_t pid_;
  UniqueFd go_;
};

}  // namespace espalier::lab
