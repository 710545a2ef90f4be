// What Swift cannot import by itself: OpenSSL's function-like macros, and Linux headers that are
// missing from the Glibc module.
#pragma once

#include "CTraversalGSSAPI.h"

#include <openssl/bio.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

static inline int traversal_ssl_set_server_name(SSL *ssl, const char *name) {
    return (int)SSL_set_tlsext_host_name(ssl, name);
}

static inline int traversal_ctx_set_min_version(SSL_CTX *context, int version) {
    return (int)SSL_CTX_set_min_proto_version(context, version);
}

static inline int traversal_ctx_set_max_version(SSL_CTX *context, int version) {
    return (int)SSL_CTX_set_max_proto_version(context, version);
}

/// Hands new sessions of clients to the callback, and keeps none itself.
static inline void traversal_ctx_keep_client_sessions(SSL_CTX *context) {
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
}

static inline void traversal_ssl_configure(SSL *ssl) {
    SSL_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                          SSL_MODE_RELEASE_BUFFERS);
}

static inline long traversal_bio_mem_data(BIO *bio, const char **data) {
    return BIO_get_mem_data(bio, (char **)data);
}

/// One line, UTF-8 left as it is, control characters escaped.
static inline int traversal_print_name(BIO *bio, const X509_NAME *name) {
    return X509_NAME_print_ex(bio, name, 0, XN_FLAG_ONELINE & ~ASN1_STRFLGS_ESC_MSB);
}

static inline void traversal_bio_reset(BIO *bio) { (void)BIO_reset(bio); }

static inline void traversal_bio_set_eof_return(BIO *bio, int value) {
    BIO_set_mem_eof_return(bio, value);
}

// Declared without the headers that they come from: a system header included here would make its types appear
// to be this module's in some builds and Glibc's in others.

/// Names the calling thread, for debuggers and `top`; at most 15 bytes.
void traversal_name_thread(const char *name);

/// accept4 with SOCK_NONBLOCK and SOCK_CLOEXEC. `address` is a `struct sockaddr *`.
int traversal_accept(int descriptor, void *address, unsigned int *length);

/// A socket that becomes readable when links, addresses or routes of this machine change (rtnetlink); negative where
/// the system gives none.
int traversal_network_changes(void);

/// getrandom without flags.
long traversal_random(void *bytes, unsigned long count);
