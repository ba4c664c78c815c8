#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "controller/offline/imports/joined.h"

namespace espalier::imports {

// Collects what files say against each other.
class Contradictions {
 public:
  // `sources` must outlive this.
  explicit Contradictions(std::span<const Cabling> sources) : sources_(sources) {}

  std::string At(const Source& source) const;
  // "FILE:LINE:COL: what".
  void Add(const Source& source, const std::string& what);
  // kInvalidArgument with the first 16, one a line.
  Result<void> Finish() const;

 private:
  static constexpr std::size_t kMostShown = 16;

  std::span<const Cabling> sources_;
  std::vector<std::string> shown_;
  std::size_t count_ = 0;
};

}  // namespace espalier::imports
