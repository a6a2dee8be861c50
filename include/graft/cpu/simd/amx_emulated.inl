// The tiles of AMX in vectors, bit for bit: text, included inside the namespace and region of an instruction set.

struct tile_unit {
    alignas(64) unsigned char tile[8][1024];

    GRAFT_VECTOR tile_unit() { std::memset(tile, 0, sizeof tile); }
    template <int T>
    GRAFT_VECTOR void load(const void* from, std::ptrdiff_t stride) {
        for (int r = 0; r < 16; ++r) std::memcpy(tile[T] + 64 * r, static_cast<const char*>(from) + r * stride, 64);
    }
    template <int T>
    GRAFT_VECTOR void store(void* to, std::ptrdiff_t stride) {
        for (int r = 0; r < 16; ++r) std::memcpy(static_cast<char*>(to) + r * stride, tile[T] + 64 * r, 64);
    }
    template <int T>
    GRAFT_VECTOR void zero() {
        std::memset(tile[T], 0, sizeof tile[T]);
    }
    template <int C, int A, int B>
    GRAFT_VECTOR void multiply_bytes() {
        for (int r = 0; r < 16; ++r)
            for (int j = 0; j < 16; ++j) {
                std::uint32_t sum;
                std::memcpy(&sum, tile[C] + 64 * r + 4 * j, 4);
                for (int k = 0; k < 64; ++k)
                    sum += static_cast<std::uint32_t>(int(tile[A][64 * r + k]) * static_cast<std::int8_t>(tile[B][64 * (k / 4) + 4 * j + k % 4]));
                std::memcpy(tile[C] + 64 * r + 4 * j, &sum, 4);
            }
    }
    // Products of even and of odd numbers are a chain of fused sums each, from zero; their sum is then added.
    template <int C, int A, int B>
    GRAFT_VECTOR void multiply_bfloat16() {
        for (int r = 0; r < 16; ++r)
            for (int j = 0; j < 16; j += V::W) {
                V even = V::zero(), odd = V::zero(), c;
                for (int k = 0; k < 16; ++k) {
                    std::int32_t a, b[V::W];
                    std::memcpy(&a, tile[A] + 64 * r + 4 * k, 4);
                    std::memcpy(b, tile[B] + 64 * k + 4 * j, sizeof b);
                    const I pixel = I::set1(a), weights = I::load(b);
                    even = without_denormals(fma(even_of_pair(pixel), even_of_pair(weights), even));
                    odd = without_denormals(fma(odd_of_pair(pixel), odd_of_pair(weights), odd));
                }
                float sum[V::W];
                std::memcpy(sum, tile[C] + 64 * r + 4 * j, sizeof sum);
                c = without_denormals(without_denormals(V::load(sum)) + without_denormals(even + odd));
                c.store(sum);
                std::memcpy(tile[C] + 64 * r + 4 * j, sum, sizeof sum);
            }
    }
    static GRAFT_VECTOR void fetch(const void*) {}
};
