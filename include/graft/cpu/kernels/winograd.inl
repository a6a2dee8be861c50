// Winograd convolution, and the table of the family: text, included once for each instruction set.

inline const conv_kernels* conv_table() {
    static constexpr bool conv = wanted("Conv");
    static constexpr conv_kernels all = {
        conv_tile_pixels,
        conv_tile_pixels,
        conv ? &conv_direct : nullptr,
        conv ? &conv_generic : nullptr,
        conv ? &conv_first_layer : nullptr,
        conv ? &conv_depthwise : nullptr,
        nullptr,
        conv ? &finish_run : nullptr,
    };
    return &all;
}
