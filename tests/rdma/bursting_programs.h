#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace espalier::rdma {

// A program of others that keeps its queue pairs and sends in bursts, under the shim.
struct BurstingProgram {
  std::string job;
  std::string command;                     // of the shell; runs it to its end
  std::vector<std::pair<int, int>> flows;  // between hosts of different leaves
  std::size_t queue_pairs = 1;             // of each flow
  int bursts = 0;                          // of each flow, one after another
  bool can_run = true;                     // false: it is not installed
};

// The agent's socket that programs on a host use.
using SocketOfHost = std::function<std::string(int)>;

// The benchmark fio with its engine for RDMA, between two pairs of hosts. Each client writes on two
// queue pairs, 20 blocks of 8 KiB on each, and then thinks for a second.
BurstingProgram FioBursts(const SocketOfHost& socket_of, int bursts);
// fio without pauses, on one queue pair from host to host. It ends after a minute or two.
BurstingProgram SteadyFio(const SocketOfHost& socket_of, int from, int to);
// A molecular dynamics simulation (LAMMPS) with one MPI rank on each host, by Open MPI over
// reliable connections of UCX with two lanes. In each step the ranks exchange atoms at the borders
// of their boxes, and compute. After five steps the ranks wait for a second, as for a checkpoint.
BurstingProgram MpiBursts(const SocketOfHost& socket_of, int bursts);

}  // namespace espalier::rdma
