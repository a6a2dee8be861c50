// Tiles of the machine (AMX): eight of 16 rows of 64 bytes. Text, included inside a region that has them, whose names compilers do not know: the
// macros of immintrin.h take no template's number, and say nothing of the memory that a load reads.

// The tiles of a task, from its beginning to its end.
struct tile_unit {
    GRAFT_VECTOR tile_unit() {
        struct alignas(64) {
            std::uint8_t palette, start, none[14];
            std::uint16_t row_bytes[16];
            std::uint8_t rows[16];
        } shape = {1, 0, {}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
        __asm__ __volatile__("ldtilecfg %0" ::"m"(shape));
    }
    GRAFT_VECTOR ~tile_unit() { __asm__ __volatile__("tilerelease" ::: "memory"); }
    tile_unit(const tile_unit&) = delete;
    tile_unit& operator=(const tile_unit&) = delete;

    /// Row r of tile T lies r * stride bytes from `from`.
    template <int T>
    GRAFT_VECTOR void load(const void* from, std::ptrdiff_t stride) {
        __asm__ __volatile__("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(T) : "memory");
    }
    template <int T>
    GRAFT_VECTOR void store(void* to, std::ptrdiff_t stride) {
        __asm__ __volatile__("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "i"(T) : "memory");
    }
    template <int T>
    GRAFT_VECTOR void zero() {
        __asm__ __volatile__("tilezero %%tmm%c0" ::"i"(T));
    }
    /// C += A B: 16 x 16 floats, by 16 rows of 32 numbers of bfloat16 and 16 rows of 16 pairs of them.
    template <int C, int A, int B>
    GRAFT_VECTOR void multiply_bfloat16() {
        static_assert(C != A && C != B && A != B, "the tiles of a product differ");
        __asm__ __volatile__("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(C), "i"(A), "i"(B));
    }
    /// C += A B: 16 x 16 sums, by 16 rows of 64 unsigned bytes and 16 rows of 16 times four signed ones. What leaves int32 wraps.
    template <int C, int A, int B>
    GRAFT_VECTOR void multiply_bytes() {
        static_assert(C != A && C != B && A != B, "the tiles of a product differ");
        __asm__ __volatile__("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(C), "i"(A), "i"(B));
    }
    /// Into the second cache.
    static GRAFT_VECTOR void fetch(const void* line) { _mm_prefetch(static_cast<const char*>(line), _MM_HINT_T1); }
};
