// What Swift cannot import by itself: OpenSSL's function-like macros, and Linux headers that are
// missing from the Glibc module.
#pragma once

#include <openssl/bio.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

static inline int traversal_ssl_set_server_name(SSL *ssl, const char *name) {
    return (int)SSL_set_tlsext_host_name(ssl, name);
}

static inline int traversal_ctx_set_min_version(SSL_CTX *context, int version) {
    return (int)SSL_CTX_set_min_proto_version(context, version);
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

/// pthread_setname_np, which only _GNU_SOURCE shows.
void traversal_name_thread(pthread_t thread, const char *name);

/// accept4 with SOCK_NONBLOCK and SOCK_CLOEXEC, which only _GNU_SOURCE shows.
int traversal_accept(int descriptor, struct sockaddr *address, socklen_t *length);
