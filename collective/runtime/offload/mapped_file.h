#pragma once

#include <cstddef>

#include "collective/runtime/shared/registered_memory.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace espalier::runtime {

// A memory file that two processes have mapped, and that can change neither its size nor its pages
// under either: touching it never fails, and never allocates.
class MappedFile {
 public:
  // Zero at first. All its memory is allocated at once, on the account of the calling process: that
  // takes about as long as to write it. Errors: kUnavailable.
  static Result<MappedFile> Make(std::size_t bytes);
  // A file that came from a process that is not trusted. It is sealed here against everything but
  // being read and written in place (F_SEAL_FUTURE_WRITE also forbids to punch holes: memfd_create
  // and fcntl in the Linux manual), and only then looked at for holes: whoever made it has paid for
  // all its pages, and cannot give any back. It can be adopted once.
  // Errors: kInvalidArgument, with the remedy, for what is no memory file (memfd) of 1 to
  // `most_bytes` bytes that can be written, is sealed against growing and shrinking, can be sealed
  // further, and has all its pages.
  static Result<MappedFile> Adopt(UniqueFd file, std::size_t most_bytes);

  std::byte* data() const { return mapping_.address(); }
  std::size_t size() const { return mapping_.bytes(); }
  // Of a file that was made here, to be sent to who adopts it; -1 once it was adopted.
  int file() const { return file_.get(); }

 private:
  MappedFile(UniqueFd file, Mapping mapping)
      : file_(std::move(file)), mapping_(std::move(mapping)) {}

  UniqueFd file_;
  Mapping mapping_;
};

}  // namespace espalier::runtime
