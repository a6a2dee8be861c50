// GRAFT_TEST_SANITIZED is defined where a sanitizer brings an allocator, and a slowness, of its own.
#pragma once

#if defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer) || __has_feature(memory_sanitizer)
#define GRAFT_TEST_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define GRAFT_TEST_SANITIZED 1
#endif
