#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace espalier::program {

// A rank of a plan, in short form. Every block may use all channels and buffers.
struct RankText {
  std::vector<int> chunks;           // of input, output and scratch
  std::vector<int> memory;           // peers of the memory channels
  std::vector<int> port;             // peers of the port channels
  std::vector<std::string> buffers;  // "1s": scratch of rank 1
  std::vector<int> semaphores;       // initial values
  std::vector<std::string> blocks;   // operations, with ';' between them
  std::vector<int> switch_group{};   // ranks of a switch channel on the input
};

// Writes an execution plan of MSCCL++. An operation is "NAME PLACES PLACES CHANNELS @PART/PARTS",
// of which what does not apply is left out. A list has commas. A place is i0, o1, s2 (buffer and
// chunk), r0.3 (remote buffer 0, chunk 3) or x3 (switch channel, chunk 3), and *2 for two chunks. A
// channel is m0 or p1, a semaphore #0, a barrier %ID/SIZE. "pipeline N|OP|OP" has N chunks.
std::string WritePlan(std::string_view collective, bool in_place,
                      const std::vector<RankText>& ranks, std::string_view more = "");

}  // namespace espalier::program
