/* dlopen, for programs that open libibverbs by its name instead of being linked with it (NCCL,
 * NVSHMEM): they get the front of that name, whose functions are found before the real ones, and
 * which has the real library as its only dependency. All other calls continue in the next dlopen,
 * as if the caller had called it: it looks for files where its caller does. */
#include "agent/verbs/front/neighbours.h"
#include "agent/verbs/front/objects.h"
#include "agent/verbs/front/real_functions.h"

/* Returns the real library for which the front stands if the program asks for this file; NULL: it
 * does not. NCCL_IBVERBS_LIB may name the front itself, which lacks the other functions. */
static const char* real_library(const char* file) {
  static const char kReal[] = "libibverbs.so.1";
  if (file == NULL) return NULL;
  if (front_is_same(file, "libespalier-verbs.so")) return kReal;
  return front_is_same(file, "libibverbs.so") || front_is_same(file, kReal) ? file : NULL;
}

/* Writes the folder of the object, which search paths name $ORIGIN. Returns its length; 0: unknown.
 */
static size_t origin_of(const struct front_object* object, char (*path)[kMostPath]) {
  const char* const file = object->name[0] == '\0' ? "/proc/self/exe" : object->name;
  size_t end = 0;
  size_t i;
  if (realpath == NULL || realpath(file, *path) == NULL) return 0;
  for (i = 0; (*path)[i] != '\0'; ++i) {
    if ((*path)[i] == '/') end = i;
  }
  return end;
}

static const char* after(const char* text, const char* prefix) {
  while (*prefix != '\0' && *text == *prefix) {
    ++text;
    ++prefix;
  }
  return *prefix == '\0' ? text : NULL;
}

/* Whether the folder at the beginning of a search path may have the file: also if the folder has
 * parts that only the loader knows. */
static int may_have(const char* folder, const char* file, const struct front_object* object) {
  char path[kMostPath];
  const char* rest = after(folder, "$ORIGIN");
  size_t length = 0;
  if (rest == NULL) rest = after(folder, "${ORIGIN}");
  if (rest != NULL) {
    length = origin_of(object, &path);
    if (length == 0) return 1;
    folder = rest;
  }
  for (; *folder != '\0' && *folder != ':'; ++folder) {
    if (*folder == '$' || length + 1 >= kMostPath) return 1;
    path[length++] = *folder;
  }
  path[length] = '\0';
  length = front_append(path, length, kMostPath, "/");
  length = front_append(path, length, kMostPath, file);
  return length == kMostPath || access == NULL || access(path, F_OK) == 0;
}

/* Whether the caller has folders of its own in which its dlopen would find the file. */
static int has_private_copy(const void* caller, const char* file) {
  struct front_object object;
  const char* paths[] = {NULL, NULL};
  size_t i;
  if (!front_object_of(caller, &object)) return 0;
  front_search_paths(&object, &paths);
  for (i = 0; i < sizeof(paths) / sizeof(paths[0]); ++i) {
    const char* at = paths[i];
    while (at != NULL) {
      if (may_have(at, file, &object)) return 1;
      while (*at != '\0' && *at != ':') ++at;
      at = *at == ':' ? at + 1 : NULL;
    }
  }
  return 0;
}

/* Both libraries must be the same, or the program would get another one than without the front. */
static int has_same_copy(void* a, void* b) {
  static const char kName[] = "ibv_get_device_list";
  void* const in_a = dlsym == NULL ? NULL : dlsym(a, kName);
  return in_a != NULL && in_a == dlsym(b, kName);
}

static __attribute__((noinline)) void* open_front(front_dlopen_function* next, const char* file,
                                                  int flags) {
  void* const real = next(real_library(file), flags);
  void* const ours = real == NULL ? NULL : front_open_neighbour("libibverbs.so");
  return ours != NULL && has_same_copy(real, ours) ? ours : real;
}

static __attribute__((noinline)) int wants_front(const char* file, int flags, const void* caller) {
  return real_library(file) != NULL && (flags & RTLD_NOLOAD) == 0 &&
         !has_private_copy(caller, file) && !front_is_off();
}

FRONT_EXPORT void* dlopen(const char* file, int flags) {
  front_dlopen_function* const next = front_next_dlopen();
  const void* const caller = __builtin_extract_return_addr(__builtin_return_address(0));
  if (next == NULL) return NULL;
  if (wants_front(file, flags, caller)) return open_front(next, file, flags);
  return next(file,
              flags); /* a jump, so that the caller's return address stays; a test checks it */
}
