#define _GNU_SOURCE
#include "CTraversalShims.h"

#include <pthread.h>
#include <sys/random.h>
#include <sys/socket.h>

void traversal_name_thread(const char *name) { (void)pthread_setname_np(pthread_self(), name); }

int traversal_accept(int descriptor, void *address, unsigned int *length) {
    return accept4(descriptor, address, length, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

long traversal_random(void *bytes, unsigned long count) { return getrandom(bytes, count, 0); }
