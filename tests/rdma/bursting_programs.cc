#include "tests/rdma/bursting_programs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>

#include "tests/rdma/rdma_machine.h"

namespace espalier::rdma {
namespace {

std::string UnderShim(const SocketOfHost& socket_of, int host, const std::string& job) {
  return fmt::format("env LD_PRELOAD={} ESPALIER_AGENT_SOCKET={} ESPALIER_JOB={}",
                     ESPALIER_VERBS_SHIM, socket_of(host), job);
}

bool IsInstalled(const std::string& program) {
  return ::access(("/usr/bin/" + program).c_str(), X_OK) == 0;
}

}  // namespace

BurstingProgram FioBursts(const SocketOfHost& socket_of, int bursts) {
  constexpr int kQueuePairs = 2;
  constexpr int kWrites = 20;  // of a burst, on each queue pair
  BurstingProgram program{.job = "fio",
                          .command = {},
                          .flows = {{0, 2}, {1, 3}},
                          .queue_pairs = kQueuePairs,
                          .bursts = bursts,
                          .can_run = IsInstalled("fio")};
  for (const auto& [from, to] : program.flows) {
    const std::string server = fmt::format("/run/server{}.fio", from);
    const std::string client = fmt::format("/run/client{}.fio", from);
    // Few writes at a time, as soft RoCE fails with many.
    const std::string both = fmt::format(
        "[global]\nioengine=rdma\nthread\nbs=8k\niodepth=4\nsize={}k\n", 8 * kWrites * bursts);
    std::string jobs;
    std::string ports;
    for (int i = 0; i < kQueuePairs; ++i) {
      const int port = 18800 + from * kQueuePairs + i;
      jobs += fmt::format("[pair{}]\nport={}\n", i, port);
      ports += fmt::format(" {}", port);
    }
    std::ofstream(server) << both << "rw=read\n" << jobs;
    std::ofstream(client) << both
                          << fmt::format(
                                 "rw=write\nverb=write\nhostname={}\nbindname={}\n"
                                 "thinktime=1000000\nthinktime_blocks={}\n",
                                 AddressOfHost(to, false).ToString(),
                                 AddressOfHost(from, false).ToString(), kWrites)
                          << jobs;
    // A server that misses its client would wait for ever.
    program.command +=
        fmt::format("timeout 200 {} fio {} & ", UnderShim(socket_of, to, program.job), server);
    program.command += fmt::format(
        "( for port in {}; do until rdma resource show cm_id | grep -q \"LISTEN.*:$port\"; do "
        "sleep 0.1; done; done; {} fio {} ) & ",
        ports, UnderShim(socket_of, from, program.job), client);
  }
  program.command += "wait";
  return program;
}

BurstingProgram SteadyFio(const SocketOfHost& socket_of, int from, int to) {
  BurstingProgram program{
      .job = "fio", .command = {}, .flows = {{from, to}}, .can_run = IsInstalled("fio")};
  // The kernel keeps the port of an earlier one for seconds after it was killed.
  static int next_port = 18790;
  const int port = next_port++;
  const std::string both = fmt::format(
      "[global]\nioengine=rdma\nthread\nbs=8k\niodepth=4\nsize=8g\n[pair]\nport={}\n", port);
  std::ofstream("/run/steady_server.fio") << both << "rw=read\n";
  std::ofstream("/run/steady_client.fio")
      << both
      << fmt::format("rw=write\nverb=write\nhostname={}\nbindname={}\n",
                     AddressOfHost(to, false).ToString(), AddressOfHost(from, false).ToString());
  program.command = fmt::format(
      "timeout --foreground 500 {} fio /run/steady_server.fio & until rdma resource show cm_id | "
      "grep -q "
      "'LISTEN.*:{}'; do sleep 0.1; done; timeout --foreground 490 {} fio /run/steady_client.fio; "
      "wait",
      UnderShim(socket_of, to, program.job), port, UnderShim(socket_of, from, program.job));
  return program;
}

BurstingProgram MpiBursts(const SocketOfHost& socket_of, int bursts) {
  constexpr const char* kFolder = "/run/lammps";
  BurstingProgram program{.job = "lammps",
                          .command = {},
                          .flows = {{0, 2}, {2, 1}, {1, 3}, {3, 0}, {2, 0}, {1, 2}, {3, 1}, {0, 3}},
                          .queue_pairs = 2,
                          .bursts = bursts,
                          .can_run = IsInstalled("lmp")};
  Shell(fmt::format("mkdir -p {}", kFolder));
  // Liquid argon, as in the benchmark "lj" of LAMMPS; the ranks' boxes form a ring.
  std::ofstream(fmt::format("{}/in.lj", kFolder)) << fmt::format(
      "units lj\natom_style atomic\nlattice fcc 0.8442\n"
      "region box block 0 32 0 8 0 8\nprocessors 4 1 1\ncreate_box 1 box\ncreate_atoms 1 box\n"
      "mass 1 1.0\nvelocity all create 1.44 87287 loop geom\n"
      "pair_style lj/cut 2.5\npair_coeff 1 1 1.0 1.0 2.5\nneighbor 0.3 bin\n"
      "neigh_modify delay 0 every 20 check no\nfix 1 all nve\n"
      "thermo 1000\nrun 0\nrun {} pre no post no every 5 \"shell sleep 1\"\n",
      5 * bursts);
  std::string ranks;
  for (const int host : {0, 2, 1, 3}) {
    const auto address = RoceAddressOf(host, false);
    ranks += fmt::format(
        "{} -np 1 {} UCX_NET_DEVICES={}:1 UCX_IB_GID_INDEX={} lmp -in in.lj "
        "-log none",
        ranks.empty() ? "" : " :", UnderShim(socket_of, host, program.job), address.device,
        address.gid_index);
  }
  // Two lanes for each connection, over which long messages are split. Soft RoCE delivers
  // datagrams, by which UCX connects, without the address that UCX checks.
  program.command = fmt::format(
      "cd {0} && OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 TMPDIR={0} "
      "OMPI_MCA_pml=ucx OMPI_MCA_osc=ucx OMPI_MCA_btl=^openib,uct OMPI_MCA_oob_tcp_if_include=lo "
      "OMPI_MCA_pml_ucx_tls=any OMPI_MCA_pml_ucx_devices=any OMPI_MCA_mpi_yield_when_idle=1 "
      "OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_rmaps_base_oversubscribe=1 "
      "UCX_TLS=rc_verbs,ud_verbs,self UCX_UD_VERBS_ETH_DGID_CHECK=n UCX_IB_NUM_PATHS=2 "
      "UCX_RNDV_THRESH=8k UCX_RNDV_SCHEME=put_zcopy mpirun.openmpi{1} 2>&1",
      kFolder, ranks);
  return program;
}

}  // namespace espalier::rdma
