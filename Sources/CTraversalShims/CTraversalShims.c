#define _GNU_SOURCE
#include "CTraversalShims.h"

void traversal_name_thread(pthread_t thread, const char *name) { (void)pthread_setname_np(thread, name); }
