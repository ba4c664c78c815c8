/* Finds the functions of the program's own libibverbs, which the front replaces. A process may have
 * several copies (of the system, of a Python package); the right one is that which the caller would
 * reach without the front, and for an open device that which has opened it. Thread-safe. */
#ifndef ESPALIER_FRONT_REAL_FUNCTIONS_H
#define ESPALIER_FRONT_REAL_FUNCTIONS_H

#include "agent/verbs/front/system.h"

/* Finds the function for a call that will return to `caller` (NULL: unknown) and that concerns this
 * device (NULL: none). Returns NULL, and sets errno to ENOSYS, if the process has no libibverbs
 * with this function. */
void* front_real(const char* name, const char* version, const void* caller, const void* context);

/* Notes that the device was opened by this function; and that it is closed. */
void front_note_context(const void* context, const void* opened_by);
void front_forget_context(const void* context);

/* Finds a function that the object of `address` defines, in any version; NULL: none. */
void* front_beside(const void* address, const char* name);

/* Calls the dlopen that would be called without the front. */
void* front_dlopen(const char* file, int flags);

/* Returns that dlopen; NULL: none. */
typedef void* front_dlopen_function(const char* file, int flags);
front_dlopen_function* front_next_dlopen(void);

#endif
