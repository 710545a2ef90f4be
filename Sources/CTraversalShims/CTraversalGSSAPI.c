#include "CTraversalGSSAPI.h"

#include <dlfcn.h>

static const struct traversal_gss_oid host_based_service = {10, "\x2a\x86\x48\x86\xf7\x12\x01\x02\x01\x04"};
static const struct traversal_gss_oid spnego = {6, "\x2b\x06\x01\x05\x05\x02"};

bool traversal_gss_load(struct traversal_gss *gss) {
    void *library = dlopen("libgssapi_krb5.so.2", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) return false;
    gss->host_based_service = &host_based_service;
    gss->spnego = &spnego;
    // POSIX has a function's address fit into a void *; ISO C has no cast for it.
    *(void **)&gss->import_name = dlsym(library, "gss_import_name");
    *(void **)&gss->release_name = dlsym(library, "gss_release_name");
    *(void **)&gss->init_sec_context = dlsym(library, "gss_init_sec_context");
    *(void **)&gss->delete_sec_context = dlsym(library, "gss_delete_sec_context");
    *(void **)&gss->release_buffer = dlsym(library, "gss_release_buffer");
    *(void **)&gss->display_status = dlsym(library, "gss_display_status");
    return gss->import_name && gss->release_name && gss->init_sec_context && gss->delete_sec_context &&
           gss->release_buffer && gss->display_status;
}
