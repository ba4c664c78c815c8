#pragma once

#include <cstddef>

#include "collective/runtime/registered_memory.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace espalier::runtime {

// A memory file that two processes have mapped, and that can no longer shrink under either.
class MappedFile {
 public:
  // Zero at first. Errors: kUnavailable.
  static Result<MappedFile> Make(std::size_t bytes);
  // A file that came from another process. All its memory is had from the system here, so that
  // touching it cannot fail later.
  // Errors: kInvalidArgument for what is no memory file of 1 to `most_bytes` bytes that is sealed
  // against shrinking, and can be written; kResourceExhausted for want of memory.
  static Result<MappedFile> Adopt(UniqueFd file, std::size_t most_bytes);

  std::byte* data() const { return mapping_.address(); }
  std::size_t size() const { return mapping_.bytes(); }
  int file() const { return file_.get(); }

 private:
  MappedFile(UniqueFd file, Mapping mapping)
      : file_(std::move(file)), mapping_(std::move(mapping)) {}

  UniqueFd file_;
  Mapping mapping_;
};

}  // namespace espalier::runtime
