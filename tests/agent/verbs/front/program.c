/* The program that the fronts are tested with. Each argument is one thing to do. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/agent/verbs/front/use_device.h"

static void* open_first(const char* const* names) {
  void* handle = NULL;
  for (; *names != NULL && handle == NULL; ++names) handle = dlopen(*names, RTLD_NOW);
  if (handle == NULL) printf("no library: %s\n", dlerror());
  return handle;
}

static void* function(void* handle, const char* name, int versioned) {
  void* const found = versioned ? dlvsym(handle, name, "IBVERBS_1.1") : dlsym(handle, name);
  if (found == NULL) printf("%s is missing\n", name);
  return found;
}

static int use_opened(const char* const* names, int versioned) {
  void* const handle = open_first(names);
  struct verbs_functions verbs;
  if (handle == NULL) return 1;
  *(void**)&verbs.open_device = function(handle, "ibv_open_device", versioned);
  *(void**)&verbs.close_device = function(handle, "ibv_close_device", versioned);
  *(void**)&verbs.create_qp = function(handle, "ibv_create_qp", versioned);
  *(void**)&verbs.modify_qp = function(handle, "ibv_modify_qp", versioned);
  *(void**)&verbs.query_qp = function(handle, "ibv_query_qp", versioned);
  *(void**)&verbs.destroy_qp = function(handle, "ibv_destroy_qp", versioned);
  *(void**)&verbs.destroy_cq = function(handle, "ibv_destroy_cq", versioned);
  *(void**)&verbs.get_async_event = function(handle, "ibv_get_async_event", versioned);
  *(void**)&verbs.get_device_list = function(handle, "ibv_get_device_list", versioned);
  const int failed = use_device(&verbs);
  dlclose(handle);
  return failed;
}

/* As NCCL does. */
static int use_as_nccl(void) {
  const char* const wanted = getenv("NCCL_IBVERBS_LIB");
  const char* const names[] = {wanted != NULL ? wanted : "libibverbs.so", "libibverbs.so",
                               "libibverbs.so.1", NULL};
  return use_opened(names, 1);
}

/* As NVSHMEM does. */
static int use_as_nvshmem(void) {
  static const char* const names[] = {"libibverbs.so.1", NULL};
  return use_opened(names, 0);
}

static void* load(const char* file, const char* name) {
  void* const handle = dlopen(file, RTLD_NOW);
  if (handle == NULL) printf("no library: %s\n", dlerror());
  return handle == NULL ? NULL : dlsym(handle, name);
}

static int use_own_copy_of(const char* file) {
  int (*call)(void) = NULL;
  *(void**)&call = load(file, "use_own_copy");
  return call == NULL ? 1 : call();
}

static int open_by(const char* file, const char* opened) {
  int (*call)(const char*) = NULL;
  *(void**)&call = load(file, "open_own_file");
  return call == NULL ? 1 : call(opened);
}

static int open_missing(void) {
  const char* error;
  printf("missing %d", dlopen("libno-such-library.so", RTLD_NOW) == NULL);
  error = dlerror();
  printf(" %s\n", error == NULL ? "without a reason" : error);
  return 0;
}

#ifdef FAKE_LINKED
static const struct verbs_functions linked = LINKED_FUNCTIONS;
static int use_linked(void) { return use_device(&linked); }

/* Adds the failures to a count. */
static void* open_and_close(void* failures) {
  struct ibv_device** const list = ibv_get_device_list(NULL);
  int i;
  for (i = 0; i < 50; ++i) {
    struct ibv_context* const context = ibv_open_device(list[0]);
    if (context == NULL || ibv_close_device(context) != 0) {
      __atomic_fetch_add((int*)failures, 1, __ATOMIC_RELAXED);
    }
  }
  ibv_free_device_list(list);
  return NULL;
}

static int open_from_threads(void) {
  pthread_t threads[8];
  int failures = 0;
  size_t i;
  for (i = 0; i < 8; ++i) pthread_create(&threads[i], NULL, open_and_close, &failures);
  for (i = 0; i < 8; ++i) pthread_join(threads[i], NULL);
  printf("failures %d\n", failures);
  return 0;
}

static int use_in_child(void) {
  int status = 1;
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) _exit(use_linked());
  waitpid(child, &status, 0);
  printf("child %d\n", status);
  return 0;
}
#else
static int use_linked(void) { return 1; }
static int open_from_threads(void) { return 1; }
static int use_in_child(void) { return 1; }
#endif

static int do_one(const char* what) {
  if (strcmp(what, "linked") == 0) return use_linked();
  if (strcmp(what, "nccl") == 0) return use_as_nccl();
  if (strcmp(what, "nvshmem") == 0) return use_as_nvshmem();
  if (strcmp(what, "threads") == 0) return open_from_threads();
  if (strcmp(what, "fork") == 0) return use_in_child();
  if (strcmp(what, "missing") == 0) return open_missing();
  if (strcmp(what, "closeall") == 0) return (int)syscall(SYS_close_range, 3, ~0U, 0);
  if (strcmp(what, "own-copy") == 0) return use_own_copy_of("liblinked-user.so");
  if (strcmp(what, "own-file") == 0) return open_by("libopening-user.so", "libown.so");
  if (strcmp(what, "private") == 0) return open_by("libopening-user.so", "libibverbs.so.1");
  return 2;
}

int main(int count, char** arguments) {
  int i;
  for (i = 1; i < count; ++i) {
    printf("-- %s %d\n", arguments[i], do_one(arguments[i]));
    fflush(stdout);
  }
  return 0;
}
