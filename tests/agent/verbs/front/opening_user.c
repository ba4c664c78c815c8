/* A library that opens a file which only its own search path has. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

int open_own_file(const char* file);
int open_own_file(const char* file) {
  void* const handle = dlopen(file, RTLD_NOW);
  int (*number)(void) = NULL;
  if (handle != NULL) *(void**)&number = dlsym(handle, "fake_number");
  printf("own file %d\n", number == NULL ? 0 : number());
  return 0;
}
