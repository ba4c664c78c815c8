// An MPI allreduce, timed as gloo_allreduce.cc: prints "bytes seconds" for each size.
// Built and run by tests/bench/compare_allreduce. usage: mpirun -np N mpi_allreduce BYTES...
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  constexpr int kRepetitions = 9;
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int i = 1; i < argc; ++i) {
    const std::size_t bytes = std::stoull(argv[i]);
    const auto count = static_cast<int>(bytes / sizeof(float));
    std::vector<float> input(bytes / sizeof(float), 1);
    std::vector<float> output(input.size());
    const auto call = [&] {
      MPI_Allreduce(input.data(), output.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    };
    const std::size_t batch = std::clamp<std::size_t>((1 << 20) / bytes, 1, 200);
    call();
    call();
    std::vector<double> times;
    for (int repetition = 0; repetition < kRepetitions; ++repetition) {
      MPI_Barrier(MPI_COMM_WORLD);
      const double begin = MPI_Wtime();
      for (std::size_t c = 0; c < batch; ++c) call();
      const double mine = (MPI_Wtime() - begin) / static_cast<double>(batch);
      double slowest = 0;
      MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
      times.push_back(slowest);
    }
    std::sort(times.begin(), times.end());
    if (rank == 0) std::printf("%zu %.9f\n", bytes, times[times.size() / 2]);
  }
  MPI_Finalize();
  return 0;
}
