#include "agent/verbs/front/real_functions.h"

#include "agent/verbs/front/objects.h"

/* Problem: the functions must be those which the call would reach without the front. dlsym knows
 * them only for programs that are linked with libibverbs, may be missing, and would find another
 * front or another copy of libibverbs.
 * Idea: devices are noted with the copy that has opened them. For other calls that counts which the
 * loader has behind the front; if it has none there, the copy that the caller is linked with, then
 * any loaded copy. Other libraries that replace the same functions come first if they are behind
 * the front, as without it. A copy of libibverbs is told from those by a function that nobody
 * replaces.
 * Cost: some microseconds for each loaded object, and only for calls that concern no watched
 * device. */

#define kFunctionOfCopies "ibv_get_device_list"

enum { kMostContexts = 256 };

struct noted_context {
  const void* context; /* NULL: none */
  const void* opened_by;
};
static struct noted_context noted[kMostContexts];

static struct noted_context* find_noted(const void* context) {
  int i;
  for (i = 0; i < kMostContexts && context != NULL; ++i) {
    if (__atomic_load_n(&noted[i].context, __ATOMIC_ACQUIRE) == context) return &noted[i];
  }
  return NULL;
}

void front_forget_context(const void* context) {
  struct noted_context* const known = find_noted(context);
  if (known == NULL) return;
  __atomic_store_n(&known->opened_by, NULL, __ATOMIC_RELEASE);
  __atomic_store_n(&known->context, NULL, __ATOMIC_RELEASE);
}

void front_note_context(const void* context, const void* opened_by) {
  int i;
  front_forget_context(context); /* of an earlier device at that address, which was closed unseen */
  for (i = 0; i < kMostContexts; ++i) {
    const void* none = NULL;
    if (!__atomic_compare_exchange_n(&noted[i].context, &none, context, 0, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE)) {
      continue;
    }
    __atomic_store_n(&noted[i].opened_by, opened_by, __ATOMIC_RELEASE);
    return;
  }
}

static int is_copy(const struct front_object* object) {
  return !front_is_front(object) && front_find_in(object, kFunctionOfCopies, NULL) != NULL;
}

struct request {
  const char* name;
  const char* version;
  const struct front_object* user; /* NULL: any copy; else one that it needs */
  void* function;
};

static int find_in_copy(const struct front_object* object, void* data) {
  struct request* const request = data;
  if (request->user != NULL && !front_needs(request->user, object)) return 0;
  if (!is_copy(object)) return 0;
  request->function = front_find_in(object, request->name, request->version);
  return request->function != NULL;
}

static void* in_any_copy(const char* name, const char* version, const struct front_object* user) {
  struct request request = {name, version, user, NULL};
  front_visit_objects(find_in_copy, &request);
  return request.function;
}

static void* not_in_front(void* function, struct front_object* object) {
  return front_object_of(function, object) && !front_is_front(object) ? function : NULL;
}

/* What the loader has behind the front: for a preloaded front that is what calls reach without it,
 * whatever copy the caller itself is linked with. Sets whether it is of a copy of libibverbs.
 * References with a version accept functions without one, which dlvsym does not find. */
static void* behind_front(const char* name, const char* version, int* of_copy) {
  struct front_object object;
  void* found = dlsym == NULL ? NULL : dlsym(RTLD_NEXT, name);
  *of_copy = 0;
  if (found != NULL && not_in_front(found, &object) != NULL && !is_copy(&object)) return found;
  *of_copy = 1;
  if (dlvsym != NULL) found = dlvsym(RTLD_NEXT, name, version);
  if (found == NULL && dlerror != NULL) (void)dlerror(); /* the program has not asked */
  return not_in_front(found, &object);
}

static void* find_real(const char* name, const char* version, const void* caller,
                       const void* context) {
  const struct noted_context* const known = find_noted(context);
  struct front_object object;
  struct front_object user;
  void* found;
  int of_copy;
  void* const next = behind_front(name, version, &of_copy);
  if (next != NULL && !of_copy) return next;
  if (known != NULL && front_object_of(known->opened_by, &object)) {
    found = front_find_in(&object, name, version);
    if (found != NULL) return found;
  }
  if (next != NULL) return next;
  if (front_object_of(caller, &user) && !front_is_front(&user)) {
    found = is_copy(&user) ? front_find_in(&user, name, version) : NULL;
    if (found == NULL) found = in_any_copy(name, version, &user);
    if (found != NULL) return found;
  }
  return in_any_copy(name, version, NULL);
}

void* front_real(const char* name, const char* version, const void* caller, const void* context) {
  void* found = find_real(name, version, caller, context);
  if (found == NULL && front_dlopen("libibverbs.so.1", RTLD_LAZY) != NULL) {
    found = find_real(name, version, caller, context);
  }
  if (found == NULL) errno = ENOSYS;
  return found;
}

void* front_beside(const void* address, const char* name) {
  struct front_object object;
  return front_object_of(address, &object) ? front_find_in(&object, name, NULL) : NULL;
}

static int find_dlopen(const struct front_object* object, void* data) {
  if (front_is_front(object)) return 0;
  *(void**)data = front_find_in(object, "dlopen", NULL);
  return *(void**)data != NULL;
}

front_dlopen_function* front_next_dlopen(void) {
  static front_dlopen_function* known;
  struct front_object object;
  front_dlopen_function* next = __atomic_load_n(&known, __ATOMIC_ACQUIRE);
  if (next != NULL) return next;
  void* found = dlsym == NULL ? NULL : not_in_front(dlsym(RTLD_NEXT, "dlopen"), &object);
  if (found == NULL) front_visit_objects(find_dlopen, &found);
  next = (front_dlopen_function*)(uintptr_t)found;
  __atomic_store_n(&known, next, __ATOMIC_RELEASE);
  return next;
}

void* front_dlopen(const char* file, int flags) {
  front_dlopen_function* const next = front_next_dlopen();
  void* const handle = next == NULL ? NULL : next(file, flags);
  if (handle == NULL && dlerror != NULL) (void)dlerror();
  return handle;
}
