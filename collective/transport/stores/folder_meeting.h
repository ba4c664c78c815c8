#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "collective/transport/base/rendezvous_store.h"
#include "common/base/result.h"

namespace espalier::transport {

// The ranks of one run of a group, which have met in a folder that may hold what earlier runs of
// the same name left there, also runs that were killed.
//
// Problem: a rank that finds a file cannot tell whether a rank of this run or of an earlier one
// wrote it. Idea: every rank draws a random number and waits for an answer that repeats it.
//   rank r   writes meeting.r     its number and the size of the group
//   rank 0   writes meeting.all   a run: a fresh name, the size, and the numbers of all ranks
//   rank r   writes agrees.r      the run's name, when the run lists its own number
//   rank 0   writes meeting.go    the run's name, when all ranks have agreed to it
// Rank 0 may have read the numbers of an earlier run. These are overwritten when the ranks come,
// and it then writes another run. Invariant: a run that goes lists the numbers of ranks that all
// agreed to its name after it was drawn. Cost: one file written and a few read by each rank; rank 0
// reads two files of every rank that has not agreed, every few milliseconds.
//
// The run's keys begin with its name. Each rank holds a shared lock on a file of the run, so the
// last one to leave, or rank 0 of a later run, knows that nobody needs its files, and removes them.
// Thread safety: any thread.
class FolderMeeting {
 public:
  // Returns when all ranks of this run have come. `name` may hold slashes.
  // Errors: kInvalidArgument for a rank outside of the group; kNotFound if the folder does not
  // exist; kFailedPrecondition for ranks of different sizes; kAlreadyExists if another process
  // joins as the same rank at the same time; kUnavailable past the deadline, with the ranks that
  // are missing, or for a folder that cannot be written.
  static Result<std::unique_ptr<FolderMeeting>> Join(const std::filesystem::path& folder,
                                                     const std::string& name, int rank, int size,
                                                     Deadline deadline);
  virtual ~FolderMeeting() = default;

  // "NAME/RUN", the same on all ranks and different in every run.
  virtual const std::string& run_name() const = 0;
  // The run's own keys in the folder. Lives as long as the meeting.
  virtual RendezvousStore& store() = 0;
};

// Errors: kNotFound, with the remedy, unless the folder exists.
Result<void> CheckFolder(const std::filesystem::path& folder);

}  // namespace espalier::transport
