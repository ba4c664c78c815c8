#include "agent/verbs/front/neighbours.h"

#include "agent/verbs/front/objects.h"
#include "agent/verbs/front/real_functions.h"

static const struct espalier_engine* engine;
static int has_failed;

/* Writes the path of a file beside the front, whatever links lead to the front; returns 0 if it is
 * unknown. */
static int path_beside(const char* file, char (*path)[kMostPath]) {
  struct front_object own;
  size_t end = 0;
  size_t i;
  if (!front_object_of(&engine, &own) || realpath == NULL) return 0;
  if (realpath(own.name, *path) == NULL) return 0;
  for (i = 0; (*path)[i] != '\0'; ++i) {
    if ((*path)[i] == '/') end = i + 1;
  }
  return front_append(*path, end, kMostPath, file) < kMostPath;
}

int front_is_off(void) {
  static const char kOff[] = "off";
  char path[kMostPath];
  const char* const wanted = getenv == NULL ? NULL : getenv("ESPALIER_VERBS");
  if (getauxval == NULL || getauxval(AT_SECURE) != 0) return 1;
  if (wanted != NULL && front_is_same(wanted, kOff)) return 1;
  return access != NULL && path_beside(kOff, &path) && access(path, F_OK) == 0;
}

void* front_open_neighbour(const char* file) {
  char path[kMostPath];
  return path_beside(file, &path) ? front_dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
}

static void report_failure(void) {
  static const char kText[] =
      "espalier-verbs: libespalier-engine.so beside the front is missing or cannot be loaded here; "
      "the program continues unsteered\n";
  const char* const verbose = getenv == NULL ? NULL : getenv("ESPALIER_VERBS_VERBOSE");
  if (__atomic_exchange_n(&has_failed, 1, __ATOMIC_ACQ_REL) || verbose == NULL || write == NULL) {
    return;
  }
  if (front_is_same(verbose, "") || front_is_same(verbose, "0")) return;
  if (write(STDERR_FILENO, kText, sizeof(kText) - 1) < 0) return;
}

/* The loader gives all threads, and all fronts of the folder, the same engine. So no lock is needed
 * here, which a thread inside the loader could wait for. */
const struct espalier_engine* front_engine(void) {
  typedef const struct espalier_engine* open_engine(uint32_t version);
  const struct espalier_engine* opened = front_open_engine();
  if (opened != NULL || __atomic_load_n(&has_failed, __ATOMIC_ACQUIRE) || front_is_off()) {
    return opened;
  }
  void* const library = front_open_neighbour("libespalier-engine.so");
  void* const entry =
      library == NULL || dlsym == NULL ? NULL : dlsym(library, "espalier_verbs_engine");
  if (entry != NULL) opened = ((open_engine*)(uintptr_t)entry)(ESPALIER_ENGINE_VERSION);
  if (opened == NULL) report_failure();
  __atomic_store_n(&engine, opened, __ATOMIC_RELEASE);
  return opened;
}

const struct espalier_engine* front_open_engine(void) {
  return __atomic_load_n(&engine, __ATOMIC_ACQUIRE);
}
