/* GS_SANITIZER: a sanitizer has this build's memory; GS_SANITIZER_ADDRESS: that of addresses. gcc and clang
 * say it differently. */
#ifndef GS_CORE_BASE_SANITIZER_H
#define GS_CORE_BASE_SANITIZER_H

#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define GS_SANITIZER_ADDRESS 1
#endif
#if __has_feature(thread_sanitizer)
#define GS_SANITIZER 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define GS_SANITIZER_ADDRESS 1
#endif
#if defined(GS_SANITIZER_ADDRESS) || defined(__SANITIZE_THREAD__)
#define GS_SANITIZER 1
#endif

#endif
