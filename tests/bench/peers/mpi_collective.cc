// Runs one MPI collective, f32. Built and run by tests/bench/compare_allreduce.
// usage: mpirun -np N mpi_collective COLLECTIVE REPETITIONS BYTES...
#include <mpi.h>

#include "tests/bench/peers/measure.h"

namespace {

void Call(const std::string& collective, const peers::Sizes& sizes, float* input, float* output) {
  const int count = static_cast<int>(sizes.count);
  if (collective == "allgather") {
    MPI_Allgather(input, count, MPI_FLOAT, output, count, MPI_FLOAT, MPI_COMM_WORLD);
  } else if (collective == "reduce_scatter") {
    MPI_Reduce_scatter_block(input, output, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  } else if (collective == "broadcast") {
    MPI_Bcast(output, count, MPI_FLOAT, 0, MPI_COMM_WORLD);
  } else if (collective == "reduce") {
    MPI_Reduce(input, output, count, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
  } else if (collective == "alltoall") {
    MPI_Alltoall(input, count, MPI_FLOAT, output, count, MPI_FLOAT, MPI_COMM_WORLD);
  } else {
    MPI_Allreduce(input, output, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }
}

double Combine(double value, MPI_Op op) {
  double result = 0;
  MPI_Allreduce(&value, &result, 1, MPI_DOUBLE, op, MPI_COMM_WORLD);
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  MPI_Init(&argc, &argv);
  int rank = 0;
  int ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int i = 3; i < argc; ++i) {
    const std::size_t bytes = std::stoull(argv[i]);
    const peers::Sizes sizes = peers::SizesOf(argv[1], bytes, ranks);
    std::vector<float> input(sizes.input, 1);
    std::vector<float> output(sizes.output, 1);
    peers::Measure(
        bytes, sizes, rank, std::stoi(argv[2]),
        [&] { Call(argv[1], sizes, input.data(), output.data()); },
        [](double value) { return Combine(value, MPI_MAX); },
        [](double value) { return Combine(value, MPI_SUM); });
  }
  MPI_Finalize();
  return 0;
}
