/* The shared objects that a process has loaded, read from their own tables. This needs nothing of
 * libdl, takes no reference, changes no error state, and finds a symbol in one object only, where
 * dlsym would also search its dependencies. Thread-safe; an object must stay loaded while it is
 * used. */
#ifndef ESPALIER_FRONT_OBJECTS_H
#define ESPALIER_FRONT_OBJECTS_H

#include "agent/verbs/front/system.h"

struct front_object {
  const char* name; /* as the loader opened it; "" for the program */
  uintptr_t base;
  const ElfW(Dyn) * dynamic;
};

/* Finds the object whose code or data has this address. Returns 0 if there is none. */
int front_object_of(const void* address, struct front_object* found);

/* Returns the address of the function that the object defines, or NULL. `version`: of the symbol,
 * which an object without versions has in any case; NULL: any. */
void* front_find_in(const struct front_object* object, const char* name, const char* version);

/* Calls `visit` for the objects in the order in which they were loaded, until it does not return 0.
 * Returns what the last call returned. `visit` must load nothing. */
int front_visit_objects(int (*visit)(const struct front_object*, void*), void* data);

/* Returns whether `user` names the object as one that it needs (DT_NEEDED). */
int front_needs(const struct front_object* user, const struct front_object* object);

/* Writes the folders, separated by colons, in which the loader searches for what the object needs
 * or opens (DT_RPATH, DT_RUNPATH); NULL: none. */
void front_search_paths(const struct front_object* object, const char* (*paths)[2]);

/* Returns whether the object is a front, this one or another. */
int front_is_front(const struct front_object* object);

#endif
