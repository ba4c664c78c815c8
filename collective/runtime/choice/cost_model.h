#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "collective/program/program.h"

namespace espalier::runtime {

// What a call asks of the longest chain of ranks that wait for one another, and of the rank that
// has most to do; or, where ranks share cores, of one core for its part of all ranks' work.
struct Work {
  double rounds = 0;    // of communication, one after another
  double messages = 0;  // sent or received, whichever are more
  double bytes = 0;     // the same
  double reduced_bytes = 0;
};

// The alpha-beta-gamma model of the literature with a second alpha: seconds for one of each of what
// Work counts. A round is latency, which a rank spends waiting; a message is processor time, which
// ranks that send to many at once pay as often.
struct Costs {
  double round = 0;
  double message = 0;
  double byte = 0;
  double reduced_byte = 0;
  // Ranks that can work at the same time: the cores of a machine that all of them share. 0: all.
  int lanes = 0;
};

double Predict(const Costs& costs, const Work& work);

struct CostSample {
  Work work;
  double seconds = 0;
};

// The costs, none below zero, with the least sum of (predicted - measured)^2 / (predicted x
// measured) over all samples: twice as long is as wrong as half as long, at every size. A cost that
// no sample depends on is 0. The same samples in the same order give the same bits. Complexity:
// O(samples); samples of no time are left out.
Costs FitCosts(std::span<const CostSample> samples, int lanes);

// What a program asks for, in chunks of its data; a verified one.
struct ProgramWork {
  double rounds = 0;
  struct Amount {
    double messages = 0;
    double chunks = 0;  // sent or received
    double reduced_chunks = 0;
  };
  Amount busiest;  // of the rank that has most, of each
  Amount mean;     // of all ranks
  double ranks = 1;
  double all_chunks = 1;  // that the data of the call is cut into
  double mean_count = 1;  // chunks in one message
};
ProgramWork MeasureWork(const program::Program& program);

// On that many bytes of data (of all ranks together where each has a share), in messages of
// message_bytes on average: more is cut into tiles that follow one another through the rounds.
Work ScaleWork(const ProgramWork& work, std::size_t bytes, std::size_t message_bytes, int lanes);

}  // namespace espalier::runtime
