#pragma once

#include <cstddef>

#include "collective/runtime/shared/area/registered_memory.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace espalier::runtime {

// A memory file that two processes map. Its seals keep its size and pages fixed, so accessing it
// never fails and never allocates.
class MappedFile {
 public:
  // Creates a zeroed file. All its memory is allocated at once and charged to the calling process,
  // which takes about as long as writing it. Errors: kUnavailable.
  static Result<MappedFile> Make(std::size_t bytes);
  // Maps a file from an untrusted process. First it is sealed against everything but reading and
  // writing in place (F_SEAL_FUTURE_WRITE also forbids punching holes: memfd_create and fcntl in
  // the Linux manual), and then checked for holes. Thus all its pages are charged to its creator,
  // who cannot give any back. A file can be adopted once. Errors: kInvalidArgument, with the
  // remedy, unless it is a memory file (memfd) of 1 to `most_bytes` bytes that is writable, sealed
  // against growing and shrinking, open to further seals, and without holes.
  static Result<MappedFile> Adopt(UniqueFd file, std::size_t most_bytes);

  std::byte* data() const { return mapping_.address(); }
  std::size_t size() const { return mapping_.bytes(); }
  // The descriptor of a file from Make, to be sent to the adopting process; -1 for an adopted file.
  int file() const { return file_.get(); }

 private:
  MappedFile(UniqueFd file, Mapping mapping)
      : file_(std::move(file)), mapping_(std::move(mapping)) {}

  UniqueFd file_;
  Mapping mapping_;
};

}  // namespace espalier::runtime
