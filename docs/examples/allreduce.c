/* Adds up numbers of all processes of a job: allreduce STORE RANK SIZE [ADDRESS]
 * With an ADDRESS, where the other ranks reach this one, they communicate over TCP. */
#include <espalier/espalier_collective.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char** argv) {
  if (argc < 4) {
    fprintf(stderr, "usage: allreduce STORE RANK SIZE [ADDRESS]\n");
    return 2;
  }
  const int rank = atoi(argv[2]);
  const int size = atoi(argv[3]);
  struct espalier_comm_options options = {0};
  if (argc > 4) {
    options.medium = ESPALIER_TCP;
    options.address = argv[4];
  }
  espalier_comm* comm = NULL;
  char error[512] = "";
  if (espalier_comm_create(argv[1], "world", rank, size, &options, &comm, error, sizeof error)) {
    fprintf(stderr, "rank %d cannot join: %s\n", rank, error);
    return 1;
  }
  float numbers[3] = {1.0F, (float)rank, 0.5F};
  if (espalier_allreduce(comm, numbers, numbers, 3, ESPALIER_F32, ESPALIER_SUM)) {
    fprintf(stderr, "rank %d: %s\n", rank, espalier_comm_error(comm));
    espalier_comm_destroy(comm);
    return 1;
  }
  printf("rank %d of %d: %g %g %g\n", rank, size, numbers[0], numbers[1], numbers[2]);
  espalier_comm_destroy(comm);
  return 0;
}
