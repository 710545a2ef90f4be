// The part of GSSAPI (RFC 2744) that the client's side of Negotiate needs. It is declared here and loaded at run time,
// so that neither its headers nor its library have to be there.
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct traversal_gss_buffer {
    size_t length;
    void *value;
};

struct traversal_gss_oid {
    unsigned int length;
    const void *elements;
};

/// Handles (names, credentials, contexts) are pointers to types of the library's own.
struct traversal_gss {
    /// GSS_C_NT_HOSTBASED_SERVICE (RFC 2744, appendix A).
    const struct traversal_gss_oid *host_based_service;
    /// SPNEGO (RFC 4178, section 3).
    const struct traversal_gss_oid *spnego;

    unsigned int (*import_name)(unsigned int *minor, struct traversal_gss_buffer *text,
                                const struct traversal_gss_oid *type, void **name);
    unsigned int (*release_name)(unsigned int *minor, void **name);
    unsigned int (*init_sec_context)(unsigned int *minor, void *credential, void **context, void *target,
                                     const struct traversal_gss_oid *mechanism, unsigned int flags,
                                     unsigned int lifetime, void *bindings, struct traversal_gss_buffer *input,
                                     const struct traversal_gss_oid **actual_mechanism,
                                     struct traversal_gss_buffer *output, unsigned int *actual_flags,
                                     unsigned int *actual_lifetime);
    unsigned int (*delete_sec_context)(unsigned int *minor, void **context, struct traversal_gss_buffer *output);
    unsigned int (*release_buffer)(unsigned int *minor, struct traversal_gss_buffer *buffer);
    unsigned int (*display_status)(unsigned int *minor, unsigned int status, int status_type,
                                   const struct traversal_gss_oid *mechanism, unsigned int *message_context,
                                   struct traversal_gss_buffer *text);
};

/// Loads MIT Kerberos' library. It stays loaded.
///
/// Returns false where the library, or a function of it, isn't there.
bool traversal_gss_load(struct traversal_gss *gss);
