#define _GNU_SOURCE
#include "CTraversalShims.h"

void traversal_name_thread(pthread_t thread, const char *name) { (void)pthread_setname_np(thread, name); }

int traversal_accept(int descriptor, struct sockaddr *address, socklen_t *length) {
    return accept4(descriptor, address, length, SOCK_NONBLOCK | SOCK_CLOEXEC);
}
